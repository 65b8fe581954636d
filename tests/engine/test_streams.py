"""Streams side by side: first sounds pass the steps of others, listeners' chunks make way."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from engine.api import Audio
from engine.config import EngineConfig, ModelConfig, SchedulerConfig
from engine.costs import CostModel
from engine.scheduler import Scheduler
from engine.simulation.arrivals import arrivals
from engine.simulation.costs import read_costs
from engine.simulation.listeners import POPULATIONS
from engine.simulation.report import Report
from engine.simulation.simulation import Simulation
from engine.tools.profile import profile
from engine.trace import Trace
from engine.work import FAST_ROWS, ONE_STREAM, Batch, Stage, Stream
from tests.engine.speaking import decode, run, segment, speak, utterance

FAST, MAIN, SIDE = Stream
H200 = Path("configs/costs/h200-measured.toml")
CONFIG = EngineConfig(model=ModelConfig(checkpoint="silent", slots=256, rows=64))


class Card:
    """Of a device, the scheduler sees its streams and the most rows of a batch."""

    streams = tuple(Stream)

    def rows(self, stage: Stage, stream: Stream = MAIN) -> int:
        return FAST_ROWS if stream is FAST else 64


def scheduler() -> Scheduler:
    costs = CostModel()
    for stage in Stage:
        costs.learn(stage, 1, 1, 0.001)
    card: Any = Card()
    return Scheduler(SchedulerConfig(), costs, card)


def planned(batch: Batch | None) -> tuple[Stream, Stage, list[int]] | None:
    return batch and (batch.stream, batch.stage, [each.utterance.slot for each in batch.works])


def listener(slot: int) -> Any:
    """One that has 0.3 s ahead, made its last frame, and left a frame to decode."""
    each = utterance(segment(limit=999), slot=slot)
    speak(each, 5)
    decode(each, 4)
    each.clock.audio_sent(0.3, 0.0)
    return each


def test_everything_on_the_way_to_a_first_sound_is_fast() -> None:
    plans, new = scheduler(), utterance(segment())
    found = []
    for stage in (Stage.PREFILL, Stage.PREDICTOR, Stage.CODEC):
        plans.touch(new, 0.0)
        found.append(planned(plans.plan(0.0, [FAST])))
        run(new, stage)

    assert found == [(FAST, stage, [0]) for stage in (Stage.PREFILL, Stage.PREDICTOR, Stage.CODEC)]


def test_the_second_frame_is_made_with_the_others() -> None:
    plans, new, other = scheduler(), utterance(segment()), listener(1)
    run(new, Stage.PREFILL)
    run(new, Stage.PREDICTOR)
    for each in (new, other):
        plans.touch(each, 0.0)

    assert planned(plans.plan(0.0, [MAIN])) == (MAIN, Stage.TALKER, [0, 1])


def test_chunks_of_who_listens_are_beside_everything() -> None:
    plans, each = scheduler(), listener(1)
    plans.touch(each, 0.28)

    assert planned(plans.plan(0.28, [SIDE])) == (SIDE, Stage.CODEC, [1])


def test_only_streams_with_room_are_planned_for() -> None:
    plans, new, other = scheduler(), utterance(segment()), listener(1)
    for each in (new, other):
        plans.touch(each, 0.0)

    assert planned(plans.plan(0.0, [MAIN])) == (MAIN, Stage.TALKER, [1])
    assert planned(plans.plan(0.0, [MAIN])) is None
    assert planned(plans.plan(0.0, [MAIN, FAST])) == (FAST, Stage.PREFILL, [0])


def test_a_crowd_of_newcomers_is_divided() -> None:
    plans = scheduler()
    for slot in range(FAST_ROWS + 3):
        plans.touch(utterance(segment(), slot=slot), 0.0)

    batch = plans.plan(0.0, [FAST])

    assert batch and len(batch.works) == FAST_ROWS


def simulate(streams: Any, *observers: Trace) -> Report:
    load = arrivals(60.0, 4.0, population=POPULATIONS["plain"], seed=3)
    costs = read_costs(H200)
    config: dict[str, Any] = {"costs": costs, "streams": streams, "max_lead": (None, None)}
    return Simulation(load, CONFIG, observers=observers, **config).run()


def test_who_is_nearest_to_a_first_sound_goes_first() -> None:
    plans, early, late = scheduler(), utterance(segment()), utterance(segment(), slot=1, at=-0.05)
    for stage in (Stage.PREFILL, Stage.PREDICTOR):
        run(early, stage)
    for each in (early, late):
        plans.touch(each, 0.0)

    assert planned(plans.plan(0.0, tuple(Stream))) == (FAST, Stage.CODEC, [0])
    assert planned(plans.plan(0.0, tuple(Stream))) == (FAST, Stage.PREFILL, [1])


def test_whole_replies_are_made_sooner_and_nobody_runs_dry() -> None:
    alone, beside = Trace(), Trace()
    one, three = simulate(ONE_STREAM, alone), simulate(tuple(Stream), beside)

    def whole(trace: Trace) -> float:
        moments = {(mark.name, mark.utterance): mark.at for mark in trace.marks}
        names = {name for what, name in moments if what == "Ended"}
        return sum(moments["Ended", name] - moments["Open", name] for name in names) / len(names)

    assert whole(beside) < whole(alone)
    assert sum(each.stalls for each in three.replies) == 0
    assert sum(each.received for each in three.replies) == sum(
        each.received for each in one.replies
    )


def test_launches_at_the_same_time_keep_a_device_busy_once() -> None:
    trace = Trace()

    report = simulate(tuple(Stream), trace)

    found = profile(trace)
    busy = report.figures()["gpu_busy_share"] * report.duration
    assert busy == pytest.approx(found.busy * found.wall, rel=1e-3)
    assert busy < report.device_seconds


def test_streams_run_side_by_side_and_all_three_are_used() -> None:
    trace = Trace()
    simulate(tuple(Stream), trace)

    for one, other in itertools.combinations(Stream, 2):
        ones, others = ([s for s in trace.spans if s.stream is each] for each in (one, other))
        assert any(a.began < b.ended and b.began < a.ended for a in ones for b in others)
    names = {each["args"]["name"] for each in trace.to_chrome()["traceEvents"] if each["ph"] == "M"}
    assert {"fast prefill", "fast predictor", "talker", "predictor", "side codec"} <= names
    assert Audio.__name__ in {mark.name for mark in trace.marks}
