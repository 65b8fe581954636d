"""Prefill of short prompts: normalise, rotate, write the cache and attend, in one kernel.

A program holds the whole prompt of one row and key head, so it is for prompts of up to 64 rows; the
first sound of nearly every reply begins with one. Longer ones go through `prompt_heads`.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.pieces import chains, follow, halves, options, turned
from engine.model.layers import Rope
from engine.model.rows import SLOT, WIDTH

LONGEST = 64  # prompt rows

_SLOT = tl.constexpr(SLOT)
_WIDTH = tl.constexpr(WIDTH)


def prompt_attention(
    qkv: Tensor,
    qk_norm: Tensor,
    rope: Rope,
    keys: Tensor,
    values: Tensor,
    rows: Tensor,
    out: Tensor,
    *,
    length: int,
    eps: float,
) -> None:
    """Attend inside prompts of equal padded length, a power of two from 16 to 64.

    Shapes: qkv (rows * length, (heads + 2 * kv_heads) * head_dim); keys, values
    (slots, kv_heads, positions, head_dim) of one layer; rows (rows, 16) int32; out
    (rows * length, heads * head_dim).
    """
    _, kv_heads, positions, width = keys.shape
    _prompt_attention[(rows.shape[0], kv_heads)](
        qkv,
        qk_norm,
        rope.cosine,
        rope.sine,
        keys,
        values,
        rows,
        out,
        positions,
        eps,
        width**-0.5,
        KEYS=kv_heads,
        GROUP=qk_norm.shape[0] // kv_heads - 1,
        HALF=width // 2,
        LENGTH=length,
        CHAINED=chains(),
        **options(4 if length <= 32 else 8),
    )


@triton.jit
def _turned(heads, weight, cosine, low_sine, high_sine, eps, LINE: tl.constexpr, HALF, LENGTH):
    """Load one head of every token, normalised and rotated: two (LENGTH, HALF) halves."""
    low, high = halves(heads + tl.arange(0, LENGTH)[:, None] * LINE, True, HALF)
    low_weight, high_weight = halves(weight + tl.zeros([1, 1], tl.int32), True, HALF)
    low, high = turned(
        low, high, low_weight, high_weight, cosine, low_sine, high_sine, eps, heads, HALF
    )
    return low.to(heads.dtype.element_ty), high.to(heads.dtype.element_ty)


@triton.jit
def _prompt_attention(
    qkv_ptr,
    weight_ptr,
    cosine_ptr,
    sine_ptr,
    keys_ptr,
    values_ptr,
    rows_ptr,
    out_ptr,
    capacity,
    eps,
    scale,
    KEYS: tl.constexpr,
    GROUP: tl.constexpr,
    HALF: tl.constexpr,
    LENGTH: tl.constexpr,
    CHAINED: tl.constexpr,
):
    row = tl.program_id(0)
    key_head = tl.program_id(1)
    size: tl.constexpr = 2 * HALF
    line: tl.constexpr = (GROUP + 2) * KEYS * size  # values of one token in qkv
    token = tl.arange(0, LENGTH)
    half = tl.arange(0, HALF)
    wide = tl.arange(0, size)
    angle = token[:, None] * size + half[None, :]
    cosine = tl.load(cosine_ptr + angle).to(tl.float32)
    low_sine = tl.load(sine_ptr + angle).to(tl.float32)
    high_sine = tl.load(sine_ptr + angle + HALF).to(tl.float32)
    slot = tl.load(rows_ptr + row * _WIDTH + _SLOT).to(tl.int64)
    past = (slot * KEYS + key_head) * capacity * size
    follow(CHAINED)
    base = qkv_ptr + row * LENGTH * line
    head = GROUP * KEYS + key_head
    key_low, key_high = _turned(
        base + head * size, weight_ptr + head * size, cosine, low_sine, high_sine, eps, line,
        HALF, LENGTH,
    )  # fmt: skip
    value = tl.load(base + (head + KEYS) * size + token[:, None] * line + wide[None, :])
    tl.store(keys_ptr + past + angle, key_low)
    tl.store(keys_ptr + past + angle + HALF, key_high)
    tl.store(values_ptr + past + token[:, None] * size + wide[None, :], value)
    for query in tl.static_range(GROUP):
        number = key_head * GROUP + query
        low, high = _turned(
            base + number * size, weight_ptr + number * size, cosine, low_sine, high_sine, eps,
            line, HALF, LENGTH,
        )  # fmt: skip
        score = tl.dot(low, tl.trans(key_low), input_precision="ieee")
        score = tl.dot(high, tl.trans(key_high), score, input_precision="ieee") * scale
        score = tl.where(token[None, :] <= token[:, None], score, float("-inf"))
        weight = tl.exp(score - tl.max(score, 1)[:, None])
        mixed = tl.dot(weight.to(value.dtype), value, input_precision="ieee")
        mixed = mixed / tl.sum(weight, 1)[:, None]
        to = out_ptr + (row * LENGTH + token[:, None]) * (GROUP * KEYS * size)
        to = to + number * size + wide[None, :]
        tl.store(to, mixed.to(out_ptr.dtype.element_ty))
