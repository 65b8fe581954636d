"""What the codec remembers between chunks: a row of values for each slot, and the walk through it.

Every layer that looks back needs the last columns of its own input, nothing else. A row is those
columns of all layers, one after the other in the order in which the layers run, so gathering and
scattering rows are one operation each.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


class CodecState:
    """The memory of every slot."""

    def __init__(self, slots: int, size: int, *, device: torch.device, dtype: torch.dtype) -> None:
        self.values = torch.zeros(slots, size, device=device, dtype=dtype)
        self.positions = torch.zeros(slots, device=device, dtype=torch.int64)  # frames decoded

    def read(self, slots: Tensor) -> Tails:
        """Return the memory of `slots` (rows,) for one chunk."""
        values = self.values.index_select(0, slots)
        return Tails(values, self.positions.index_select(0, slots))

    def write(self, slots: Tensor, tails: Tails, *, frames: int) -> None:
        """Keep what the chunk of `frames` left behind. A slot may occur once."""
        self.values.index_copy_(0, slots, tails.row())
        self.positions.index_copy_(0, slots, tails.positions + frames)


class Tails:
    """The ends of every layer's past input, handed out in layer order; this chunk's, collected."""

    def __init__(self, past: Tensor | None, positions: Tensor) -> None:
        self.positions = positions  # (rows,) frames decoded before this chunk
        self.rows = len(positions)
        self._past = past  # (rows, size); None: nothing was decoded before
        self._present: list[Tensor] = []
        self._at = 0

    def join(self, x: Tensor, width: int) -> Tensor:
        """Put the `width` columns before this chunk in front of `x`; remember the last `width`.

        Before the first frame a layer's input counts as zero, which is not what the network would
        make of code 0. The last columns are those of past and chunk together: a chunk can be
        shorter than `width`.

        Shapes: x (time * rows, channels) -> ((width + time) * rows, channels).
        """
        rows, channels = self.rows, x.shape[1]
        size = width * channels
        if self._past is None:
            joined = functional.pad(x, (0, 0, width * rows, 0))
        else:
            past = self._past[:, self._at : self._at + size].view(rows, width, channels)
            joined = torch.cat([past.transpose(0, 1).reshape(-1, channels), x])
            self._at += size
        present = joined[-width * rows :].view(width, rows, channels)
        self._present.append(present.transpose(0, 1).reshape(rows, size))
        return joined

    def windows(self, x: Tensor, taps: int, dilation: int) -> Tensor:
        """Return what each tap of a causal convolution sees, oldest first, as overlapping views.

        Shapes: x (time * rows, channels) -> (taps, time * rows, channels).
        """
        joined = self.join(x, (taps - 1) * dilation)
        channels = x.shape[1]
        hop = dilation * self.rows * channels  # values from one tap to the next
        return joined.as_strided((taps, *x.shape), (hop, channels, 1))

    def row(self) -> Tensor:
        """Return this chunk's memory (rows, size), once all layers have run."""
        return torch.cat(self._present, 1)
