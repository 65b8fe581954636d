"""Find the best tile of every product of the full-size codec: writes `codec_tiles.json`.

`python -m engine.kernels.codec_tune` compiles in as many processes as there are cores,
then times. Weights are rotated among copies larger than the L2 cache, as in a real step.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from collections.abc import Iterator
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from triton.runtime.errors import OutOfResources

from engine.kernels import codec_tiles
from engine.kernels.codec_bench import full_size_codec, replay_seconds
from engine.kernels.codec_gemm import multiply
from engine.kernels.codec_launch import Scratch
from engine.kernels.codec_product import Product
from engine.kernels.codec_tiles import FEW, ONCE_DEPTH, Tile
from engine.model import codec_fused
from engine.model.codec_fused import FusedCodec

SHAPES = [
    (1, 1), (1, 2), (1, 4), (8, 1), (4, 4), (32, 1), (16, 4), (32, 4), (32, 8), (32, 12), (64, 8),
    (64, 12),
]  # fmt: skip
CACHE_BYTES = 128 << 20  # twice the L2 cache
MOST_COPIES = 16
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
    """Record every product of a step, without running it; units in one kernel and in two."""
    found = []

    def record(x: Tensor, product: Product, scratch: Scratch, **others: Any) -> None:
        found.append(Call(x, product, others))

    silent = dict.fromkeys(SILENT, mock.DEFAULT)
    with mock.patch.multiple(codec_fused, multiply=record, **silent):
        plan = torch.zeros(2, rows, dtype=torch.int32, device=codec.device)
        state, lane = codec.new_state(1, longest=frames), codec.new_lane(rows * frames)
        for columns in (0, 1 << 60):
            with mock.patch.object(codec_fused, "MIXED_COLUMNS", columns):
                codec.step(plan, plan, state, lane, frames=frames)
    return found


def unique(codec: FusedCodec) -> Iterator[Call]:
    """Every product that has a row of its own in the table."""
    seen = set()
    for rows, frames in SHAPES:
        for call in calls(codec, rows, frames):
            name = codec_tiles.key(*call.size)
            if name not in seen:
                seen.add(name)
                yield call


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


def seconds(call: Call, tile: Tile, scratch: Scratch) -> float:
    """Time one product with one tile."""
    weight = call.product.weight
    size = weight.numel() * weight.itemsize
    copies = max(4, min(MOST_COPIES, CACHE_BYTES // size))
    products = [replace(call.product, weight=weight.clone()) for _ in range(copies)]

    def work() -> None:
        for each in products:
            multiply(call.x, each, scratch, tile=tile, **call.others)

    return replay_seconds(work, times=copies, groups=3, group_seconds=0.002)


def compile_share(index: int, shares: int) -> None:
    """Compile the kernels of one process by launching each once."""
    codec = full_size_codec(torch.float16)
    scratch = Scratch.allocate(codec.device)
    done = set()
    for call in unique(codec):
        for tile in candidates(call):
            name = f"{tile} {call.kind}"
            if name not in done and zlib.crc32(name.encode()) % shares == index:
                done.add(name)
                try:
                    multiply(call.x, call.product, scratch, tile=tile, **call.others)
                except OutOfResources:
                    continue
    torch.cuda.synchronize()


def measure(folder: Path) -> None:
    """Time every candidate and write the best, and a report of the others."""
    codec = full_size_codec(torch.float16)
    scratch = Scratch.allocate(codec.device)
    best, report = {}, []
    for call in unique(codec):
        times = {}
        for tile in candidates(call):
            try:
                times[tile] = seconds(call, tile, scratch)
            except OutOfResources:
                continue
        ranked = sorted(times, key=lambda tile: times[tile])
        best[call.size] = ranked[0]
        shown = [f"{times[tile] * 1e6:.2f} {list(astuple(tile))}" for tile in ranked[:4]]
        report.append(f"{call.size} {call.rate(times[ranked[0]]):.0f} TFLOP/s: {' | '.join(shown)}")
    (folder / "codec_tune.txt").write_text("\n".join(report) + "\n")
    codec_tiles.save(best, folder / codec_tiles.TABLE.name)


def main(folder: Path) -> None:
    """Compile in parallel, then measure."""
    assert __spec__ is not None
    shares = max(1, (os.cpu_count() or 2) - 1)
    command = [sys.executable, "-m", __spec__.name, "compile"]
    for each in [subprocess.Popen([*command, str(n), str(shares)]) for n in range(shares)]:
        each.wait()
    measure(folder)


if __name__ == "__main__":
    if sys.argv[1:2] == ["compile"]:
        compile_share(int(sys.argv[2]), int(sys.argv[3]))
    elif sys.argv[1:2] == ["measure"]:
        measure(Path(sys.argv[2]))
    else:
        main(codec_tiles.TABLE.parent)
