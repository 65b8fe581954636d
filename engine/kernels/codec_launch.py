"""What the codec's kernels share: launch options, scratch memory, a sine.

On the CPU, under Triton's interpreter, kernels are not chained and there is no hardware sine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import libdevice

from engine.kernels.pieces import INTERPRETED

PROGRAM_VALUES = 4 << 20  # partial sums of one launch
ARRIVALS = 1 << 16
CHAINING = 9  # compute capability that can start a kernel while the one before it ends


@dataclass(frozen=True, slots=True)
class Scratch:
    """What programs that share a sum exchange. Launches that may overlap need one each."""

    parts: Tensor  # fp32
    arrivals: Tensor  # int32, zero between launches

    @classmethod
    def allocate(cls, device: torch.device) -> Scratch:
        """Make the scratch memory of one stream."""
        return cls(
            parts=torch.empty(PROGRAM_VALUES, device=device),
            arrivals=torch.zeros(ARRIVALS, dtype=torch.int32, device=device),
        )


def chain(*, warps: int = 4) -> dict[str, Any]:
    """Return launch options of a kernel that starts while the one before it ends, if it can."""
    if INTERPRETED:
        return {"CHAINED": False}
    chained = torch.cuda.get_device_capability()[0] >= CHAINING
    return {"CHAINED": chained, "num_warps": warps, "launch_pdl": chained}


def options(dtype: torch.dtype, *, warps: int = 4) -> dict[str, Any]:
    """Return the options of `chain` and those that follow from the operands.

    fp32 operands are split into three tf32 products: as good as fp32 and on the matrix units.
    """
    if INTERPRETED:
        return {"PRECISION": "ieee", "PLAIN": True} | chain()
    precision = "tf32x3" if dtype is torch.float32 else "tf32"
    return {"PRECISION": precision, "PLAIN": False} | chain(warps=warps)


@triton.jit
def sine(x, PLAIN: tl.constexpr):
    """Return the sine up to its sign: only squares are asked for.

    The hardware's sine is good to 2^-21 near zero and bad far from it; sin^2 has the period pi.
    """
    if PLAIN:
        return tl.sin(x)
    else:
        turns = x * 0.3183098861837907
        return libdevice.fast_sinf((turns - libdevice.rint(turns)) * 3.141592653589793)


@triton.jit
def fetch(start, count, COLUMNS: tl.constexpr, WARPS: tl.constexpr):
    """Ask for the `count` values behind each of COLUMNS pointers in the L2 cache.

    A kernel that waits for the one before it has nothing better to do. A piece per thread, of
    16-byte multiples.
    """
    PIECES: tl.constexpr = WARPS * 32 // COLUMNS if COLUMNS < WARPS * 32 else 1
    piece = count // PIECES
    address = start[:, None] + tl.arange(0, PIECES)[None, :] * piece
    size = piece * (start.dtype.element_ty.primitive_bitwidth // 8)
    tl.inline_asm_elementwise(
        "cp.async.bulk.prefetch.L2.global [$1], $2; mov.u32 $0, 0;",
        "=r,l,r",
        [address.to(tl.int64), size],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def vector(pointer, at, size):
    """Load a fp32 weight per column; zeros, if there is none."""
    if pointer is None:
        return tl.zeros_like(at).to(tl.float32)
    else:
        return tl.load(pointer + at, mask=at < size, other=0.0)
