"""CUDA graphs: a step captured once per shape, then replayed with fresh inputs.

A step reads one static int32 buffer, works on device state, and leaves one int32 per row. Inputs
come from a ring of pinned host buffers and results go to another, so that the host neither waits
nor makes the driver copy pageable memory.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

import torch
from torch import Tensor

from engine.config import MOST_ROWS
from engine.flights import IN_FLIGHT
from engine.model.rows import Words

logger = logging.getLogger(__name__)

# inputs int32 (words,), results int32 (rows,), rows, words per row beyond the fixed ones
Step = Callable[[Tensor, Tensor, "Shape"], None]

Pool: TypeAlias = Any  # torch's handle of graph memory
Result = TypeVar("Result")

NAP = 30e-6  # s between looks at an event


@dataclass(frozen=True, slots=True, order=True)
class Shape:
    """What a graph is captured for."""

    rows: int
    tokens: int = 0  # prefill: padded prompt rows

    def words(self, width: int) -> int:
        """Return the length of the input buffer: `width` a row and two per token."""
        return self.rows * (width + 2 * self.tokens)


@dataclass(frozen=True, slots=True)
class Home:
    """Where graphs are captured that never run at once."""

    stream: torch.cuda.Stream  # libraries keep a workspace for each
    pool: Pool


@dataclass(frozen=True, slots=True)
class Launched:
    """A replay in flight; its results may be read once it is done."""

    event: torch.cuda.Event
    results: Tensor  # (rows,) int32, pinned

    def done(self) -> bool:
        """Has the device finished it?"""
        return bool(self.event.query())

    def wait(self, timeout: float) -> None:
        """Sleep until it is done or `timeout` s have passed.

        Short sleeps leave the interpreter lock to others; blocking-sync events cost 0.2 ms.
        """
        until = time.monotonic() + timeout
        while not self.event.query() and time.monotonic() < until:
            time.sleep(NAP)


class _Part(NamedTuple):
    """What one shape takes of a place."""

    inputs: Tensor
    words: Words  # the same, for the host to write
    results: Tensor


@dataclass(slots=True)
class _Place:
    """One place of the rings."""

    inputs: Tensor
    results: Tensor
    event: torch.cuda.Event
    used: bool = False
    _parts: dict[Shape, _Part] = field(default_factory=dict)

    def part(self, shape: Shape, size: int) -> _Part:
        """Return as much of both buffers as a launch of a shape takes: cut once, as cuts cost."""
        part = self._parts.get(shape)
        if part is None:
            inputs = self.inputs[:size]
            part = self._parts[shape] = _Part(inputs, inputs.numpy(), self.results[: shape.rows])
        return part


@dataclass(frozen=True, slots=True)
class _Captured:
    graph: torch.cuda.CUDAGraph
    inputs: Tensor
    results: Tensor


class CudaGraphs:
    """One step, captured for some shapes, called like the step itself, on the current stream.

    Args:
        step: works on device memory only; what it needs beyond its inputs must stay where it is.
        shapes: what to capture; the largest first, so that the others fit into its memory.
        width: fixed words per row.
        padding: makes inputs of a shape that touch nothing that matters.
        works: most of one batch, which may need a launch for each.
        home: of these graphs and of those that never run beside them.
    """

    def __init__(
        self,
        step: Step,
        shapes: Sequence[Shape],
        *,
        width: int,
        padding: Callable[[Shape], Words],
        works: int,
        home: Home,
    ) -> None:
        self.shapes = sorted(shapes)
        longest = max(shape.words(width) for shape in shapes)
        rows = max(shape.rows for shape in shapes)
        buffers = _pinned(places(works), longest), _pinned(places(works), rows)
        self._ring = [_Place(*each, torch.cuda.Event()) for each in zip(*buffers, strict=True)]
        self._next = 0
        self._captured: dict[Shape, _Captured] = {}
        for shape in sorted(shapes, key=lambda each: each.words(width), reverse=True):
            inputs = torch.from_numpy(padding(shape).ravel()).to(home.stream.device)
            results = torch.zeros(shape.rows, dtype=torch.int32, device=inputs.device)
            graph, _ = capture(partial(step, inputs, results, shape), home)
            self._captured[shape] = _Captured(graph, inputs, results)

    def launch(self, shape: Shape, words: Words) -> Launched:
        """Copy the inputs in, replay, copy the results out; returns at once."""
        captured = self._captured[shape]
        place = self._ring[self._next]
        self._next = (self._next + 1) % len(self._ring)
        if place.used:
            place.event.synchronize()  # of a batch that has landed: done long since
        place.used = True
        part = place.part(shape, words.size)
        part.words[:] = words.ravel()
        captured.inputs.copy_(part.inputs, non_blocking=True)
        captured.graph.replay()
        part.results.copy_(captured.results, non_blocking=True)
        place.event.record()
        return Launched(place.event, part.results)


def places(works: int) -> int:
    """Return how many launches may be in flight, or over and not yet read, on one stream.

    A batch takes one for each work at most, and once more if it failed half-way and is run anew.
    """
    return (IN_FLIGHT + 1) * works


def _pinned(count: int, words: int) -> Tensor:
    """Allocate `count` buffers of int32 that the device reads and writes by itself."""
    return torch.zeros(count, words, dtype=torch.int32, pin_memory=True)


def capture(run: Callable[[], Result], home: Home) -> tuple[torch.cuda.CUDAGraph, Result]:
    """Run once to compile and allocate what libraries need, then record; return what `run` does."""
    home.stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(home.stream):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=home.pool, stream=home.stream):
        result = run()
    return graph, result


def smallest(shapes: Iterable[Shape], rows: int, tokens: int = 0) -> Shape | None:
    """Return the smallest shape with room for `rows` and `tokens`; None: it was not captured."""
    fits = (each for each in shapes if each.rows >= rows and each.tokens >= tokens)
    return min(fits, key=lambda each: (each.rows * max(1, each.tokens), each), default=None)


def buckets(most: int) -> tuple[int, ...]:
    """Return the row counts that are captured: powers of two up to the first that holds `most`.

    Args:
        most: at most `engine.config.MOST_ROWS`.
    """
    powers = [2**exponent for exponent in range(MOST_ROWS.bit_length())]
    return tuple(powers[: bisect_left(powers, most) + 1])
