"""The products of the codec's steps, recorded, and the tiles that are worth a try for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from engine.kernels.codec_launch import Scratch
from engine.kernels.codec_product import Product
from engine.kernels.codec_tiles import FEW, ONCE_DEPTH, Tile, key
from engine.model import codec_fused
from engine.model.codec_fused import FusedCodec

SILENT = ("enter", "attend", "refine", "recall", "remember", "leave")  # other kernels of a step

SMALL = [(32, 128, 4, 4), (32, 64, 4, 5), (64, 64, 4, 4)]  # columns, depth, warps, stages
MIXED = [  # rows, depth, warps, stages
    (32, 32, 4, 5), (64, 32, 4, 4), (64, 32, 4, 5), (128, 32, 4, 4), (128, 32, 8, 4),
    (128, 32, 8, 5), (64, 64, 4, 4), (128, 64, 8, 3), (256, 32, 8, 4),
]  # fmt: skip
LARGE = [
    Tile(32, 32, 64, 4, 4),
    Tile(64, 32, 64, 4, 4),
    Tile(64, 64, 64, 4, 4),
    Tile(64, 128, 64, 4, 3),
    Tile(128, 32, 64, 4, 4),
    Tile(128, 64, 64, 4, 4),
    Tile(128, 128, 64, 8, 3),
    Tile(128, 128, 64, 8, 4),
    Tile(128, 256, 64, 8, 3),
    Tile(256, 128, 64, 8, 3),
]


@dataclass(frozen=True, slots=True)
class Call:
    """One use of `multiply` in a step."""

    x: Tensor
    product: Product
    others: dict[str, Any]

    @property
    def size(self) -> tuple[int, int, int]:
        """Rows, columns and depth of the product."""
        rows = self.x.shape[0] * self.others["length"]
        outputs, depth = self.product.weight.shape
        return rows, outputs, depth + (outputs if self.others.get("mix") else 0)

    @property
    def name(self) -> str:
        """Its name in the table."""
        return key(*self.size)

    def rate(self, seconds: float) -> float:
        """Return the TFLOP/s of doing it in `seconds`."""
        rows, columns, depth = self.size
        return 2e-12 * rows * columns * depth / seconds

    @property
    def kind(self) -> tuple[bool, ...]:
        """What a kernel is compiled for, beside its tile."""
        names = ("mix", "residual", "out", "wave", "activated")
        given = [self.others.get(name) is not None for name in names]
        return (self.product.eps > 0, self.product.gated, self.x.dtype is torch.float32, *given)


def calls(codec: FusedCodec, rows: int, frames: int) -> list[Call]:
    """Record every product of a step, without running it."""
    found = []

    def record(x: Tensor, product: Product, scratch: Scratch, **others: Any) -> None:
        found.append(Call(x, product, others))

    silent = dict.fromkeys(SILENT, mock.DEFAULT)
    with mock.patch.multiple(codec_fused, multiply=record, **silent):
        plan = torch.zeros(2, rows, dtype=torch.int32, device=codec.device)
        state, lane = codec.new_state(1, longest=frames), codec.new_lane(rows * frames)
        codec.step(plan, plan, state, lane, frames=frames)
    return found


def candidates(call: Call) -> Iterator[Tile]:
    """List the tiles worth a try."""
    rows, columns, depth = call.size
    if call.others.get("mix"):
        wide = 1 << (columns - 1).bit_length()
        for height, step, warps, stages in MIXED:
            yield Tile(height, wide, step, warps, stages)
        return
    if rows <= FEW and depth <= ONCE_DEPTH:
        yield Tile(FEW, 16, depth, 4, 0)
        yield Tile(FEW, 32, depth, 4, 0)
    tiles = list(LARGE) if rows > 32 else []
    if rows <= 256:
        height = FEW if rows <= FEW else 32
        tiles += [Tile(height, *small) for small in SMALL]
    for tile in tiles:
        if depth % tile.depth or call.product.inputs % tile.depth:
            tile = replace(tile, depth=32, stages=tile.stages + 1)
        programs, steps = tile.programs(rows, columns), depth // tile.depth
        yield tile
        if call.product.eps == 0 and tile.rows <= 64:
            for split in (2, 4, 8, 16):
                if programs * split <= 528 and steps // split >= 2:
                    yield replace(tile, split=split)
