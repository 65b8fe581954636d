"""Attention of the Code Predictor: at most sixteen positions, a small program per row and head."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.pieces import angles, chains, follow, normal_head, options
from engine.model.layers import Rope


def frame_attention(
    qkv: Tensor,
    qk_norm: Tensor,
    rope: Rope,
    keys: Tensor,
    values: Tensor,
    out: Tensor,
    *,
    position: int,
    eps: float,
) -> None:
    """Attend at `position`, the same for all rows; position 1 brings position 0 with it.

    Shapes: qkv (rows or 2 * rows, (heads + 2 * kv_heads) * head_dim); keys, values
    (rows, kv_heads, positions, head_dim) of one layer; out (rows or 2 * rows, heads * head_dim).
    """
    _, kv_heads, positions, width = keys.shape
    heads = qk_norm.shape[0] - kv_heads
    pair = position == 1
    _frame_attention[(qkv.shape[0] // (2 if pair else 1), kv_heads)](
        qkv,
        qk_norm,
        rope.cosine,
        rope.sine,
        keys,
        values,
        out,
        position,
        positions,
        eps,
        width**-0.5,
        KEYS=kv_heads,
        GROUP=heads // kv_heads,
        HALF=width // 2,
        REACH=triton.next_power_of_2(positions),
        PAIR=pair,
        CHAINED=chains(),
        **options(1),
    )


@triton.jit(do_not_specialize=["position"])
def _frame_attention(
    qkv_ptr,
    weight_ptr,
    cosine_ptr,
    sine_ptr,
    keys_ptr,
    values_ptr,
    out_ptr,
    position,
    capacity,
    eps,
    scale,
    KEYS: tl.constexpr,
    GROUP: tl.constexpr,
    HALF: tl.constexpr,
    REACH: tl.constexpr,
    PAIR: tl.constexpr,
    CHAINED: tl.constexpr,
):
    row = tl.program_id(0)
    key_head = tl.program_id(1)
    cosine, low_sine, high_sine = angles(cosine_ptr, sine_ptr, position, HALF)
    wide = tl.arange(0, 2 * HALF)
    half = tl.arange(0, HALF)
    size: tl.constexpr = 2 * HALF
    line: tl.constexpr = (GROUP + 2) * KEYS * size  # values of one token in qkv
    head = GROUP * KEYS + key_head
    past = (row * KEYS + key_head) * capacity * size
    if PAIR:
        follow(CHAINED)
        base = qkv_ptr + (2 * row + 1) * line
        first = qkv_ptr + 2 * row * line
        cosine0, low_sine0, high_sine0 = angles(cosine_ptr, sine_ptr, 0, HALF)
        low, high = normal_head(
            first + head * size, weight_ptr + head * size, cosine0, low_sine0, high_sine0, eps, HALF
        )
        value = tl.load(first + (head + KEYS) * size + wide)
        tl.store(keys_ptr + past + half, low.to(keys_ptr.dtype.element_ty))
        tl.store(keys_ptr + past + HALF + half, high.to(keys_ptr.dtype.element_ty))
        tl.store(values_ptr + past + wide, value)
        old_low = low[None, :]
        old_high = high[None, :]
        old_value = value.to(tl.float32)[None, :]
        known = tl.full([1], 1, tl.int1)
        for query in tl.static_range(GROUP):  # position 0 sees itself alone
            to = out_ptr + (2 * row * KEYS * GROUP + key_head * GROUP + query) * size
            tl.store(to + wide, value)
    else:
        base = qkv_ptr + row * line
        # Earlier positions stand since before the last draw, which waited for all of them.
        at = tl.arange(0, REACH)
        known = at < position
        to = past + at[:, None] * size
        inside = known[:, None]
        old_low = tl.load(keys_ptr + to + half[None, :], mask=inside, other=0.0).to(tl.float32)
        old_high = tl.load(keys_ptr + to + HALF + half[None, :], mask=inside, other=0.0)
        old_high = old_high.to(tl.float32)
        old_value = tl.load(values_ptr + to + wide[None, :], mask=inside, other=0.0)
        old_value = old_value.to(tl.float32)
        follow(CHAINED)
    new_low, new_high = normal_head(
        base + head * size, weight_ptr + head * size, cosine, low_sine, high_sine, eps, HALF
    )
    value = tl.load(base + (head + KEYS) * size + wide)
    to = past + position * size
    tl.store(keys_ptr + to + half, new_low.to(keys_ptr.dtype.element_ty))
    tl.store(keys_ptr + to + HALF + half, new_high.to(keys_ptr.dtype.element_ty))
    tl.store(values_ptr + to + wide, value)
    for query in tl.static_range(GROUP):
        number = key_head * GROUP + query
        low, high = normal_head(
            base + number * size, weight_ptr + number * size, cosine, low_sine, high_sine, eps, HALF
        )
        itself = (tl.sum(low * new_low, 0) + tl.sum(high * new_high, 0)) * scale
        score = tl.sum(old_low * low[None, :] + old_high * high[None, :], 1) * scale
        score = tl.where(known, score, -1e30)
        top = tl.maximum(tl.max(score, 0), itself)
        weight = tl.exp(score - top)
        own = tl.exp(itself - top)
        mixed = tl.sum(weight[:, None] * old_value, 0) + own * value.to(tl.float32)
        mixed = mixed / (tl.sum(weight, 0) + own)
        token = 2 * row + 1 if PAIR else row
        to = out_ptr + (token * KEYS * GROUP + number) * size
        tl.store(to + wide, mixed.to(out_ptr.dtype.element_ty))
