"""Kernels a step at a time; without a device the captured step is called directly, interpreted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import pytest
import torch

from tests.engine.interpreting import DEVICE, ON_DEVICE  # isort: skip (before any kernel)
from engine.graphs import Launched, Shape, Step
from engine.model.checkpoint import Checkpoint
from engine.model.rows import Words
from engine.stages import cuda
from engine.stages.state import allocate
from engine.stages.streams import DeviceStreams
from engine.work import ONE_STREAM, Outcome, Stage, Stream, Work
from tests.engine.staging import Bench


class OneStream:
    """Has the face of `DeviceStreams`."""

    names = ONE_STREAM

    def home(self, stream: Stream) -> None:
        """Nothing is captured."""


class Past:
    """An event of something that has happened already."""

    def query(self) -> bool:
        return True


class DirectSteps:
    """Has the face of `CudaGraphs`."""

    def __init__(
        self,
        step: Step,
        shapes: Sequence[Shape],
        *,
        width: int,
        padding: Callable[[Shape], Words],
        works: int,
        home: object,
    ) -> None:
        self.shapes = sorted(shapes)
        self._step = step

    def launch(self, shape: Shape, words: Words) -> Launched:
        flags = torch.zeros(shape.rows, dtype=torch.int32)
        self._step(torch.from_numpy(words.ravel().copy()), flags, shape)
        return Launched(Past(), flags)  # type: ignore[arg-type]


def streams(*, overlap: bool = False) -> DeviceStreams:
    """The device's streams, or what stands for one stream where there is no device."""
    if ON_DEVICE:
        return DeviceStreams(DEVICE, overlap=overlap)
    return cast(DeviceStreams, OneStream())


def without_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Call steps directly where there is no device to replay them."""
    if not ON_DEVICE:
        monkeypatch.setattr(cuda, "CudaGraphs", DirectSteps)


class KernelBench(Bench):
    """Utterances over kernels, driven frame by frame.

    Args:
        rows: most works at once; as many slots.
        overlap: on a device, first frames take the fast stream's graphs.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        rows: int = 4,
        overlap: bool = False,
        deterministic: bool = False,
    ) -> None:
        self.state = allocate(checkpoint, slots=rows + 1, segment_seconds=4.0)
        home = streams(overlap=overlap)
        self.first = Stream.FAST if Stream.FAST in home.names else Stream.MAIN
        self.generation = cuda.CudaGeneration(
            checkpoint, self.state, rows=rows, streams=home, deterministic=deterministic
        )

    def launch(self, stage: Stage, works: Sequence[Work]) -> list[Outcome]:
        run = {
            Stage.PREFILL: self.generation.prefill,
            Stage.TALKER: self.generation.step,
            Stage.PREDICTOR: self.generation.frame,
        }[stage]
        begins = stage is Stage.PREDICTOR and not works[0].utterance.frame
        ticket = run(works, self.first if begins else Stream.MAIN)
        while not ticket.done():
            ticket.wait(1.0)
        return list(ticket.outcomes())
