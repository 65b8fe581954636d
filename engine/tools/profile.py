"""Where time goes under load, read from a trace: the device's, and that of first sounds. Pure.

A launch counts from the moment the device could get to it to the moment the host found it over, so
what the host takes to look is in it. Legs follow each other without gaps: together they are the
whole way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import inf

from engine.percentile import percentile
from engine.trace import Mark, Span, Trace
from engine.work import Stage, Stream

NOTHING = "0.000 s"  # an `Audio` mark that brought news alone
WHOLE = "the whole way"


@dataclass(frozen=True, slots=True)
class Use:
    """What one stage did on one stream."""

    stream: Stream
    stage: Stage
    launches: int
    rows: float  # mean
    median: float  # s of a launch
    p95: float  # s
    share: float  # of the time of all launches
    waited: float  # mean s from planned to begun: behind others


@dataclass(frozen=True, slots=True)
class Leg:
    """A part of the way to a first sound, over utterances."""

    until: str  # where it ends; it begins where the one before ended
    median: float  # s; negative where most were there before that
    p95: float  # s


@dataclass(frozen=True, slots=True)
class Profile:
    """Where the time of a trace went."""

    wall: float  # s from the first launch to the end of the last
    busy: float  # share of it in which any stream had a launch
    streams: dict[Stream, float]  # the same for each stream that was used
    uses: list[Use]
    utterances: int  # whose first sound is known whole
    legs: list[Leg]  # the last is the whole way


def profile(
    trace: Trace,
    *,
    asked: Mapping[str, float] | None = None,
    delivered: Mapping[str, float] | None = None,
) -> Profile:
    """Summarise a trace.

    Args:
        trace: of an engine that rests.
        asked: when each utterance was asked for, s on the trace's clock; of no other utterance the
            way is told. None: the way begins where the engine heard of it.
        delivered: when each first sound arrived, likewise. None: it ends where the engine sent it.
    """
    spans = list(trace.spans)
    wall = max((each.ended for each in spans), default=0.0)
    wall -= min((each.began for each in spans), default=0.0)
    by_stream, by_use = defaultdict(list), defaultdict(list)
    for span in spans:
        by_stream[span.stream].append(span)
        by_use[span.stream, span.stage].append(span)
    ways = list(_ways(spans, trace.marks, asked, delivered))
    return Profile(
        wall,
        _covered(spans) / wall if wall else 0.0,
        {each: _covered(by_stream[each]) / wall for each in Stream if each in by_stream},
        _uses(by_use),
        len(ways),
        _legs(ways),
    )


def _covered(spans: Iterable[Span]) -> float:
    """Return the s in which at least one of the launches ran."""
    covered, until = 0.0, -inf
    for span in sorted(spans, key=lambda each: each.began):
        covered += max(0.0, span.ended - max(span.began, until))
        until = max(until, span.ended)
    return covered


def _uses(by_use: Mapping[tuple[Stream, Stage], list[Span]]) -> list[Use]:
    everything = sum(each.ended - each.began for spans in by_use.values() for each in spans)
    found = []
    for stream in Stream:
        for stage in Stage:
            if spans := by_use.get((stream, stage)):
                found.append(_use(stream, stage, spans, everything))
    return found


def _use(stream: Stream, stage: Stage, spans: list[Span], everything: float) -> Use:
    taken = [each.ended - each.began for each in spans]
    return Use(
        *(stream, stage, len(spans)),
        rows=sum(each.rows for each in spans) / len(spans),
        median=percentile(taken, 0.5),
        p95=percentile(taken, 0.95),
        share=sum(taken) / everything if everything else 0.0,
        waited=sum(each.began - each.planned_at for each in spans) / len(spans),
    )


def _legs(ways: list[dict[str, float]]) -> list[Leg]:
    """Return the legs between the stops of all ways, and the whole way."""
    legs: dict[str, list[float]] = defaultdict(list)
    for way in ways:
        for (_, before), (stop, at) in pairwise(way.items()):
            legs[stop].append(at - before)
        first, *_, last = way.values()
        legs[WHOLE].append(last - first)
    return [
        Leg(until, percentile(each, 0.5), percentile(each, 0.95)) for until, each in legs.items()
    ]


def _ways(
    spans: Iterable[Span],
    marks: Iterable[Mark],
    asked: Mapping[str, float] | None,
    delivered: Mapping[str, float] | None,
) -> Iterator[dict[str, float]]:
    """Yield the stops of each first sound, s; of those alone that are known from end to end.

    What a trace has forgotten is its oldest, so what followed a first prefill is there if that is.
    """
    opened: dict[str, float] = {}
    sounded: dict[str, float] = {}
    for mark in marks:
        if mark.name == "Open":
            opened.setdefault(mark.utterance, mark.at)
        elif mark.name == "Audio" and mark.detail != NOTHING:
            sounded.setdefault(mark.utterance, mark.at)
    for name, firsts in _first_launches(spans).items():
        prefill, sound = firsts.get(Stage.PREFILL), sounded.get(name, -inf)
        if name not in opened or prefill is None or prefill.ended > sound:
            continue
        way = {"asked": asked.get(name, inf)} if asked is not None else {}
        way["command applied"] = opened[name]
        way |= _stops(firsts) | {"sound handed over": sound}
        if delivered is not None:
            way["sound delivered"] = delivered.get(name, inf)
        if inf not in way.values():
            yield way


def _stops(firsts: Mapping[Stage, Span]) -> dict[str, float]:
    prefill, predictor, chunk = (
        firsts[stage] for stage in (Stage.PREFILL, Stage.PREDICTOR, Stage.CODEC)
    )
    return {
        "prefill launched": prefill.planned_at,
        "prefill done": prefill.ended,
        "predictor done": predictor.ended,
        "first chunk launched": chunk.planned_at,
        "first chunk done": chunk.ended,
    }


def _first_launches(spans: Iterable[Span]) -> dict[str, dict[Stage, Span]]:
    """Find the first launch of each stage for each utterance, in the order they ended."""
    found: dict[str, dict[Stage, Span]] = defaultdict(dict)
    for span in spans:
        for name in span.utterances:
            found[name].setdefault(span.stage, span)
    return found
