"""The first half of a ConvNeXt block: a depthwise causal convolution and a layer norm."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.codec_launch import chain
from engine.kernels.pieces import follow


def refine(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    norm_weight: Tensor,
    norm_bias: Tensor,
    out: Tensor,
    *,
    eps: float,
) -> None:
    """Convolve each channel by itself, then normalise over channels.

    Shapes: x (rows, taps - 1 + length, channels); weight (taps, channels), the others (channels,),
    all fp32; out (rows * length, channels).
    """
    taps, channels = weight.shape
    _refine[(len(out),)](
        x,
        weight,
        bias,
        norm_weight,
        norm_bias,
        out,
        len(out) // len(x),
        channels,
        x.stride(0),
        eps,
        TAPS=taps,
        TAPS_PADDED=triton.next_power_of_2(taps),
        CHANNELS=triton.next_power_of_2(channels),
        **chain(),
    )


@triton.jit(do_not_specialize=["length"])
def _refine(
    x, weight, bias, norm_weight, norm_bias, out, length, channels, x_row, eps,
    TAPS: tl.constexpr, TAPS_PADDED: tl.constexpr, CHANNELS: tl.constexpr, CHAINED: tl.constexpr,
):  # fmt: skip
    channel = tl.arange(0, CHANNELS)
    inside = channel < channels
    tap = tl.arange(0, TAPS_PADDED)[:, None]
    known = (tap < TAPS) & inside[None, :]
    factors = tl.load(weight + tap * channels + channel[None, :], mask=known, other=0.0)
    shift = tl.load(bias + channel, mask=inside, other=0.0)
    norm_scale = tl.load(norm_weight + channel, mask=inside, other=0.0)
    norm_shift = tl.load(norm_bias + channel, mask=inside, other=0.0)
    follow(CHAINED)
    line = tl.program_id(0)
    row = line // length
    base = x + row * x_row + (line - row * length) * channels
    values = tl.load(base + tap * channels + channel[None, :], mask=known, other=0.0)
    total = tl.sum(values.to(tl.float32) * factors, 0) + shift
    mean = tl.sum(total, 0) / channels
    off = tl.where(inside, total - mean, 0.0)
    scale = tl.rsqrt(tl.sum(off * off, 0) / channels + eps)
    total = off * scale * norm_scale + norm_shift
    tl.store(out + line * channels + channel, total.to(out.dtype.element_ty), mask=inside)
