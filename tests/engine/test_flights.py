"""Launches on streams side by side: what follows what, and what their times teach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from engine.costs import CostModel
from engine.flights import Flight, Flights
from engine.work import Batch, Outcome, Stage, Stream, Ticket, Work
from tests.engine.speaking import segment, utterance

FAST, MAIN, SIDE = Stream
PREFILL, TALKER, PREDICTOR, CODEC = Stage
WHERE = {PREFILL: FAST, TALKER: MAIN, PREDICTOR: MAIN, CODEC: SIDE}


@dataclass(eq=False)
class Launch:
    """A launch that is over when the test says so."""

    name: str
    rows: int
    over: bool = False

    def done(self) -> bool:
        return self.over

    def wait(self, timeout: float) -> None:
        """Nothing to wait for."""

    def outcomes(self) -> Sequence[Outcome]:
        return [Outcome()] * self.rows


@dataclass
class Device:
    """Notes what follows what."""

    streams: Sequence[Stream] = tuple(Stream)
    after: dict[str, list[str]] = field(default_factory=dict)
    launches: list[Launch] = field(default_factory=list)

    def launch(self, batch: Batch, after: Sequence[Ticket] = ()) -> Launch:
        launch = Launch(f"{batch.stage}-{len(self.after)}", len(batch.works))
        self.launches.append(launch)
        self.after[launch.name] = [each.name for each in after]  # type: ignore[attr-defined]
        return launch


class Watcher:
    """An observer that keeps the flights that are over."""

    def __init__(self) -> None:
        self.flights: list[Flight] = []

    def finished(self, flight: Flight, now: float) -> None:
        self.flights.append(flight)


class Bench:
    """Flights over a device that obeys the test."""

    def __init__(self, streams: Sequence[Stream] = tuple(Stream)) -> None:
        self.device, self.costs, self.watcher = Device(streams), CostModel(), Watcher()
        stages: Any = self.device
        self.flights = Flights(stages, self.costs, self.watcher)  # type: ignore[arg-type]
        self.launches: list[Launch] = []

    def launch(
        self, stage: Stage, *slots: int, stream: Stream | None = None, now: float = 0.0
    ) -> list[str]:
        """Launch, and return what it follows."""
        works = [Work(utterance(segment(), slot=slot), stage, 1, 0.0) for slot in slots]
        batch = Batch(stage, works, stream or WHERE[stage])
        self.flights.launch(batch, now)
        self.launches.append(self.device.launches[-1])
        return self.device.after[list(self.device.after)[-1]]

    def land(self, number: int, now: float) -> list[tuple[Stage, int]]:
        """Let the oldest launch of a stream end, and return what was taken in."""
        self.flights.tickets[number].over = True  # type: ignore[attr-defined]
        return self.landed(now)

    def landed(self, now: float) -> list[tuple[Stage, int]]:
        return [(work.stage, work.utterance.slot) for work, _ in self.flights.landed(now)]


def test_a_chunk_follows_the_frames_it_decodes() -> None:
    bench = Bench()
    bench.launch(PREDICTOR, 1, 2)

    assert bench.launch(CODEC, 2) == ["predictor-0"]
    assert bench.launch(CODEC, 3) == []


def test_a_chunk_follows_the_last_chunk_of_its_utterance() -> None:
    bench = Bench()
    bench.launch(PREDICTOR, 1, stream=FAST)
    bench.launch(CODEC, 1, stream=FAST)

    assert bench.launch(CODEC, 1) == ["predictor-0", "codec-1"]


def test_steps_never_wait_for_sound() -> None:
    bench = Bench()
    bench.launch(PREDICTOR, 1, stream=FAST)
    bench.launch(CODEC, 1, stream=FAST)
    bench.launch(CODEC, 2)

    assert bench.launch(TALKER, 1, 2) == ["predictor-0"]


def test_a_slot_that_is_used_again_follows_whoever_had_it_before() -> None:
    bench = Bench()
    bench.launch(TALKER, 1)
    bench.launch(CODEC, 1)

    assert bench.launch(PREFILL, 1) == ["talker-0"]
    assert bench.launch(CODEC, 1, stream=FAST) == ["talker-0", "codec-1"]


def test_launches_of_one_stream_follow_each_other_by_themselves() -> None:
    bench = Bench([MAIN])
    bench.launch(PREFILL, 1, stream=MAIN)

    assert bench.launch(PREDICTOR, 1) == []
    assert bench.flights.room == []


def test_every_stream_has_room_for_two() -> None:
    bench = Bench()
    bench.launch(TALKER, 1)
    bench.launch(PREDICTOR, 1)

    assert bench.flights.room == [FAST, SIDE]
    bench.land(0, 1.0)
    assert bench.flights.room == [FAST, MAIN, SIDE]


def test_nothing_lands_before_what_it_follows() -> None:
    bench = Bench()
    bench.launch(CODEC, 1)
    bench.launch(CODEC, 1, stream=FAST)

    assert len(bench.flights.tickets) == 1, "nobody need wait for one that may not land"
    bench.launches[1].over = True
    assert bench.landed(1.0) == [], "sound would come in the wrong order"
    bench.launches[0].over = True
    assert bench.landed(1.0) == [(CODEC, 1), (CODEC, 1)]


def test_a_launch_begins_when_what_it_follows_is_over() -> None:
    bench = Bench()
    bench.launch(PREDICTOR, 1, now=0.0)
    bench.launch(CODEC, 1, now=0.001)
    bench.land(0, 0.003)
    bench.land(0, 0.004)

    assert [(each.began, each.landed_at) for each in bench.watcher.flights] == [
        (0.0, 0.003),
        (0.003, 0.004),
    ]
    assert bench.costs.predict(CODEC) == pytest.approx(0.001)


def test_two_that_are_found_over_at_once_do_not_teach_that_the_second_took_no_time() -> None:
    bench = Bench([MAIN])
    bench.launch(TALKER, 1, now=0.0)
    bench.launch(PREDICTOR, 1, now=0.0)
    unknown = bench.costs.predict(PREDICTOR)
    for each in bench.launches:
        each.over = True
    bench.landed(0.004)

    assert bench.costs.predict(TALKER) == pytest.approx(0.004)
    assert bench.costs.predict(PREDICTOR) == unknown


def test_one_that_is_found_over_with_what_it_followed_teaches_nothing_either() -> None:
    bench = Bench()
    bench.launch(PREDICTOR, 1, now=0.0)
    bench.launch(CODEC, 1, stream=FAST, now=0.0)
    unknown = bench.costs.predict(CODEC)
    for each in bench.launches:
        each.over = True

    assert bench.landed(0.004) == [(PREDICTOR, 1), (CODEC, 1)]
    assert bench.costs.predict(CODEC) == unknown
