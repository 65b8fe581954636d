"""Acks over networks that delay, drop, double and reorder them; acks of liars."""

from __future__ import annotations

import dataclasses
from itertools import cycle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.playback import PlaybackClock
from gateway.client import Player
from gateway.protocol.chunk import Chunk, Codec, Flag
from gateway.protocol.requests import Ack
from gateway.sound import TICKS_PER_SECOND
from gateway.voice.acks import AckRefused, Listener
from gateway.voice.client_clock import MOST_DRIFT
from gateway.voice.link import Link

START = 100.0  # s, our clock: the first chunk is sent
TICK = 0.05  # s between looks of the client
TICKS = 400
FATES = {"arrives": 1, "lost": 0, "doubled": 2}


@dataclasses.dataclass(frozen=True)
class Client:
    """What is honest about it: its clock, its sound card, its player."""

    epoch: float  # ms its clock shows when ours is 0
    drift: float  # of its clock, by which the sound card runs too
    prebuffer: float
    latency: float
    toggles: list[float]  # s after the start: pauses and resumes

    def own(self, at: float) -> float:
        return at * (1 + self.drift)


@dataclasses.dataclass(frozen=True)
class Network:
    """Each way has a least delay; queues come on top."""

    down: float
    up: float
    queues: list[float]
    fates: list[str]


@dataclasses.dataclass(frozen=True)
class Delivery:
    """An ack as it arrives, and what was true when it was made."""

    arrival: float
    made: float
    ack: Ack
    rendered: float  # s
    state: str


def chunks_of(schedule: list[tuple[float, float]]) -> list[tuple[float, Chunk]]:
    """When each chunk is sent, and the chunk."""
    chunks, now, start = [], START, 0
    for seq, (pause, length) in enumerate(schedule):
        now += pause
        flags = Flag.LAST if seq == len(schedule) - 1 else Flag(0)
        duration = round(length * TICKS_PER_SECOND)
        chunks.append(
            (now, Chunk(Codec.PCM, flags, 1, seq, start, duration, (b"",), int(now * 1000)))
        )
        start += duration
    return chunks


def journeys(client: Client, network: Network, chunks: list[tuple[float, Chunk]]) -> list[Delivery]:
    """Play what arrives; the acks of it, in the order in which they arrive."""
    player = Player(prebuffer=client.prebuffer, latency=client.latency)
    queues, fates = cycle(network.queues), cycle(network.fates)
    incoming, toggles, deliveries, arrival = [], list(client.toggles), [], 0.0
    for sent, chunk in chunks:
        arrival = max(arrival, sent + network.down + next(queues))  # TCP keeps the order
        incoming.append((arrival, chunk))
    for tick in range(TICKS):
        now = START + tick * TICK
        while incoming and incoming[0][0] <= now:
            arrival, chunk = incoming.pop(0)
            player.received(chunk, client.own(arrival))
        while toggles and START + toggles[0] <= now:
            toggles.pop(0)
            (player.resume if player.paused else player.pause)(client.own(now))
        for fields in player.acks(client.own(now)):
            fields["t_ms"] += client.epoch
            fields["rx_ms"] += client.epoch
            rendered = player.tracks[1].rendered / TICKS_PER_SECOND
            deliveries += [
                Delivery(
                    now + network.up + next(queues), now, Ack(**fields), rendered, fields["state"]
                )
                for _ in range(FATES[next(fates)])
            ]
    return sorted(deliveries, key=lambda each: each.arrival)


queues = st.lists(st.floats(0, 0.01) | st.floats(0, 2), min_size=1, max_size=30)
fates = st.lists(st.sampled_from(["arrives", "arrives", "lost", "doubled"]), min_size=1, max_size=9)
pieces = st.tuples(st.floats(0, 1.5), st.sampled_from([0.0735, 0.08, 0.16, 0.32, 0.96]))
clients = st.builds(
    Client,
    epoch=st.floats(-1e9, 1e9),
    drift=st.floats(-200e-6, 200e-6),
    prebuffer=st.floats(0, 0.3),
    latency=st.floats(0, 0.3),
    toggles=st.lists(st.floats(0, 12), max_size=4).map(sorted),
)
networks = st.builds(
    Network, down=st.floats(0, 0.25), up=st.floats(0, 0.25), queues=queues, fates=fates
)


@settings(max_examples=200)
@given(clients, networks, st.lists(pieces, min_size=1, max_size=12))
def test_honest_client_is_believed_and_dated_whatever_the_network_does(client, network, schedule):
    it, link = Listener(acks=True), Link(interval=0.1)
    chunks, played = chunks_of(schedule), 0.0
    for delivery in journeys(client, network, chunks):
        now = delivery.arrival
        while chunks and chunks[0][0] <= now:
            sent, chunk = chunks.pop(0)
            it.carried(chunk.end, sent, sent_ms=chunk.sent_at)
            it.complete |= Flag.LAST in chunk.flags

        report = it.accept(delivery.ack, link, now)

        assert it.played_ms >= played
        played = it.played_ms
        if report:
            assert report.rendered == pytest.approx(delivery.rendered, abs=0.031)
            assert report.state == delivery.state
            check_dating(delivery, report.delay, network, link, client)
    assert (link.refused, link.inconsistent) == (0, 0)


def check_dating(
    delivery: Delivery, delay: float, network: Network, link: Link, client: Client
) -> None:
    """The engine never thinks a chunk may leave later than it truly may.

    It may think so earlier, by what the least round trip seen exceeds the least there is. What is
    seen counts up to a second.
    """
    strayed = (MOST_DRIFT + abs(client.drift)) * (delivery.arrival - START) + 0.002
    assert link.round_trip is None or link.round_trip >= network.up + network.down - 0.001
    if delivery.state not in ("playing", "stalled") or link.round_trip is None:
        return
    cut = link.round_trip - 2 * link.delay
    wasted = link.round_trip - network.up - network.down - cut
    leaves = delivery.made - network.down  # to arrive when the ack was made
    assert -wasted - strayed <= delivery.arrival - 2 * delay - leaves <= strayed + cut


def lie(seq: int, played_ms: float, t_ms: float, latency_ms: float, **fields: object) -> Ack:
    return Ack(n=1, seq=seq, played_ms=played_ms, t_ms=t_ms, latency_ms=latency_ms, **fields)  # type: ignore[arg-type]


LIES = st.builds(
    lie,
    seq=st.integers(-1, 12),
    played_ms=st.floats(0, 20_000),
    t_ms=st.floats(0, 20_000) | st.floats(-1e15, 1e15),
    latency_ms=st.floats(0, 2_000),
    state=st.sampled_from(["waiting", "playing", "stalled", "paused", "ended"]),
    rx_ms=st.none() | st.floats(0, 20_000),
    echo=st.none() | st.just(100_000),
    buffered_ms=st.none() | st.floats(0, 60_000),
    stalls=st.integers(0, 5),
    stalled_ms=st.floats(0, 20_000),
)
CHUNKS = 10
LENGTH = 0.5  # s


@settings(max_examples=200)
@given(st.lists(st.tuples(st.floats(0, 1), LIES), max_size=25))
def test_lies_are_within_what_can_be_and_gain_no_earlier_deadline(lies):
    it, link, now = Listener(acks=True), Link(interval=0.1), START
    liar, silent = (PlaybackClock(START, patience=0.06, acks=True) for _ in range(2))
    for index in range(CHUNKS):
        end = round((index + 1) * LENGTH * TICKS_PER_SECOND)
        it.carried(end, START, sent_ms=round(START * 1000))
        liar.audio_sent(LENGTH, START)
        silent.audio_sent(LENGTH, START)

    for pause, ack in lies:
        now += pause
        before = dataclasses.replace(it)
        try:
            report = it.accept(ack, link, now)
        except AckRefused:
            report = None
        if report is None:
            assert it == before
            continue
        liar.reported(report.rendered, report.state, report.delay, now)

        assert 0 <= report.rendered * TICKS_PER_SECOND <= it.sent
        assert before.played_ms <= it.played_ms <= (now - START) * 1000 + 150
        assert 0 <= it.heard(link, now) <= it.sent
        assert START <= it.at <= now
        assert report.delay >= link.delay - 1e-9  # a stamp can only take time, not give it
        for later in (now, now + 0.5, now + 10):
            assert liar.dry_at(later) >= silent.dry_at(later)
