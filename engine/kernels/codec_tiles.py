"""How a matrix product is cut into programs: a rule, and what measuring found better than it.

`python -m engine.kernels.codec_tune` writes the measured table beside this file.
"""

from __future__ import annotations

import json
from dataclasses import astuple, dataclass, replace
from functools import cache
from pathlib import Path

TABLE = Path(__file__).with_name("codec_tiles.json")
PROGRAMS = 264  # two for each of the 132 multiprocessors of an H100 or H200
FEW = 16  # rows of the smallest tile: fewer products than that are bound by reading weights
ONCE_DEPTH = 1024  # values of a weight column that one program can hold in registers


@dataclass(frozen=True, slots=True)
class Tile:
    """The share of one program."""

    rows: int
    columns: int
    depth: int  # values of the sum per step
    warps: int
    stages: int  # steps whose operands are under way; 0: all of the sum at once, from registers
    split: int = 1  # programs that share the sum of one tile

    def programs(self, rows: int, columns: int) -> int:
        """Programs of a product of that size."""
        return -(-rows // self.rows) * -(-columns // self.columns) * self.split


def choose(rows: int, columns: int, depth: int, *, inputs: int, whole: bool, itemsize: int) -> Tile:
    """Pick the tile of a product (rows, depth) @ (depth, columns).

    Args:
        inputs: channels of one tap: the sum's steps should not straddle taps.
        whole: one program must see a row's whole sum.
        itemsize: bytes of an operand.
    """
    if itemsize == 2:
        measured = _measured(rows, columns, depth)
        if measured:
            return replace(measured, split=1) if whole else measured
    if rows <= FEW and 64 <= depth <= ONCE_DEPTH:  # each of four warps sums 16 or more
        return Tile(FEW, 16, depth, 4, 0)
    step = _step(inputs, 128 // itemsize)
    if rows <= 2 * FEW:
        size = Tile(FEW if rows <= FEW else 2 * FEW, 32, step, 4, 5)
    else:
        large = _largest(rows, columns, step, itemsize)
        if large is not None:
            return large
        size = Tile(32 if rows <= 128 else 64, 32, step, 4, 4)
    return size if whole else _split(size, rows, columns, depth)


def choose_mixed(rows: int, columns: int, depth: int, *, inputs: int) -> Tile:
    """Pick the tile of a convolution with a mix behind it: one program sees all columns."""
    wide = max(16, 1 << (columns - 1).bit_length())
    height, warps = (32, 4) if rows < 64 * PROGRAMS else (128, 8)  # four warps would spill
    tile = Tile(height, wide, _step(inputs, 32), warps, 4)
    return _measured(rows, columns, depth + columns) or tile


def _measured(rows: int, columns: int, depth: int) -> Tile | None:
    """Look up a product, or the like one of half or a quarter as many rows."""
    for shift in range(3):
        tile = table().get(key(max(1, rows >> shift), columns, depth))
        if tile:
            return replace(tile, split=max(1, tile.split >> shift))
    return None


def _largest(rows: int, columns: int, step: int, itemsize: int) -> Tile | None:
    """Return the largest tile that still keeps every multiprocessor busy."""
    narrow = columns <= 96
    candidates = [
        Tile(128, 256, step, 8, 3),
        Tile(128, 128, step, 8, 4),
        Tile(128, 128 if narrow else 64, step, 4, 4),
        Tile(64, 64, step, 4, 4),
    ]
    for tile in candidates[itemsize == 4 :]:
        if tile.columns <= max(128, columns) and tile.programs(rows, columns) >= PROGRAMS // 2:
            return tile
    return None


def _split(tile: Tile, rows: int, columns: int, depth: int) -> Tile:
    """Share each tile's sum among programs while multiprocessors would stand idle."""
    programs, steps, split = tile.programs(rows, columns), depth // tile.depth, 1
    while programs * split * 2 <= PROGRAMS and steps // (split * 2) >= 4 and split < 16:
        split *= 2
    return Tile(tile.rows, tile.columns, tile.depth, tile.warps, tile.stages, split)


def _step(inputs: int, most: int) -> int:
    """Return the largest power of two that divides the channels of a tap, from 16 to `most`."""
    step = most
    while step > 16 and inputs % step:
        step //= 2
    return step


def key(rows: int, columns: int, depth: int) -> str:
    """Name a product; rows by the power of two that holds them."""
    return f"{(rows - 1).bit_length()} {columns} {depth}"


@cache
def table() -> dict[str, Tile]:
    """Return the measured tiles by the names of products; a tuner changes it."""
    if not TABLE.exists():
        return {}
    return {key: Tile(*values) for key, values in json.loads(TABLE.read_text()).items()}


def save(path: Path) -> None:
    """Write the table."""
    lines = [f'  "{name}": {json.dumps(list(astuple(tile)))}' for name, tile in table().items()]
    path.write_text("{\n" + ",\n".join(sorted(lines)) + "\n}\n")
