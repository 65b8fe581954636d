"""What the engine did and why, kept for a while: a trace for Perfetto, a log to run again. Pure.

`Trace` keeps the last launches and events in a ring; `Recorder` keeps commands, so that a report of
a fault can be run again in the simulator, without a device. Neither keeps texts: the recorder
writes words of the same lengths.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import json
import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, product
from math import inf
from pathlib import Path
from typing import Any

from engine import api
from engine.api import (
    Append,
    Audio,
    Cancel,
    Command,
    ConfigError,
    Ended,
    Event,
    Finish,
    Flush,
    Open,
    Playback,
    Sampling,
)
from engine.flights import Flight
from engine.work import Stage, Stream

SPANS = 20_000  # launches kept: two minutes of a busy device
MICRO = 1e6  # Chrome's traces count microseconds
LANES = {  # threads of process 1: on each, one thing at a time
    lane: number for number, lane in enumerate(product(Stream, Stage), 1)
}
COMMANDS: dict[str, type[Command]] = {
    kind.__name__: kind for kind in (Open, Append, Flush, Finish, Playback, Cancel)
}


@dataclass(frozen=True, slots=True)
class Span:
    """One launch, and why it was the next."""

    stage: Stage
    stream: Stream
    rows: int
    frames: int
    planned_at: float  # s
    began: float  # s: when the device got to it
    ended: float  # s
    predicted: float  # s it should have taken
    anchor: str  # the utterance that had to start soonest …
    slack: float  # … and the s it could still have waited; negative: late
    utterances: tuple[str, ...]  # everyone in it


@dataclass(frozen=True, slots=True)
class Mark:
    """Something said to or by the engine."""

    at: float  # s
    name: str
    utterance: str
    detail: str


class Trace:
    """An `Observer` that keeps the last launches and marks.

    Args:
        spans: how many of each.
    """

    def __init__(self, spans: int = SPANS) -> None:
        self.spans: deque[Span] = deque(maxlen=spans)
        self.marks: deque[Mark] = deque(maxlen=spans)
        self.turns: deque[tuple[float, float]] = deque(maxlen=spans)  # (moment, s of the host)

    def command(self, command: Command, now: float) -> None:
        """A command is about to be applied; its text is not kept."""
        detail = f"{len(command.text)} characters" if isinstance(command, Append) else ""
        if isinstance(command, Playback):
            detail = f"{command.state} {command.rendered:.3f} s"
        self.marks.append(Mark(now, type(command).__name__, command.utterance, detail))

    def finished(self, flight: Flight, now: float) -> None:
        """A batch is over."""
        batch = flight.batch
        names = tuple(work.utterance.options.utterance for work in batch.works)
        self.spans.append(
            Span(
                *(batch.stage, batch.stream, len(names), batch.frames),
                *(flight.launched_at, flight.began, now, flight.predicted),
                anchor=names[0],
                slack=batch.works[0].latest_start - flight.launched_at,
                utterances=names,
            )
        )

    def event(self, event: Event, now: float) -> None:
        """An event was emitted; only those of an utterance are kept."""
        if isinstance(event, Audio):
            length = len(event.pcm) / 2 / api.SAMPLE_RATE
            self.marks.append(Mark(now, "Audio", event.utterance, f"{length:.3f} s"))
        elif isinstance(event, Ended):
            self.marks.append(Mark(now, "Ended", event.utterance, event.detail or event.reason))

    def turned(self, between: float, now: float) -> None:
        """One batch was settled and the next launched, in `between` s of the host's time."""
        self.turns.append((now, between))

    def clear(self) -> None:
        """Forget what is over."""
        self.spans.clear()
        self.marks.clear()
        self.turns.clear()

    def to_chrome(self) -> dict[str, Any]:
        """Return Chrome's trace format: a lane per stage of a stream, and one per utterance."""
        return {"displayTimeUnit": "ms", "traceEvents": list(self._entries())}

    def pieces(self) -> Iterator[str]:
        """Return the same as JSON text in small pieces; what comes later is not among them."""
        return _joined(self._entries())

    def _entries(self) -> Iterator[dict[str, Any]]:
        """Return the entries of this moment."""
        spans, marks, turns = list(self.spans), list(self.marks), list(self.turns)
        return chain(_entries(spans, marks), map(_counter, turns))


class Recorder:
    """An `Observer` that keeps every command of the last utterances with its moment.

    Args:
        most: commands kept. Beyond it the utterances that were opened first are forgotten whole,
            with whatever is still said to them.
    """

    def __init__(self, most: float = inf) -> None:
        self._most = most
        self._count = 0  # commands kept
        self._number = itertools.count()  # order of commands of one moment
        self._kept: dict[str, list[tuple[int, float, Command]]] = {}  # utterance → its commands

    def command(self, command: Command, now: float) -> None:
        """Keep a command; of a text, only where its words begin and end."""
        name = command.utterance
        if isinstance(command, Append):
            command = Append(name, disguised(command.text))
        elif isinstance(command, Open):
            command = dataclasses.replace(command, instructions=disguised(command.instructions))
            self._kept.setdefault(name, [])
        if name not in self._kept:
            return
        self._kept[name].append((next(self._number), now, command))
        self._count += 1
        while self._count > self._most:
            self._count -= len(self._kept.pop(next(iter(self._kept))))

    def finished(self, flight: Flight, now: float) -> None:
        """Launches follow from commands."""

    def event(self, event: Event, now: float) -> None:
        """And events."""

    def clear(self) -> None:
        """Forget every utterance."""
        self._kept.clear()
        self._count = 0

    def to_lines(self) -> str:
        """Return the log as JSON lines: a moment, a command, its fields."""
        return "".join(self.lines())

    def lines(self) -> Iterator[str]:
        """Return the same line by line; what comes later is not among them."""
        kept = [list(commands) for commands in self._kept.values()]
        return (
            json.dumps({"at": at, "do": type(each).__name__} | dataclasses.asdict(each)) + "\n"
            for _, at, each in heapq.merge(*kept)
        )


def read_log(path: Path) -> list[tuple[float, Command]]:
    """Read what a `Recorder` wrote. Raises: ConfigError naming the line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    return [_command(line, f"{path}:{number}") for number, line in enumerate(lines, 1)]


def disguised(text: str) -> str:
    """Return words of the same lengths and the same punctuation, saying nothing.

    Capitals stay capitals: they tell the end of a sentence from an abbreviation.
    """
    return re.sub(r"\w", lambda letter: "A" if letter[0].isupper() else "a", text)


def _command(line: str, where: str) -> tuple[float, Command]:
    try:
        fields = json.loads(line)
        at, kind = float(fields.pop("at")), COMMANDS[fields.pop("do")]
        if fields.get("sampling"):
            fields["sampling"] = Sampling(**fields["sampling"])
        return at, kind(**fields)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        known = ", ".join(COMMANDS)
        raise ConfigError(f"{where}: want `at`, `do` ({known}) and its fields: {error}") from error


def _joined(entries: Iterator[dict[str, Any]]) -> Iterator[str]:
    yield '{"displayTimeUnit": "ms", "traceEvents": [\n'
    for number, entry in enumerate(entries):
        yield (",\n" if number else "") + json.dumps(entry)
    yield "\n]}\n"


def _entries(spans: Iterable[Span], marks: Iterable[Mark]) -> Iterator[dict[str, Any]]:
    """Yield lanes before what lies on them; those of utterances in the order of their marks."""
    yield _label("process_name", 1, 0, "device")
    yield _label("process_name", 2, 0, "utterances")
    for stream, stage in sorted({(span.stream, span.stage) for span in spans}):
        name = stage if stream is Stream.MAIN else f"{stream} {stage}"
        yield _label("thread_name", 1, LANES[stream, stage], name)
    lanes: dict[str, int] = {}
    for mark in marks:
        yield from _lane(lanes, mark.utterance)
        yield _instant(mark, tid=lanes[mark.utterance])
    for span in spans:
        yield _entry(span, pid=1, tid=LANES[span.stream, span.stage]) | {"args": _reasons(span)}
        for name in span.utterances:
            yield from _lane(lanes, name)
            yield _entry(span, pid=2, tid=lanes[name])


def _counter(turn: tuple[float, float]) -> dict[str, Any]:
    at, between = turn
    return {
        "ph": "C",
        "name": "host between batches",
        "pid": 1,
        "ts": at * MICRO,
        "args": {"ms": between * 1000},
    }


def _lane(lanes: dict[str, int], name: str) -> Iterator[dict[str, Any]]:
    """Give an utterance a lane, unless it has one."""
    if name not in lanes:
        lanes[name] = len(lanes) + 1
        yield _label("thread_name", 2, lanes[name], name)


def _instant(mark: Mark, *, tid: int) -> dict[str, Any]:
    return {
        "ph": "i",
        "s": "t",
        "name": mark.name,
        "pid": 2,
        "tid": tid,
        "ts": mark.at * MICRO,
        "args": {"detail": mark.detail},
    }


def _entry(span: Span, *, pid: int, tid: int) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": f"{span.stage.value} {span.rows}×{span.frames}",
        "pid": pid,
        "tid": tid,
        "ts": span.began * MICRO,
        "dur": (span.ended - span.began) * MICRO,
    }


def _reasons(span: Span) -> dict[str, Any]:
    return {
        "why": f"{span.anchor} must start within {span.slack * 1000:.1f} ms",
        "anchor": span.anchor,
        "slack": span.slack,
        "rows": span.rows,
        "frames": span.frames,
        "planned_before": span.began - span.planned_at,
        "predicted": span.predicted,
        "taken": span.ended - span.began,
    }


def _label(kind: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}
