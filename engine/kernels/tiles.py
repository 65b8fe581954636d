"""Launching products: the tile says which kernel; no tile means the library's product."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
import triton
from torch import Tensor

from engine.kernels.linear import loop_product, slab_product, vector_product
from engine.kernels.norm import swiglu
from engine.kernels.pieces import chains, options
from engine.kernels.tile_table import ADD, STORE, Tile


@dataclass(frozen=True, slots=True)
class Scratch:
    """Where the programs of split products meet: one for products that follow each other.

    A captured step makes its own, so that it lies in its graph's pool and no step on another
    stream ever meets in it.
    """

    partial: Tensor  # (splits * outputs * rows,) fp32
    arrived: Tensor  # (blocks of outputs,) int32, zero between launches

    @classmethod
    def allocate(cls, device: torch.device) -> Scratch:
        """Make one for any measured tile."""
        return cls(
            torch.empty(8 * 2048 * 128, device=device),
            torch.zeros(512, dtype=torch.int32, device=device),
        )

    def check(self, values: int, blocks: int) -> None:
        """Say if a product needs more room."""
        room = self.partial.numel(), self.arrived.numel()
        assert values <= room[0] and blocks <= room[1], f"product: needs more scratch than {room}"


def product(
    tile: Tile | None,
    x: Tensor,
    weight: Tensor,
    out: Tensor,
    *,
    kind: int = STORE,
    norm: Tensor | None = None,
    eps: float = 0.0,
    scratch: Scratch | None = None,
) -> None:
    """Compute `x @ weight.T` and store it, add it to `out`, or gate it.

    Args:
        tile: None for cuBLAS.
        x: (rows, inputs), any row stride; with `norm`, not yet normalised.
        weight: (outputs, inputs), twice the outputs for SWIGLU: gates, then ups.
        out: (rows, outputs), any row stride.
        norm: (inputs,), for a tile that normalises x itself; not of a "loop".
        scratch: needed by "loop" tiles with splits.
    """
    if tile is None:
        _library(x, weight, out, kind)
        return
    rows, size = x.shape
    features = out.shape[1]
    shape = (features, size, kind)
    assert tile.fits(shape), f"product: {tile} cannot do {shape}"
    assert norm is None or tile.norm, f"product: {tile} does not normalise"
    parts, passes = tile.slabs(size)
    grid = (features // tile.features, tile.splits)
    common = {"KIND": kind, "CHAINED": chains(), **options(tile.warps)}
    strides = (x.stride(0), out.stride(0))
    if tile.kernel == "vector":
        vector_product[grid](
            x, weight, out, norm, features, *strides, eps,
            ROWS=rows, DEPTH=tile.depth, PARTS=passes, FEATURES=tile.features,
            NORM=norm is not None, **common,
        )  # fmt: skip
    elif tile.kernel == "slab":
        slab_product[grid](
            x, weight, out, norm, rows, features, *strides, eps,
            ROWS=max(8, triton.next_power_of_2(rows)), DEPTH=tile.depth, PARTS=parts,
            PASSES=passes, FEATURES=tile.features,
            NORM=norm is not None, **common,
        )  # fmt: skip
    else:
        padded = max(16, triton.next_power_of_2(rows))
        if tile.splits > 1:
            assert scratch is not None, f"product: no scratch for splits of {tile}"
            scratch.check(tile.splits * features * padded, grid[0])
        partial, arrived = (scratch.partial, scratch.arrived) if scratch else (out, out)
        loop_product[grid](
            x, weight, out, partial, arrived, rows, features, size, *strides,
            ROWS=padded, DEPTH=tile.depth, FEATURES=tile.features,
            SHARE=size // tile.splits, SPLITS=tile.splits, STAGES=tile.stages,
            THREADS=32 * tile.warps if tile.prefetch and chains() else 0, **common,
        )  # fmt: skip


def _library(x: Tensor, weight: Tensor, out: Tensor, kind: int) -> None:
    if kind == STORE:
        out.copy_(F.linear(x, weight)) if not out.is_contiguous() else torch.mm(
            x, weight.t(), out=out
        )
    elif kind == ADD:
        out.add_(F.linear(x, weight))
    else:
        swiglu(F.linear(x, weight), out)
