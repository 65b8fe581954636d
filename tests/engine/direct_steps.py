"""Graph replays without a device: the captured step is called directly, interpreted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from engine.graphs import Launched, Shape, Step
from engine.model.rows import Words


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
        device: torch.device,
        pool: tuple[int, int],
    ) -> None:
        self.shapes = sorted(shapes)
        self._step = step

    def launch(self, shape: Shape, words: Words) -> Launched:
        flags = torch.zeros(shape.rows, dtype=torch.int32)
        self._step(torch.from_numpy(words.ravel().copy()), flags, shape)
        return Launched(Past(), flags)  # type: ignore[arg-type]
