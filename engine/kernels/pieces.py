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
def invite(CHAINED: tl.constexpr):
    """Let the next kernel start its own preparations even before this one's; `follow` later."""
    if CHAINED:
        gdc_launch_dependents()


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
def prefetch(pointer, stride, LINES: tl.constexpr, COUNT: tl.constexpr, THREADS: tl.constexpr):
    """Ask for (LINES, COUNT) 2-byte values in the second-level cache, a piece per thread."""
    piece: tl.constexpr = LINES * COUNT * 2 // THREADS  # bytes, a multiple of 16
    per_line: tl.constexpr = COUNT * 2 // piece
    at = tl.arange(0, THREADS)
    address = (pointer + at // per_line * stride + at % per_line * (piece // 2)).to(tl.int64)
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
def turned(
    low, high, low_weight, high_weight, cosine, low_sine, high_sine, eps, like, HALF: tl.constexpr
):
    """Normalise heads over their width and rotate them: halves (heads, HALF), fp32 but rounded.

    Weights, cosines and sines have one line or one for each head.
    """
    square = tl.sum(low * low, 1) + tl.sum(high * high, 1)
    scale = tl.rsqrt(square / (2 * HALF) + eps)[:, None]
    low = rounded(rounded(low * scale, like) * low_weight, like)
    high = rounded(rounded(high * scale, like) * high_weight, like)
    turned_low = rounded(low * cosine, like) + rounded(high * low_sine, like)
    turned_high = rounded(high * cosine, like) + rounded(low * high_sine, like)
    return rounded(turned_low, like), rounded(turned_high, like)


@triton.jit
def halves(pointer, mask, HALF: tl.constexpr):
    """Load both halves of heads that begin at `pointer` (heads, 1): (heads, HALF), fp32."""
    at = pointer + tl.arange(0, HALF)[None, :]
    low = tl.load(at, mask=mask, other=0.0).to(tl.float32)
    high = tl.load(at + HALF, mask=mask, other=0.0).to(tl.float32)
    return low, high


@triton.jit
def angles(cosine_ptr, sine_ptr, position, HALF: tl.constexpr):
    """Load a position's cosines and both signs of its sines: (1, HALF), fp32."""
    at = position * 2 * HALF + tl.arange(0, HALF)[None, :]
    cosine = tl.load(cosine_ptr + at).to(tl.float32)
    sine_low = tl.load(sine_ptr + at).to(tl.float32)
    sine_high = tl.load(sine_ptr + at + HALF).to(tl.float32)
    return cosine, sine_low, sine_high
