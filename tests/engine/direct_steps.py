"""Graph replays without a device: the captured step is called directly, interpreted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import torch

from engine.graphs import Launched, Shape, Step
from engine.model.rows import Words
from engine.stages.streams import DeviceStreams
from engine.work import ONE_STREAM, Stream
from tests.engine.interpreting import DEVICE, ON_DEVICE


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
