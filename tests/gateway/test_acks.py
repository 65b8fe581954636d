"""Believing acks: honest players are never refused, lies stay within what is possible."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.client import Player
from gateway.protocol.chunk import Chunk, Codec, Flag
from gateway.protocol.requests import Ack
from gateway.sound import TICKS_PER_SECOND
from gateway.voice.acks import AckRefused, Listener
from gateway.voice.link import Link

SECOND = TICKS_PER_SECOND


def link() -> Link:
    return Link(interval=0.1)


def listener(*, chunks: int = 10, first: float = 100.0, length: float = 0.5) -> Listener:
    """Ten chunks of half a second, all sent at once."""
    it = Listener(acks=True)
    for index in range(1, chunks + 1):
        it.carried(round(index * length * SECOND), first, sent_ms=round(first * 1000))
    return it


def ack(seq: int, played_ms: float, t_ms: float, **fields: object) -> Ack:
    known = {"n": 1, "latency_ms": 0.0}
    return Ack(seq=seq, played_ms=played_ms, t_ms=t_ms, **{**known, **fields})  # type: ignore[arg-type]


def refused(it: Listener, bad: Ack, now: float) -> str:
    with pytest.raises(AckRefused) as caught:
        it.accept(bad, link(), now)
    return caught.value.param


def test_rendered_is_played_plus_latency():
    report = listener().accept(ack(9, 200, 5, latency_ms=150), link(), 100.3)

    assert (report.rendered, report.state) == (0.35, "playing")


def test_rendered_never_exceeds_what_was_received():
    report = listener().accept(ack(0, 490, 5, latency_ms=270), link(), 100.9)

    assert report.rendered == 0.5


@pytest.mark.parametrize(
    ("seq", "played_ms", "param"),
    [
        (10, 0, "seq"),  # never sent
        (0, 521, "played_ms"),  # beyond the chunk it says it has
        (-1, 21, "played_ms"),  # nothing received, something heard
        (9, 1_160, "played_ms"),  # faster than our clock: a second since the first chunk
    ],
)
def test_what_cannot_be_is_refused(seq, played_ms, param):
    assert refused(listener(), ack(seq, played_ms, 5), 101.0) == param


@pytest.mark.parametrize(
    ("later", "param"),
    [
        (ack(3, 1_000, 1_100), "seq"),  # un-received a chunk
        (ack(5, 900, 1_100), "played_ms"),  # un-heard something
        (ack(5, 1_031, 900), "t_ms"),  # its clock went back, its playhead did not
        (ack(6, 1_000, 900), "t_ms"),  # nor did what it received
        (ack(5, 1_500, 1_050), "played_ms"),  # faster than its own clock
    ],
)
def test_what_contradicts_the_ack_before_is_refused(later, param):
    it = listener()
    it.accept(ack(5, 1_000, 1_000), link(), 110.0)

    assert refused(it, later, 112.0) == param
    assert it.played_ms == 1_000


def test_small_steps_back_are_clamped():
    it = listener()
    it.accept(ack(5, 1_000, 1_000), link(), 110.0)

    report = it.accept(ack(5, 971, 1_100), link(), 110.1)

    assert report.rendered == 1.0


def test_played_a_little_beyond_the_chunk_is_clamped():
    assert listener().accept(ack(0, 519, 5), link(), 101.0).rendered == 0.5


def test_equal_client_times_are_honest():
    it = listener()
    it.accept(ack(5, 1_000, 1_000), link(), 110.0)

    it.accept(ack(5, 1_000, 1_000, state="paused"), link(), 110.1)

    assert it.state == "paused"


def test_stall_with_sound_at_hand_counts_as_pause():
    facts = link()

    report = listener().accept(ack(5, 1_000, 5, state="stalled"), facts, 110.0)

    assert (report.state, facts.inconsistent) == ("paused", 1)


def test_bluetooth_listener_stalls_while_the_ear_still_lags():
    report = listener().accept(ack(5, 2_730, 5, state="stalled", latency_ms=270), link(), 110.0)

    assert report.state == "stalled"


def test_end_is_believed_only_when_all_was_sent_and_heard():
    it = listener(chunks=2)

    early = it.accept(ack(1, 1_000, 5, state="ended"), link(), 110.0)
    it.complete = True
    right = it.accept(ack(1, 1_000, 6, state="ended"), link(), 110.1)

    assert (early.state, right.state) == ("paused", "ended")


def test_buffer_that_does_not_fit_is_counted_only():
    facts = link()

    listener().accept(ack(5, 1_000, 5, buffered_ms=10), facts, 110.0)

    assert (facts.inconsistent, facts.refused) == (1, 0)


def test_three_violations_within_a_minute_end_the_trust():
    facts = link()

    told = [facts.strike(now) for now in (0.0, 30.0, 59.0, 60.0)]

    assert told == [False, False, True, False]
    assert not facts.trusted


def test_rare_violations_are_forgiven():
    facts = link()

    for now in (0.0, 40.0, 80.0, 120.0):
        facts.strike(now)

    assert facts.trusted


def test_round_trip_leaves_out_the_time_the_client_held():
    facts = link()
    echo = 100_000

    listener().accept(ack(0, 0, 5_300, rx_ms=5_000, echo=echo), facts, 100.34)

    assert facts.round_trip == pytest.approx(0.04)
    assert facts.delay == pytest.approx(0.02)


def test_without_echo_the_round_trip_is_bounded_by_the_answer():
    facts = link()

    listener().accept(ack(0, 0, 5), facts, 100.05)

    assert facts.round_trip == pytest.approx(0.05)


def test_impossible_hold_teaches_nothing():
    facts = link()

    listener().accept(ack(0, 0, 9_000, rx_ms=5_000, echo=100_000), facts, 100.05)

    assert (facts.round_trip, facts.inconsistent) == (None, 1)


def test_jitter_grows_with_uneven_arrival():
    facts = link()
    for seq, late in enumerate((0.0, 30.0, 0.0, 30.0)):
        facts.timed(ack(seq, 0, 50.0 + late, rx_ms=50.0 + late, echo=0), 0, 0.2)

    assert 0.004 < facts.jitter < 0.006


def test_heard_goes_on_with_the_clock_between_acks():
    it, facts = listener(), link()
    facts.round_trip = 0.0
    it.accept(ack(9, 1_000, 5), facts, 105.0)

    assert it.heard(facts, 105.25) == pytest.approx(1.25 * SECOND)
    assert it.heard(facts, 200.0) == it.sent


def test_heard_stands_still_while_paused_but_not_for_ever():
    it, facts = listener(), link()
    facts.round_trip = 0.0
    it.accept(ack(9, 1_000, 5, state="paused"), facts, 105.0)

    assert it.heard(facts, 110.0) == 1.0 * SECOND
    assert it.heard(facts, 112.0) == it.sent  # silent for seven seconds: as if it never acked


def test_without_acks_playback_is_assumed_to_start_on_arrival():
    it = listener()

    assert it.heard(link(), 100.5) == pytest.approx(0.5 * SECOND)


def test_queued_utterance_begins_where_its_predecessor_ends():
    facts = link()
    before = listener(chunks=4)
    before.complete = True
    it = listener(first=100.5)
    it.after = before

    assert it.heard(facts, 101.5) == 0
    assert it.heard(facts, 102.5) == pytest.approx(0.5 * SECOND)


def test_queued_utterance_does_not_wait_for_a_cancelled_one():
    it = listener(first=100.5)
    it.after = listener(chunks=4)
    it.heard(link(), 100.5)

    it.after.stopped = True

    assert it.heard(link(), 100.5) == 0
    assert it.heard(link(), 101.0) == pytest.approx(0.5 * SECOND)


@st.composite
def schedules(draw: st.DrawFn) -> list[tuple[float, float]]:
    """Chunks as (seconds since the one before, seconds of sound)."""
    chunk = st.tuples(st.floats(0, 1.5), st.sampled_from([0.0735, 0.08, 0.16, 0.32, 0.96]))
    return draw(st.lists(chunk, min_size=1, max_size=12))


@settings(max_examples=150)
@given(
    schedules(),
    st.floats(0, 0.25),  # one-way delay
    st.floats(0, 0.3),  # output latency
    st.floats(0, 0.3),  # prebuffer
    st.floats(-1e6, 1e6),  # the client's clock starts anywhere
    st.lists(st.floats(0, 12), max_size=4).map(sorted),  # pauses and resumes
)
def test_honest_player_is_never_refused(schedule, delay, latency, prebuffer, epoch, toggles):
    it, facts = Listener(acks=True), link()
    player = Player(prebuffer=prebuffer, latency=latency)
    arrivals, now, start = [], 100.0, 0
    for seq, (pause, length) in enumerate(schedule):
        now += pause
        last = seq == len(schedule) - 1
        flags = Flag.LAST if last else Flag(0)
        duration = round(length * SECOND)
        stamp = int(now * 1000)
        chunk = Chunk(Codec.PCM, flags, 1, seq, start, duration, (b"",), stamp)
        arrivals.append((now, chunk))
        start += duration

    for tick in range(400):
        now = 100.0 + tick * 0.05
        while arrivals and arrivals[0][0] + delay <= now:
            sent, chunk = arrivals.pop(0)
            it.carried(chunk.end, sent, sent_ms=chunk.sent_at)
            it.complete |= Flag.LAST in chunk.flags
            player.received(chunk, sent + delay)
        while toggles and 100 + toggles[0] <= now:
            toggles.pop(0)
            (player.resume if player.paused else player.pause)(now)
        for fields in player.acks(now):
            fields["t_ms"] += epoch
            fields["rx_ms"] += epoch
            report = it.accept(Ack(**fields), facts, now + delay)
            track = player.tracks[1]
            assert report.rendered == pytest.approx(track.rendered / SECOND, abs=0.031)
            assert report.state == track.acked_state

    assert facts.refused == 0
    assert facts.round_trip is None or facts.round_trip >= 2 * delay - 0.002


LIES = st.builds(
    ack,
    seq=st.integers(-1, 12),
    played_ms=st.floats(0, 20_000),
    t_ms=st.floats(0, 20_000),
    latency_ms=st.floats(0, 2_000),
    state=st.sampled_from(["waiting", "playing", "stalled", "paused", "ended"]),
    rx_ms=st.none() | st.floats(0, 20_000),
    echo=st.none() | st.just(100_000),
    buffered_ms=st.none() | st.floats(0, 60_000),
)


@given(st.lists(st.tuples(st.floats(0, 1), LIES), max_size=20))
def test_lies_never_exceed_what_is_possible(lies):
    it, facts = listener(), link()
    now, played = 100.0, 0.0
    for pause, lie in lies:
        now += pause
        before = dataclasses.replace(it)
        try:
            report = it.accept(lie, facts, now)
        except AckRefused:
            report = None
        if report is None:
            assert it == before
            continue

        assert 0 <= report.rendered * SECOND <= it.sent
        assert it.played_ms <= (now - 100.0) * 1000 + 150
        assert it.played_ms >= played
        assert facts.delay - 1e-9 <= report.delay <= now - 100.0 + 0.001
        assert 0 <= it.heard(facts, now) <= it.sent
        played = it.played_ms
