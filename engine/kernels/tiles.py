"""Launching products: the tile says which kernel; no tile means the library's product."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import torch
import torch.nn.functional as F
import triton
from torch import Tensor

from engine.kernels.linear import loop_product, slab_product, vector_product
from engine.kernels.norm import swiglu
from engine.kernels.pieces import chains, options
from engine.kernels.tile_table import ADD, STORE, SWIGLU, Shape, Tile


class Scratch:
    """Where the programs of split products meet; shared, because launches follow each other."""

    def __init__(self, device: torch.device) -> None:
        self.partial = torch.empty(8 * 2048 * 128, device=device)
        self.arrived = torch.zeros(512, dtype=torch.int32, device=device)


@cache
def scratch(device: torch.device) -> Scratch:
    """The device's one scratch."""
    return Scratch(device)


def candidates(shape: Shape, rows: int) -> Iterator[Tile]:
    """Tiles worth measuring."""
    features, size, kind = shape
    if rows <= 2:
        depth = 2048 if size % 2048 == 0 else 1024
        for block in (2, 4, 8) if depth * (size // depth) <= 2048 else (2, 4):
            if kind != SWIGLU or size // depth == 1:
                yield Tile("vector", block, depth, 4)
    if 2 <= rows <= 16 and size in (1024, 2048):
        parts = size // 256
        yield Tile("slab", 16, 256, parts)
        yield Tile("slab", 8, 256, 4)
    if rows >= 2:
        for block, depth, stages in ((16, 256, 4), (32, 128, 5), (64, 128, 4), (64, 64, 6)):
            for splits in (1, 4, 8) if kind == ADD else (1,):
                programs = features // block * splits
                if 64 <= programs <= 800 and size // splits % depth == 0:
                    for prefetch in (False, True) if kind != SWIGLU else (False,):
                        yield Tile("loop", block, depth, 4, stages, splits, prefetch)


def product(
    tile: Tile | None,
    x: Tensor,
    weight: Tensor,
    out: Tensor,
    *,
    kind: int = STORE,
    norm: Tensor | None = None,
    eps: float = 0.0,
) -> None:
    """Compute `x @ weight.T` and store it, add it to `out`, or gate it.

    Args:
        tile: None for cuBLAS.
        x: (rows, inputs), any row stride; with `norm`, not yet normalised ("vector" only).
        weight: (outputs, inputs), twice the outputs for SWIGLU: gates, then ups.
        out: (rows, outputs), any row stride.
    """
    if tile is None:
        _library(x, weight, out, kind)
        return
    rows, size = x.shape
    features = out.shape[1]
    grid = (features // tile.features, tile.splits)
    common = {"KIND": kind, "CHAINED": chains(), **options(tile.warps)}
    strides = (x.stride(0), out.stride(0))
    if tile.kernel == "vector":
        vector_product[grid](
            x, weight, out, weight if norm is None else norm, features, *strides, eps,
            ROWS=rows, DEPTH=tile.depth, PARTS=size // tile.depth, FEATURES=tile.features,
            NORM=norm is not None, **common,
        )  # fmt: skip
    elif tile.kernel == "slab":
        slab_product[grid](
            x, weight, out, rows, features, *strides,
            ROWS=max(8, triton.next_power_of_2(rows)), DEPTH=tile.depth,
            PARTS=size // tile.depth, FEATURES=tile.features, **common,
        )  # fmt: skip
    else:
        meeting = scratch(x.device)
        loop_product[grid](
            x, weight, out, meeting.partial, meeting.arrived, rows, features, size, *strides,
            ROWS=max(16, triton.next_power_of_2(rows)), DEPTH=tile.depth, FEATURES=tile.features,
            SHARE=size // tile.splits, SPLITS=tile.splits, STAGES=tile.stages,
            THREADS=32 * tile.warps if tile.prefetch else 0, **common,
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
