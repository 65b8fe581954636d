"""The simulated listener: plays in real time, stalls honestly, acks changes at once."""

from __future__ import annotations

import math

import pytest

from gateway.client import Player
from gateway.protocol.chunk import Chunk, Codec, Flag


def chunk(seq: int, start: float, length: float, *, last: bool = False, n: int = 1) -> Chunk:
    flags = Flag.LAST if last else Flag(0)
    start_ticks, ticks = round(start * 48_000), round(length * 48_000)
    return Chunk(Codec.PCM, flags, n, seq, start_ticks, ticks, (b"",), 0)


def states(player: Player, now: float) -> list[str]:
    return [ack["state"] for ack in player.acks(now)]


def test_plays_at_the_speed_of_the_clock_and_lags_by_the_latency():
    player = Player(latency=0.05)
    player.received(chunk(0, 0, 1, last=True), 10.0)

    player.advance(10.4)

    assert player.tracks[1].buffered == pytest.approx(0.6)
    assert player.heard(1) == pytest.approx(0.35)


def test_waits_for_its_prebuffer():
    player = Player(prebuffer=0.2)
    player.received(chunk(0, 0, 0.1), 10.0)
    waiting = states(player, 10.1)

    player.received(chunk(1, 0.1, 0.1), 10.2)

    assert (waiting, states(player, 10.2)) == (["waiting"], ["playing"])
    assert player.tracks[1].started_at == 10.2


def test_short_whole_utterance_needs_no_prebuffer():
    player = Player(prebuffer=0.2)

    player.received(chunk(0, 0, 0.1, last=True), 10.0)

    assert states(player, 10.0) == ["playing"]


def test_stall_is_counted_with_its_length():
    player = Player()
    player.received(chunk(0, 0, 0.1), 10.0)
    player.advance(10.05)
    player.received(chunk(1, 0.1, 0.1, last=True), 10.4)

    player.advance(11)

    track = player.tracks[1]
    assert (track.stalls, track.state) == (1, "ended")
    assert track.stalled == pytest.approx(0.3)


def test_chunk_in_time_causes_no_stall_however_coarse_the_clock():
    player = Player()
    player.received(chunk(0, 0, 0.1), 10.0)
    player.received(chunk(1, 0.1, 0.1, last=True), 10.1)

    player.advance(20)

    assert player.tracks[1].stalls == 0


def test_next_utterance_starts_when_the_first_has_ended():
    player = Player()
    player.received(chunk(0, 0, 0.1, last=True), 10.0)
    player.received(chunk(0, 0, 0.2, last=True, n=2), 10.01)

    player.advance(10.2)

    assert player.tracks[2].started_at == pytest.approx(10.1)
    assert player.tracks[2].buffered == pytest.approx(0.1)


def test_pause_stands_still_and_is_no_stall():
    player = Player()
    player.received(chunk(0, 0, 0.1), 10.0)
    player.pause(10.05)
    player.resume(15.0)

    player.advance(15.02)

    assert player.tracks[1].buffered == pytest.approx(0.03)
    assert player.tracks[1].stalls == 0


def test_acks_changes_at_once_and_the_rest_every_interval():
    player = Player(interval=0.1, latency=0)
    player.received(chunk(0, 0, 0.3, last=True), 10.0)

    told = [states(player, 10 + ms / 1000) for ms in (0, 50, 100, 150, 250, 299, 301, 400)]

    assert told == [["playing"], [], ["playing"], [], ["playing"], [], ["ended"], []]


def test_tells_when_it_will_run_dry():
    player = Player()
    player.received(chunk(0, 0, 0.3), 10.0)

    player.advance(10.1)

    assert player.next_change() == pytest.approx(10.3)


def test_tells_when_the_next_ack_is_due():
    player = Player(interval=0.1, latency=0)
    idle = player.next_ack()
    player.received(chunk(0, 0, 0.25, last=True), 10.0)
    due = [player.next_ack()]
    for now in (10.0, 10.1, 10.2, 10.251):
        player.acks(now)
        due.append(player.next_ack())

    assert idle == math.inf
    assert due == [*map(pytest.approx, (10.0, 10.1, 10.2, 10.25)), math.inf]


@pytest.mark.parametrize("frames", range(1, 30))
def test_end_is_acked_whatever_the_length(frames: int):
    player = Player()
    player.received(chunk(0, 0, frames * 0.08 - 0.0065, last=True), 10.0)

    assert states(player, 20.0) == ["ended"]


def test_chunk_that_changes_nothing_makes_no_ack_due():
    player = Player(interval=0.1)
    player.received(chunk(0, 0, 1), 10.0)
    player.acks(10.0)

    player.received(chunk(1, 1, 1), 10.05)

    assert player.next_ack() == pytest.approx(10.1)


def test_dropped_utterance_makes_way_for_the_next():
    player = Player()
    player.received(chunk(0, 0, 5), 10.0)
    player.received(chunk(0, 0, 1, n=2), 10.1)

    player.drop(1, 10.5)

    assert player.tracks[2].started_at == 10.5


def test_has_ended_when_the_last_sound_was_heard_not_when_it_was_rendered():
    player = Player(latency=0.25)
    player.received(chunk(0, 0, 0.1, last=True), 10.0)
    rendered = player.acks(10.2)

    heard = player.acks(10.36)

    assert [(ack["state"], ack["played_ms"]) for ack in rendered + heard] == [
        ("playing", 0),
        ("ended", 100),
    ]


def test_utterance_that_arrives_too_early_waits_for_its_turn():
    player = Player()
    player.expect(2, {"first"}, 10.0)
    player.received(chunk(0, 0, 0.2, last=True, n=2), 10.0)
    player.advance(10.5)
    early = player.tracks[2].started_at

    player.received(chunk(0, 0, 0.1, last=True, n=1), 10.5)
    player.release("first", 10.5)
    player.advance(11)

    assert early is None
    assert player.tracks[1].started_at == 10.5
    assert player.tracks[2].started_at == pytest.approx(10.6)
