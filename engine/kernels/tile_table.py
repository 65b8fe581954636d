"""Which product kernel, and with which tiles, for a weight's shape and a number of rows.

Raced inside whole steps on an H200, 2026-11-30; `python -m engine.bench --random 1.7b --tune` races
them again. What is not in the table goes to cuBLAS, which also does fp32 and long prompts.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

STORE, ADD, SWIGLU = 0, 1, 2  # what becomes of the product

PASSES = 3  # most slabs of weights that one program holds in registers

Shape = tuple[int, int, int]  # outputs (of the result), inputs, kind


@dataclass(frozen=True, slots=True)
class Tile:
    """One way to launch a product."""

    kernel: str  # "vector", "slab", "loop"
    features: int  # outputs per program
    depth: int  # inputs per step
    warps: int
    stages: int = 1
    splits: int = 1
    prefetch: bool = False  # weights into the second-level cache before waiting
    norm: bool = False  # normalises its input itself

    def slabs(self, size: int) -> tuple[int, int]:
        """Cut `size` inputs into parts that warps share, and passes over them."""
        steps = size // self.depth
        if self.kernel == "vector":
            return 1, steps
        parts = 8 if steps % 8 == 0 else 4
        return parts, steps // parts

    def fits(self, shape: Shape) -> bool:
        """Whether it can compute a product of that shape."""
        outputs, size, kind = shape
        if outputs % self.features:
            return False
        if self.kernel == "loop":
            gated = kind == SWIGLU and self.splits > 1
            return size % (self.depth * self.splits) == 0 and not (self.norm or gated)
        parts, passes = self.slabs(size)
        most = 1 if self.norm or kind == SWIGLU else PASSES
        return 1 <= passes <= most and parts * passes * self.depth == size


# shape → rows up to which → tile
TILES: dict[Shape, dict[int, Tile | None]] = {
    (4096, 1024, STORE): {
        1: Tile("vector", 2, 1024, 1, norm=True),
        8: Tile("slab", 32, 128, 4, norm=True),
        64: Tile("loop", 64, 128, 4, 4, 1, True),
        128: Tile("loop", 64, 64, 8, 6, 1, True),
    },
    (1024, 2048, ADD): {
        1: Tile("vector", 2, 2048, 2),
        8: Tile("slab", 16, 128, 4),
        16: Tile("slab", 16, 256, 8),
        32: Tile("loop", 64, 128, 4, 4, 8, True),
        64: Tile("loop", 64, 128, 4, 4, 4, True),
        128: Tile("loop", 64, 64, 4, 6, 4, True),
    },
    (3072, 1024, SWIGLU): {
        1: Tile("vector", 4, 1024, 4, norm=True),
        8: Tile("slab", 16, 128, 4, norm=True),
        16: Tile("loop", 64, 128, 4, 4, 1),
        32: Tile("loop", 16, 128, 4, 6, 1),
        64: Tile("loop", 64, 64, 4, 6, 1),
    },
    (1024, 3072, ADD): {
        1: Tile("vector", 4, 1024, 2),
        8: Tile("loop", 64, 128, 4, 4, 4, True),
        16: Tile("slab", 16, 256, 4),
        32: Tile("loop", 64, 128, 4, 4, 4, True),
        64: Tile("loop", 64, 128, 8, 4, 4, True),
        128: Tile("loop", 32, 256, 4, 3, 4),
    },
    (2048, 1024, STORE): {
        1: Tile("vector", 4, 1024, 1, norm=True),
        4: Tile("slab", 16, 256, 4),
        8: Tile("slab", 32, 256, 8, norm=True),
        16: Tile("slab", 8, 256, 4),
        32: Tile("slab", 32, 256, 4),
        64: Tile("loop", 16, 256, 4, 4, 1, True),
    },
    (4096, 2048, STORE): {
        1: Tile("vector", 4, 2048, 4, norm=True),
        8: Tile("slab", 16, 128, 4),
    },
    (2048, 2048, ADD): {
        1: Tile("vector", 2, 2048, 1),
        8: Tile("slab", 16, 128, 4),
        16: Tile("loop", 64, 64, 4, 6, 2, True),
        32: Tile("loop", 32, 128, 4, 5, 2, True),
        64: Tile("loop", 64, 128, 4, 4, 2, True),
        128: Tile("loop", 64, 64, 4, 6, 4, True),
    },
    (6144, 2048, SWIGLU): {
        1: Tile("vector", 2, 2048, 4, norm=True),
        16: Tile("loop", 64, 128, 4, 4, 1),
        64: Tile("loop", 64, 64, 4, 6, 1),
        128: Tile("loop", 64, 64, 8, 6, 1),
    },
    (2048, 6144, ADD): {
        1: Tile("vector", 4, 2048, 4),
        2: Tile("slab", 16, 256, 8),
        32: Tile("loop", 64, 128, 4, 4, 8),
        64: Tile("loop", 64, 128, 4, 4, 4),
    },
    (3072, 2048, STORE): {
        1: Tile("vector", 8, 2048, 4),
        2: Tile("slab", 16, 256, 8),
        4: Tile("slab", 32, 256, 8),
        8: Tile("slab", 16, 256, 8),
        32: None,
        64: Tile("loop", 64, 128, 8, 4, 1, True),
    },
}


def tile_for(shape: Shape, rows: int, dtype: torch.dtype) -> Tile | None:
    """Return the measured best, or None for cuBLAS."""
    if dtype is not torch.bfloat16:
        return None
    table = TILES.get(shape, {})
    return next((tile for most, tile in sorted(table.items()) if rows <= most), None)
