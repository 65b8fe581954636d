"""Memory of the fused codec: what every slot remembers, and what one stream works in.

Each layer's input lies in a lane as (rows, history + chunk, channels): the history is put in front
of the chunk before the layers run, so no layer knows where a value came from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.kernels.codec_edges import PIECE
from engine.kernels.codec_launch import Scratch

ALIGNMENT = 64  # values between the starts of two layers' inputs


@dataclass(frozen=True, slots=True)
class History:
    """What one layer looks back on, in its own input."""

    width: int  # columns
    rate: int  # columns per frame
    channels: int

    @property
    def size(self) -> int:
        """Values a slot remembers."""
        return self.width * self.channels

    def row(self, frames: int) -> int:
        """Values of one row's history and chunk."""
        return (self.width + self.rate * frames) * self.channels


@dataclass(frozen=True, slots=True)
class FusedState:
    """The memory of every slot. It needs no clearing: a row whose first frame is 0 reads none."""

    values: Tensor  # (slots, values): the histories of all layers, one after the other
    rings: Tensor  # (slots, layers, heads, 2, frames, head_dim): keys and values by frame

    @classmethod
    def allocate(
        cls,
        slots: int,
        *,
        values: int,
        layers: int,
        heads: int,
        frames: int,
        width: int,
        like: Tensor,
    ) -> FusedState:
        """Make it, of the type and on the device of `like`."""
        capacity = -(-frames // 16) * 16
        rings = like.new_zeros(slots, layers, heads, 2, capacity, width)
        return cls(like.new_zeros(slots, values), rings)

    @property
    def spare(self) -> int:
        """The slot that rows of padding use."""
        return len(self.values) - 1


@dataclass(frozen=True, slots=True)
class Desk:
    """A lane laid out for one shape of batch."""

    inputs: Sequence[Tensor]  # per history: (rows, width + rate * frames, channels)
    pieces: Tensor  # (pieces, 5) int64, as `kernels.codec_edges.recall` wants them


class Lane:
    """The memory of one stream. Steps that may overlap need a lane each."""

    def __init__(self, histories: Sequence[History], frames: int, *, like: Tensor) -> None:
        """Reserve memory for at most `frames` frames of all rows together.

        Args:
            like: its type and device.
        """
        self._histories = histories
        self._desks: dict[tuple[int, int], Desk] = {}
        widest = sum(history.row(1) * frames + ALIGNMENT for history in histories)
        self.work = like.new_zeros(widest)
        self.scratch = Scratch.allocate(like.device)

    def desk(self, rows: int, frames: int) -> Desk:
        """Return the layout for `rows` chunks of `frames`, made on first use (not in a capture)."""
        desk = self._desks.get((rows, frames))
        if desk is None:
            desk = self._desks[rows, frames] = self._lay_out(rows, frames)
        return desk

    def _lay_out(self, rows: int, frames: int) -> Desk:
        inputs, pieces, state, work = [], [], 0, 0
        for history in self._histories:
            row = history.row(frames)
            view = self.work[work : work + rows * row]
            inputs.append(view.view(rows, -1, history.channels))
            chunk = row - history.size
            for start in range(0, history.size, PIECE):
                length = min(PIECE, history.size - start)
                pieces.append((length, state + start, work + start, row, chunk))
            state += history.size
            work += -(-rows * row // ALIGNMENT) * ALIGNMENT
        return Desk(inputs, torch.tensor(pieces, dtype=torch.int64, device=self.work.device))
