"""Ways to launch a product that are worth racing: they compile, fit the device and are right.

Which of them is fast shows only inside a step (`engine.stages.tune`): alone, a product does not
show what it leaves to its neighbours.
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

COMPILERS = 16  # at once
PROGRAMS = range(40, 521)  # of a loop: they fill the device once, not often
HELD = range(32, 385)  # bytes of weights per thread of a vector product …
MOST_HELD = 512  # … and of a slab
TOLERANCE = 0.02  # of the result's norm, in bfloat16

# features, depth, stages, warps
LOOPS = (
    (16, 128, 6, 4), (16, 256, 4, 4), (32, 128, 5, 4), (32, 256, 3, 4), (64, 128, 4, 4),
    (64, 64, 6, 4), (64, 64, 6, 8), (64, 128, 4, 8), (128, 64, 4, 8),
)  # fmt: skip


def candidates(shape: Shape, rows: int) -> list[Tile]:
    """Return tiles worth trying."""
    found: list[Tile] = []
    if rows <= 2:
        found += _vectors(shape)
    if 2 <= rows <= 32:
        found += _slabs(shape)
    if rows >= 4:
        found += _loops(shape)
    return [tile for tile in found if tile.fits(shape)]


def _vectors(shape: Shape) -> Iterator[Tile]:
    _, size, kind = shape
    depth = 2048 if size % 2048 == 0 else 1024
    for features in (1, 2, 4, 8, 16):
        for warps in (1, 2, 4, 8):
            if _held(shape, features, warps) in HELD:
                for norm in (True, False) if kind != ADD else (False,):
                    yield Tile("vector", features, depth, warps, norm=norm)


def _slabs(shape: Shape) -> Iterator[Tile]:
    for features in (8, 16, 32):
        for depth in (128, 256):
            for warps in (4, 8):
                if _held(shape, features, warps) <= MOST_HELD:
                    for norm in (True, False) if shape[2] != ADD else (False,):
                        yield Tile("slab", features, depth, warps, norm=norm)


def _loops(shape: Shape) -> Iterator[Tile]:
    outputs, _, kind = shape
    for features, depth, stages, warps in LOOPS:
        for splits in (1, 2, 4, 8) if kind == ADD else (1,):
            if outputs // features * splits in PROGRAMS:
                for prefetch in (False, True) if kind != SWIGLU else (False,):
                    yield Tile("loop", features, depth, warps, stages, splits, prefetch)


def _held(shape: Shape, features: int, warps: int) -> int:
    """Return the bytes of weights that each thread holds."""
    _, size, kind = shape
    return features * size * 2 * (2 if kind == SWIGLU else 1) // (32 * warps)


def usable(
    wanted: Sequence[tuple[Shape, int]], device: torch.device
) -> dict[tuple[Shape, int], list[Tile]]:
    """Return the candidates for each shape and number of rows that the device runs rightly."""
    runs = [(shape, rows, tile) for shape, rows in wanted for tile in candidates(shape, rows)]
    with ThreadPoolExecutor(COMPILERS) as pool:
        list(pool.map(lambda run: _output(run[0], run[1], run[2], device), runs))
    return {
        (shape, rows): [
            each for each in candidates(shape, rows) if _right(shape, rows, each, device)
        ]
        for shape, rows in wanted
    }


def _operands(shape: Shape, rows: int, device: torch.device) -> tuple[Tensor, ...]:
    """Make x, norm, weight and what is in `out` before: the same for the same shape and rows."""
    features, size, kind = shape
    generator = torch.Generator(device).manual_seed(rows)
    make = partial(torch.randn, generator=generator, device=device, dtype=torch.bfloat16)
    lines = features * (2 if kind == SWIGLU else 1)
    return make(rows, size) * 3, make(size), make(lines, size) * 0.02, make(rows, features)


def _output(shape: Shape, rows: int, tile: Tile, device: torch.device) -> Tensor | None:
    """Compute with a tile; None: it does not compile, or the device cannot hold it."""
    x, norm, weight, out = _operands(shape, rows, device)
    own = norm if tile.norm else None
    scratch = Scratch.allocate(device)
    try:
        product(tile, x, weight, out, kind=shape[2], norm=own, eps=1e-6, scratch=scratch)
    except Exception as error:
        print(f"tile {shape} rows={rows} {tile}: {type(error).__name__}: {error}"[:200], flush=True)
        return None
    return out


def _right(shape: Shape, rows: int, tile: Tile, device: torch.device) -> bool:
    """Whether a tile's result is that of float64, but for rounding."""
    x, norm, weight, before = (each.double() for each in _operands(shape, rows, device))
    if tile.norm:
        x = F.rms_norm(x, x.shape[-1:], norm, eps=1e-6)
    wide = F.linear(x, weight)
    if shape[2] == ADD:
        wide += before
    if shape[2] == SWIGLU:
        gate, up = wide.chunk(2, -1)
        wide = F.silu(gate) * up
    out = _output(shape, rows, tile, device)
    if out is None:
        return False
    wrong = float((out.double() - wide).norm() / wide.norm())
    if not wrong < TOLERANCE:
        print(f"tile {shape} rows={rows} {tile}: is wrong by {wrong}", flush=True)
    return wrong < TOLERANCE
