"""Attention of the Code Predictor: at most sixteen positions, a small program per row and head."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.pieces import angles, chains, follow, halves, options, turned
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
        QUERIES=triton.next_power_of_2(heads // kv_heads),
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
    QUERIES: tl.constexpr,  # heads that share keys, padded
    HALF: tl.constexpr,
    REACH: tl.constexpr,
    PAIR: tl.constexpr,
    CHAINED: tl.constexpr,
):
    """Attend for one row and the heads that share a key head; its cache is whole afterwards."""
    row = tl.program_id(0)
    key_head = tl.program_id(1)
    wide = tl.arange(0, 2 * HALF)
    half = tl.arange(0, HALF)
    size: tl.constexpr = 2 * HALF
    line: tl.constexpr = (GROUP + 2) * KEYS * size  # values of one token in qkv
    past = (row * KEYS + key_head) * capacity * size
    query = tl.arange(0, QUERIES)[:, None]
    real = query < GROUP
    heads = (key_head * GROUP + query) * size
    key = (GROUP * KEYS + key_head) * size + tl.zeros([1, 1], tl.int32)
    cosine, low_sine, high_sine = angles(cosine_ptr, sine_ptr, position, HALF)
    low_weight, high_weight = halves(weight_ptr + heads, real, HALF)
    low_key_weight, high_key_weight = halves(weight_ptr + key, True, HALF)
    token = row
    if PAIR:
        token = 2 * row + 1
        follow(CHAINED)
        first = qkv_ptr + 2 * row * line
        cosine0, low_sine0, high_sine0 = angles(cosine_ptr, sine_ptr, 0, HALF)
        old_low, old_high = halves(first + key, True, HALF)
        old_low, old_high = turned(
            old_low, old_high, low_key_weight, high_key_weight, cosine0, low_sine0, high_sine0, eps,
            qkv_ptr, HALF,
        )  # fmt: skip
        value = tl.load(first + key + KEYS * size + wide[None, :])
        old_value = value.to(tl.float32)
        known = tl.full([1], 1, tl.int1)
        tl.store(keys_ptr + past + half[None, :], old_low.to(keys_ptr.dtype.element_ty))
        tl.store(keys_ptr + past + HALF + half[None, :], old_high.to(keys_ptr.dtype.element_ty))
        tl.store(values_ptr + past + wide[None, :], value)
        to = out_ptr + 2 * row * KEYS * GROUP * size + heads + wide[None, :]
        tl.store(to, value + tl.zeros([QUERIES, 1], value.dtype), mask=real)  # it sees itself alone
    else:
        # Earlier positions stand since before the last draw, which waited for all of them.
        at = tl.arange(0, REACH)
        known = at < position
        old_low, old_high = halves(keys_ptr + past + at[:, None] * size, known[:, None], HALF)
        to = values_ptr + past + at[:, None] * size + wide[None, :]
        old_value = tl.load(to, mask=known[:, None], other=0.0).to(tl.float32)
        follow(CHAINED)
    # Loads first, for each takes its time; then stores, which later loads could not overtake.
    base = qkv_ptr + token * line
    low, high = halves(base + heads, real, HALF)
    new_low, new_high = halves(base + key, True, HALF)
    value = tl.load(base + key + KEYS * size + wide[None, :])
    new_low, new_high = turned(
        new_low, new_high, low_key_weight, high_key_weight, cosine, low_sine, high_sine, eps,
        qkv_ptr, HALF,
    )  # fmt: skip
    low, high = turned(
        low, high, low_weight, high_weight, cosine, low_sine, high_sine, eps, qkv_ptr, HALF
    )
    itself = (tl.sum(low * new_low, 1) + tl.sum(high * new_high, 1)) * scale
    score = low[:, None, :] * old_low[None, :, :] + high[:, None, :] * old_high[None, :, :]
    score = tl.where(known[None, :], tl.sum(score, 2) * scale, -1e30)
    top = tl.maximum(tl.max(score, 1), itself)
    weight = tl.exp(score - top[:, None])
    own = tl.exp(itself - top)
    mixed = tl.sum(weight[:, :, None] * old_value[None, :, :], 1) + own[:, None] * value
    mixed = mixed / (tl.sum(weight, 1) + own)[:, None]
    to = out_ptr + token * KEYS * GROUP * size + heads + wide[None, :]
    tl.store(to, mixed.to(out_ptr.dtype.element_ty), mask=real)
    to = past + position * size
    tl.store(keys_ptr + to + half[None, :], new_low.to(keys_ptr.dtype.element_ty))
    tl.store(keys_ptr + to + HALF + half[None, :], new_high.to(keys_ptr.dtype.element_ty))
    tl.store(values_ptr + to + wide[None, :], value)
