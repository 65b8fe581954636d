"""Attention of the codec's transformer: a few new frames over a ring of remembered ones.

A slot keeps its last keys (rotated) and values in a ring addressed by frame, so a step writes its
own frames and moves nothing. Whatever lies in the ring from before frame 0 is never read: a slot
needs no clearing.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.codec_launch import options
from engine.kernels.pieces import follow


def attend(
    inputs: Tensor, turns: Tensor, ring: Tensor, plan: Tensor, out: Tensor, *, history: int
) -> None:
    """Rotate this chunk's queries and keys, attend, and remember its keys and values.

    A frame sees itself and `history` frames before it. Two rows of the same slot may only be
    padding, whose results nobody reads.

    Args:
        ring: one layer's; its capacity is at least `history` plus the chunk's frames.

    Shapes: inputs (rows * frames, 3 * heads * head_dim): queries, keys, values; turns
    (rows * frames, head_dim) fp32: cosines, then sines; ring (slots, heads, 2, capacity, head_dim),
    contiguous from the heads on; plan (2, rows) int32: slots, first frames; out
    (rows * frames, heads * head_dim).
    """
    _, heads, _, capacity, width = ring.shape
    rows = plan.shape[1]
    frames = len(inputs) // rows
    assert capacity >= history + frames, "this chunk would overwrite frames that it reads"
    _attend[(rows, heads)](
        inputs,
        turns,
        ring,
        plan,
        out,
        frames,
        ring.stride(0),
        width**-0.5,
        HEADS=heads,
        WIDTH=width,
        HALF=max(16, triton.next_power_of_2(width // 2)),
        CAPACITY=capacity,
        HISTORY=history,
        PAST=max(16, triton.next_power_of_2(history)),
        FRAMES=max(16, triton.next_power_of_2(frames)),
        **options(ring.dtype),
    )


@triton.jit(do_not_specialize=["frames"])
def _attend(
    inputs, turns, ring, plan, out, frames, ring_row, scale,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, HALF: tl.constexpr, CAPACITY: tl.constexpr,
    HISTORY: tl.constexpr, PAST: tl.constexpr, FRAMES: tl.constexpr,
    PRECISION: tl.constexpr, PLAIN: tl.constexpr, CHAINED: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    head = tl.program_id(1)
    half = tl.arange(0, HALF)
    wide = tl.arange(0, 2 * HALF)
    in_half = (half < WIDTH // 2)[None, :]
    in_wide = (wide < WIDTH)[None, :]
    # The past was written before this graph began: read it while the kernel before this one ends.
    slot = tl.load(plan + row).to(tl.int64)
    first = tl.load(plan + tl.num_programs(0) + row)
    keys = ring + slot * ring_row + head * 2 * CAPACITY * WIDTH
    values = keys + CAPACITY * WIDTH
    past = tl.arange(0, PAST)
    frame = first - HISTORY + past
    known = (past < HISTORY) & (frame >= 0)
    place = (frame % CAPACITY)[:, None] * WIDTH
    old_low = tl.load(keys + place + half[None, :], mask=known[:, None] & in_half, other=0.0)
    old_high = tl.load(
        keys + place + WIDTH // 2 + half[None, :], mask=known[:, None] & in_half, other=0.0
    )
    old = tl.load(values + place + wide[None, :], mask=known[:, None] & in_wide, other=0.0)
    follow(CHAINED)
    t = tl.arange(0, FRAMES)
    is_frame = (t < frames)[:, None]
    line = row * frames + t
    angle = line[:, None] * WIDTH + half[None, :]
    cosine = tl.load(turns + angle, mask=is_frame & in_half, other=0.0)
    sine = tl.load(turns + angle + WIDTH // 2, mask=is_frame & in_half, other=0.0)
    own = inputs + line[:, None] * (3 * HEADS * WIDTH) + head * WIDTH + half[None, :]
    low = tl.load(own, mask=is_frame & in_half, other=0.0).to(tl.float32)
    high = tl.load(own + WIDTH // 2, mask=is_frame & in_half, other=0.0).to(tl.float32)
    query_low = ((low * cosine - high * sine) * scale).to(old.dtype)
    query_high = ((high * cosine + low * sine) * scale).to(old.dtype)
    own += HEADS * WIDTH
    low = tl.load(own, mask=is_frame & in_half, other=0.0).to(tl.float32)
    high = tl.load(own + WIDTH // 2, mask=is_frame & in_half, other=0.0).to(tl.float32)
    new_low = (low * cosine - high * sine).to(old.dtype)
    new_high = (high * cosine + low * sine).to(old.dtype)
    new = tl.load(
        inputs + line[:, None] * (3 * HEADS * WIDTH) + (2 * HEADS + head) * WIDTH + wide[None, :],
        mask=is_frame & in_wide,
        other=0.0,
    ).to(old.dtype)

    before = tl.dot(query_low, tl.trans(old_low), input_precision=PRECISION)
    before = tl.dot(query_high, tl.trans(old_high), before, input_precision=PRECISION)
    now = tl.dot(query_low, tl.trans(new_low), input_precision=PRECISION)
    now = tl.dot(query_high, tl.trans(new_high), now, input_precision=PRECISION)
    before = tl.where(known[None, :] & (past[None, :] >= t[:, None]), before, -1e30)
    ahead = t[:, None] - t[None, :]
    now = tl.where((ahead >= 0) & (ahead <= HISTORY), now, -1e30)
    top = tl.maximum(tl.max(before, 1), tl.max(now, 1))[:, None]
    before = tl.exp(before - top)
    now = tl.exp(now - top)
    mixed = tl.dot(before.to(old.dtype), old, input_precision=PRECISION)
    mixed = tl.dot(now.to(old.dtype), new, mixed, input_precision=PRECISION)
    mixed = mixed / (tl.sum(before, 1) + tl.sum(now, 1))[:, None]
    place = line[:, None] * (HEADS * WIDTH) + head * WIDTH + wide[None, :]
    tl.store(out + place, mixed.to(out.dtype.element_ty), mask=is_frame & in_wide)

    place = ((first + t) % CAPACITY)[:, None] * WIDTH
    tl.store(keys + place + half[None, :], new_low, mask=is_frame & in_half)
    tl.store(keys + place + WIDTH // 2 + half[None, :], new_high, mask=is_frame & in_half)
    tl.store(values + place + wide[None, :], new, mask=is_frame & in_wide)
