"""Pieces that kernels share: how they follow each other, and where values are rounded.

Rounding points are those of the reference: a value that PyTorch would store in bfloat16 is rounded
here too, even when it never leaves a register.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

INTERPRETED = triton.knobs.runtime.interpret  # on the CPU, for tests


@cache
def chains() -> bool:
    """Whether kernels may start while the one before drains: from compute capability 9 on."""
    return not INTERPRETED and torch.cuda.get_device_capability()[0] >= 9


def options(warps: int, *, chained: bool = True) -> dict[str, Any]:
    """Return launch options; `chained` is for kernels that call `follow`."""
    if INTERPRETED:
        return {}
    return {"num_warps": warps, "launch_pdl": chained and chains()}


@triton.jit
def follow(CHAINED: tl.constexpr):
    """Let the next kernel start its own preparations, then wait for what came before.

    Every program of a chained kernel calls it: a grid counts as done only when all have waited.
    """
    if CHAINED:
        gdc_launch_dependents()
        gdc_wait()


@triton.jit
def follow_all(CHAINED: tl.constexpr):
    """Wait for all that came before, then let the next kernel start.

    What later kernels read before they wait must have been written before such a point: kernels
    that use `follow` alone could be in flight many at a time.
    """
    if CHAINED:
        gdc_wait()
        gdc_launch_dependents()


@triton.jit
def prefetch(pointer, COUNT: tl.constexpr, THREADS: tl.constexpr):
    """Ask for COUNT contiguous 2-byte values in the second-level cache, a piece per thread."""
    piece: tl.constexpr = COUNT * 2 // THREADS  # bytes, a multiple of 16
    address = (pointer + tl.arange(0, THREADS) * (piece // 2)).to(tl.int64)
    tl.inline_asm_elementwise(
        "cp.async.bulk.prefetch.L2.global [$1], $2; mov.u32 $0, 0;",
        "=r,l,r",
        [address, piece],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def rounded(x, like):
    """Round fp32 to the element type of the pointer `like`, as storing and loading would."""
    return x.to(like.dtype.element_ty).to(tl.float32)


@triton.jit
def normal_head(head, weight, cosine, sine_low, sine_high, eps, HALF: tl.constexpr):
    """Load one head, normalise it over its width and rotate it: both halves, fp32 but rounded."""
    at = tl.arange(0, HALF)
    low = tl.load(head + at).to(tl.float32)
    high = tl.load(head + HALF + at).to(tl.float32)
    square = tl.sum(low * low, 0) + tl.sum(high * high, 0)
    scale = tl.rsqrt(square / (2 * HALF) + eps)
    low = rounded(rounded(low * scale, head) * tl.load(weight + at).to(tl.float32), head)
    high = rounded(rounded(high * scale, head) * tl.load(weight + HALF + at).to(tl.float32), head)
    turned_low = rounded(rounded(low * cosine, head) + rounded(high * sine_low, head), head)
    turned_high = rounded(rounded(high * cosine, head) + rounded(low * sine_high, head), head)
    return turned_low, turned_high


@triton.jit
def angles(cosine_ptr, sine_ptr, position, HALF: tl.constexpr):
    """Load a position's cosines and both signs of its sines, fp32."""
    at = position * 2 * HALF + tl.arange(0, HALF)
    cosine = tl.load(cosine_ptr + at).to(tl.float32)
    sine_low = tl.load(sine_ptr + at).to(tl.float32)
    sine_high = tl.load(sine_ptr + at + HALF).to(tl.float32)
    return cosine, sine_low, sine_high
