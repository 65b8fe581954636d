"""Measure every way to launch a product, and say which few are best for which shape and rows.

A product is timed as it runs: chained to others, on weights that no cache holds, inside a graph.
A tile whose result is wrong is not in the race.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.kernels.tile_table import ADD, SWIGLU, Shape, Tile
from engine.kernels.tiles import Scratch, product

STREAMED = 200 << 20  # bytes of weights that one measurement reads, far above any cache
REPLAYS = 4
FINALISTS = 4
TOLERANCE = 0.02  # of the result's norm, in bfloat16


def candidates(shape: Shape, rows: int) -> Iterator[Tile]:
    """Tiles worth measuring."""
    features, size, kind = shape
    if rows <= 2:
        depth = 2048 if size % 2048 == 0 else 1024
        for block in (2, 4, 8) if size <= 2048 else (2, 4):
            if kind != SWIGLU or size == depth:
                yield Tile("vector", block, depth, 4)
    if 2 <= rows <= 16 and (kind != SWIGLU or size <= 2048):
        for block, warps in ((8, 4), (8, 8), (16, 4), (16, 8)):
            yield Tile("slab", block, 256, warps)
    if rows >= 2:
        yield from _loops(features, size, kind)


def _loops(features: int, size: int, kind: int) -> Iterator[Tile]:
    for block, depth, stages in (
        (16, 256, 4), (16, 128, 6), (32, 128, 5), (32, 256, 3), (64, 128, 3), (64, 128, 4),
        (64, 64, 6), (128, 64, 4),
    ):  # fmt: skip
        for splits in (1, 2, 4, 8) if kind == ADD else (1,):
            programs = features // block * splits
            if 48 <= programs <= 800 and size // splits % depth == 0:
                for prefetch in (False, True) if kind != SWIGLU else (False,):
                    yield Tile("loop", block, depth, 4, stages, splits, prefetch)


def ranked(
    wanted: Sequence[tuple[Shape, int]], device: torch.device
) -> dict[tuple[Shape, int], list[Tile | None]]:
    """Return the few best launches of each shape and number of rows; None: the library's."""
    weights = torch.randn(STREAMED // 2 + 32 * 2**20, device=device, dtype=torch.bfloat16) * 0.02
    runs = [(shape, rows, tile) for shape, rows in wanted for tile in candidates(shape, rows)]
    with ThreadPoolExecutor(16) as pool:  # compilers run beside each other
        list(pool.map(lambda run: _attempt(weights, *run), runs))
    found: dict[tuple[Shape, int], list[Tile | None]] = {}
    for shape, rows in wanted:
        times: dict[Tile | None, float] = {None: _seconds(weights, shape, rows, None)}
        for tile in candidates(shape, rows):
            if _correct(weights, shape, rows, tile):
                times[tile] = _seconds(weights, shape, rows, tile)
        best = sorted(times, key=lambda tile: times[tile])[:FINALISTS]
        found[shape, rows] = best if None in best else [*best, None]
    return found


def _weights(weights: Tensor, shape: Shape) -> list[Tensor]:
    features, size, kind = shape
    lines = features * (2 if kind == SWIGLU else 1)
    count = max(4, STREAMED // (2 * lines * size))
    return [
        weights[index * lines * size :][: lines * size].view(lines, size)
        for index in range(count)
        if (index + 1) * lines * size <= weights.numel()
    ]


def _operands(shape: Shape, rows: int, device: torch.device) -> tuple[Tensor, Tensor]:
    features, size, _ = shape
    make = partial(torch.randn, device=device, dtype=torch.bfloat16)
    return make(rows, size), make(rows, features)


def _attempt(weights: Tensor, shape: Shape, rows: int, tile: Tile) -> bool:
    """Compile; what the device cannot hold is no candidate."""
    x, out = _operands(shape, rows, weights.device)
    try:
        scratch = Scratch.allocate(weights.device)
        product(tile, x, _weights(weights, shape)[0], out, kind=shape[2], scratch=scratch)
    except Exception as error:
        print(f"tile {shape} rows={rows} {tile}: {type(error).__name__}: {error}"[:200], flush=True)
        return False
    return True


def _correct(weights: Tensor, shape: Shape, rows: int, tile: Tile) -> bool:
    x, out = _operands(shape, rows, weights.device)
    weight, kind = _weights(weights, shape)[0], shape[2]
    before = out.double()
    wide = F.linear(x.double(), weight.double())
    if kind == ADD:
        wide += before
    if kind == SWIGLU:
        gate, up = wide.chunk(2, -1)
        wide = F.silu(gate) * up
    if not _attempt(weights, shape, rows, tile):
        return False
    product(tile, x, weight, out, kind=kind, scratch=Scratch.allocate(weights.device))
    wrong = float((out.double() - wide).norm() / wide.norm())
    if not wrong < TOLERANCE:
        print(f"tile {shape} rows={rows} {tile}: is wrong by {wrong}", flush=True)
    return wrong < TOLERANCE


def _seconds(weights: Tensor, shape: Shape, rows: int, tile: Tile | None) -> float:
    """Return the time of one product in a chain."""
    x, out = _operands(shape, rows, weights.device)
    chain, scratch = _weights(weights, shape), Scratch.allocate(weights.device)

    def run() -> None:
        for weight in chain:
            product(tile, x, weight, out, kind=shape[2], scratch=scratch)

    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    graph.replay()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(REPLAYS):
        graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3 / REPLAYS / len(chain)
