"""Prefill: normalise and rotate heads, split them for attention, and write the cache."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.pieces import angles, halves, options, turned
from engine.model.layers import Rope
from engine.model.rows import SLOT, WIDTH

_SLOT = tl.constexpr(SLOT)
_WIDTH = tl.constexpr(WIDTH)


def prompt_heads(
    qkv: Tensor,
    qk_norm: Tensor,
    rope: Rope,
    keys: Tensor,
    values: Tensor,
    rows: Tensor,
    out: tuple[Tensor, Tensor, Tensor],
    *,
    eps: float,
) -> None:
    """Take prompts of equal padded length apart.

    Args:
        qkv: (rows * length, (heads + 2 * kv_heads) * head_dim).
        keys: (slots, kv_heads, positions, head_dim) of one layer; values likewise.
        rows: (rows, 16) int32, the slot in each row's word SLOT.
        out: queries (rows, heads, length, head_dim), keys and values (rows, kv_heads, …).
    """
    query, key, value = out
    count, heads, length, width = query.shape
    kv_heads = key.shape[1]
    _prompt_heads[(count * length, heads + 2 * kv_heads)](
        qkv,
        qk_norm,
        rope.cosine,
        rope.sine,
        keys,
        values,
        rows,
        query,
        key,
        value,
        length,
        keys.shape[2],
        eps,
        HEADS=heads,
        KEYS=kv_heads,
        HALF=width // 2,
        **options(1, chained=False),
    )


@triton.jit(do_not_specialize=["length"])
def _prompt_heads(
    qkv_ptr,
    weight_ptr,
    cosine_ptr,
    sine_ptr,
    keys_ptr,
    values_ptr,
    rows_ptr,
    query_out,
    key_out,
    value_out,
    length,
    capacity,
    eps,
    HEADS: tl.constexpr,
    KEYS: tl.constexpr,
    HALF: tl.constexpr,
):
    token = tl.program_id(0)
    head = tl.program_id(1)
    row = token // length
    position = token % length
    size: tl.constexpr = 2 * HALF
    source = qkv_ptr + (token * (HEADS + 2 * KEYS) + head) * size
    slot = tl.load(rows_ptr + row * _WIDTH + _SLOT).to(tl.int64)
    half = tl.arange(0, HALF)[None, :]
    wide = tl.arange(0, size)
    if head >= HEADS + KEYS:
        number = head - HEADS - KEYS
        value = tl.load(source + wide)
        tl.store(value_out + ((row * KEYS + number) * length + position) * size + wide, value)
        past = ((slot * KEYS + number) * capacity + position) * size
        tl.store(values_ptr + past + wide, value)
    else:
        cosine, low_sine, high_sine = angles(cosine_ptr, sine_ptr, position, HALF)
        one = tl.zeros([1, 1], tl.int32)
        low_weight, high_weight = halves(weight_ptr + head * size + one, True, HALF)
        low, high = halves(source + one, True, HALF)
        low, high = turned(
            low, high, low_weight, high_weight, cosine, low_sine, high_sine, eps, qkv_ptr, HALF
        )
        low = low.to(qkv_ptr.dtype.element_ty)
        high = high.to(qkv_ptr.dtype.element_ty)
        if head < HEADS:
            to = query_out + ((row * HEADS + head) * length + position) * size
            tl.store(to + half, low)
            tl.store(to + HALF + half, high)
        else:
            number = head - HEADS
            to = key_out + ((row * KEYS + number) * length + position) * size
            tl.store(to + half, low)
            tl.store(to + HALF + half, high)
            past = ((slot * KEYS + number) * capacity + position) * size
            tl.store(keys_ptr + past + half, low)
            tl.store(keys_ptr + past + HALF + half, high)
