"""Where time went: shares that add up, and a way to a first sound without gaps."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from engine.config import EngineConfig, ModelConfig
from engine.simulation.arrivals import arrivals
from engine.simulation.listeners import POPULATIONS
from engine.simulation.simulation import Simulation
from engine.tools import tables
from engine.tools.profile import WHOLE, Leg, Profile, profile
from engine.trace import Mark, Span, Trace
from engine.work import Stage, Stream

FAST, MAIN, SIDE = Stream
PREFILL, TALKER, PREDICTOR, CODEC = Stage


def span(
    stream: Stream, stage: Stage, began: float, ended: float, *names: str, planned: float = inf
) -> Span:
    planned_at = min(planned, began)
    moments = planned_at, began, ended, ended - began
    return Span(stage, stream, len(names), 1, *moments, names[0], 0.0, names)


def kept(*spans: Span, marks: tuple[Mark, ...] = ()) -> Trace:
    trace = Trace()
    trace.spans.extend(spans)
    trace.marks.extend(marks)
    return trace


def first_sound(name: str = "a", at: float = 10.0) -> Trace:
    """Opened 1 s after it was asked for at `at`; its chunk is launched behind its prefill."""
    return kept(
        span(FAST, PREFILL, at + 2.5, at + 3.0, name, planned=at + 2),
        span(FAST, PREDICTOR, at + 3.0, at + 5.0, name),
        span(FAST, CODEC, at + 5.0, at + 6.0, name, planned=at + 4),
        span(SIDE, CODEC, at + 7.0, at + 8.0, name),
        marks=(
            Mark(at + 1, "Open", name, ""),
            Mark(at + 6, "Audio", name, "0.000 s"),
            Mark(at + 8, "Audio", name, "0.080 s"),
            Mark(at + 9, "Audio", name, "0.080 s"),
        ),
    )


def way(found: Profile) -> dict[str, float]:
    return {leg.until: leg.median for leg in found.legs}


def test_streams_side_by_side_are_busy_once() -> None:
    trace = kept(
        span(MAIN, TALKER, 0.0, 4.0, "a"),
        span(FAST, PREFILL, 1.0, 3.0, "b"),
        span(SIDE, CODEC, 3.0, 5.0, "a"),
        span(MAIN, PREDICTOR, 8.0, 10.0, "a"),
    )

    found = profile(trace)

    assert found.wall == 10.0
    assert found.busy == pytest.approx(0.7)
    assert found.streams == pytest.approx({FAST: 0.2, MAIN: 0.6, SIDE: 0.2})


def test_a_stage_is_counted_for_each_stream() -> None:
    trace = kept(
        span(MAIN, CODEC, 1.0, 2.0, "a", "b", planned=0.5),
        span(MAIN, CODEC, 2.0, 5.0, "a"),
        span(FAST, CODEC, 5.0, 6.0, "c"),
    )

    fast, main = profile(trace).uses

    assert (main.stream, main.stage, main.launches, main.rows) == (MAIN, CODEC, 2, 1.5)
    assert (main.median, main.p95, main.waited) == (1.0, 3.0, 0.25)
    assert (fast.share, main.share) == (0.2, 0.8)


def test_legs_lead_from_the_question_to_the_ear() -> None:
    found = profile(first_sound(), asked={"a": 10.0}, delivered={"a": 18.5})

    assert found.utterances == 1
    assert way(found) == {
        "command applied": 1.0,
        "prefill launched": 1.0,
        "prefill done": 1.0,
        "predictor done": 2.0,
        "first chunk launched": -1.0,
        "first chunk done": 2.0,
        "sound handed over": 2.0,
        "sound delivered": 0.5,
        WHOLE: 8.5,
    }


def test_what_only_the_engine_saw_begins_and_ends_with_it() -> None:
    found = profile(first_sound())

    assert next(iter(way(found))) == "prefill launched"
    assert way(found)[WHOLE] == 7.0


def test_percentiles_are_over_utterances() -> None:
    trace = first_sound("a")
    slow = first_sound("b", at=30.0)
    trace.spans.extend(slow.spans)
    trace.marks.extend(replace(each, at=each.at + 1.0) for each in slow.marks)

    found = profile(trace, asked={"a": 10.0, "b": 30.0})

    assert found.utterances == 2
    assert found.legs[0] == Leg("command applied", 1.0, 2.0)
    assert found.legs[-1] == Leg(WHOLE, 8.0, 9.0)


@pytest.mark.parametrize("forgotten", ["prefill", "opening", "sound", "question"])
def test_a_way_that_is_not_known_whole_is_left_out(forgotten: str) -> None:
    trace, asked = first_sound(), {"a": 10.0}
    if forgotten == "prefill":
        trace.spans.popleft()
        trace.spans.append(span(FAST, PREFILL, 19.0, 20.0, "a"))  # of a later segment
    elif forgotten == "opening":
        trace.marks.popleft()
    elif forgotten == "sound":
        trace.marks.pop()
        trace.marks.pop()
    else:
        asked = {"b": 10.0}

    found = profile(trace, asked=asked)

    assert (found.utterances, found.legs) == (0, [])


def test_nothing_launched_is_nothing_busy(capsys: pytest.CaptureFixture[str]) -> None:
    found = profile(Trace())
    tables.profile(found)

    assert (found.busy, found.streams, found.uses, found.legs) == (0.0, {}, [], [])
    assert "no launch" in capsys.readouterr().out


def test_legs_of_a_simulation_are_its_first_sounds(capsys: pytest.CaptureFixture[str]) -> None:
    trace = Trace()
    load = arrivals(20.0, 2.0, population=POPULATIONS["plain"], seed=5)
    config = EngineConfig(model=ModelConfig(checkpoint="silent", slots=64, rows=64))
    heard = Simulation(load, config, streams=tuple(Stream), observers=[trace]).run()

    found = profile(trace)
    tables.profile(found)

    shown = capsys.readouterr().out
    assert found.utterances == len(heard.replies)
    assert found.busy < sum(found.streams.values())
    assert sum(use.share for use in found.uses) == pytest.approx(1.0)
    firsts = sorted(each.first_sound for each in heard.replies if each.first_sound)
    assert found.legs[-1].p95 <= firsts[-1]
    assert all(name in shown for name in ("fast", "side", "predictor done", WHOLE))
