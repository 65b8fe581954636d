"""Root-mean-square normalisation, with the residual sum before it, and SwiGLU."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.pieces import chains, follow, options, rounded


def rms_norm(
    x: Tensor,
    weight: Tensor,
    out: Tensor,
    *,
    eps: float,
    delta: Tensor | None = None,
) -> None:
    """Normalise rows into `out`; first add `delta` to `x` in place, if given.

    Shapes: x (rows, width), any row stride; delta, out (rows, width) contiguous.
    """
    rows, width = x.shape
    _rms_norm[(rows,)](
        x,
        x if delta is None else delta,
        weight,
        out,
        width,
        x.stride(0),
        eps,
        ADD=delta is not None,
        BLOCK=triton.next_power_of_2(width),
        CHAINED=chains(),
        **options(4),
    )


def swiglu(x: Tensor, out: Tensor) -> None:
    """Gate: (rows, 2 * inner), gate then up -> (rows, inner)."""
    rows, inner = out.shape
    _swiglu[(rows, triton.cdiv(inner, 1024))](
        x, out, inner, BLOCK=1024, **options(4, chained=False)
    )


@triton.jit
def _rms_norm(
    x_ptr,
    delta_ptr,
    weight_ptr,
    out_ptr,
    width,
    stride,
    eps,
    ADD: tl.constexpr,
    BLOCK: tl.constexpr,
    CHAINED: tl.constexpr,
):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < width
    weight = tl.load(weight_ptr + at, mask=inside, other=0.0).to(tl.float32)
    follow(CHAINED)
    x = tl.load(x_ptr + row * stride + at, mask=inside, other=0.0).to(tl.float32)
    if ADD:
        delta = tl.load(delta_ptr + row * width + at, mask=inside, other=0.0).to(tl.float32)
        x = rounded(x + delta, x_ptr)
        tl.store(x_ptr + row * stride + at, x.to(x_ptr.dtype.element_ty), mask=inside)
    scale = tl.rsqrt(tl.sum(x * x, 0) / width + eps)
    normal = rounded(x * scale, out_ptr) * weight
    tl.store(out_ptr + row * width + at, normal.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _swiglu(x_ptr, out_ptr, inner, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < inner
    gate = tl.load(x_ptr + row * 2 * inner + at, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(x_ptr + row * 2 * inner + inner + at, mask=inside, other=0.0).to(tl.float32)
    gated = rounded(gate / (1.0 + tl.exp(-gate)), out_ptr) * up
    tl.store(out_ptr + row * inner + at, gated.to(out_ptr.dtype.element_ty), mask=inside)
