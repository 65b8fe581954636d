"""Where the codec's chunk begins and ends: codes in, histories in and out, samples out."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.codec_launch import chain
from engine.kernels.pieces import follow
from engine.pcm import FULL_SCALE

LENGTH = tl.constexpr(0)  # columns of the table of pieces
STATE = tl.constexpr(1)
WORK = tl.constexpr(2)
WORK_ROW = tl.constexpr(3)
CHUNK = tl.constexpr(4)
PIECE = 1024  # values that one program moves
SAMPLES = 64  # of one program of the exit
FULL: tl.constexpr = tl.constexpr(FULL_SCALE)


def enter(
    codes: Tensor,
    tables: Tensor,
    bias: Tensor,
    frequencies: Tensor,
    plan: Tensor,
    hidden: Tensor,
    turns: Tensor,
) -> None:
    """Sum the table rows of each frame's codes and of its predecessors'; give it its angles.

    A slot beyond those of `codes` reads slot 0: padding.

    Shapes: codes (slots, capacity, groups) int64, frame f at `f % capacity`; tables
    (taps, groups, size, width) fp32, oldest tap first; bias (width,) fp32; frequencies
    (head_dim / 2,) fp64, in turns per frame; plan (2, rows) int32: slots, first frames; hidden
    (rows * frames, width) fp32; turns (rows * frames, head_dim) fp32: cosines, then sines.
    """
    taps, groups, size, width = tables.shape
    rows, half = plan.shape[1], len(frequencies)
    columns = min(64, triton.next_power_of_2(width))
    _enter[(len(hidden), triton.cdiv(width, columns))](
        codes,
        tables,
        bias,
        frequencies,
        plan,
        hidden,
        turns,
        rows,
        len(hidden) // rows,
        codes.shape[0],
        codes.shape[1],
        size,
        width,
        GROUPS=groups,
        TAPS=taps,
        TERMS=triton.next_power_of_2(taps * groups),
        COLUMNS=columns,
        WIDTH=half,
        HALF=triton.next_power_of_2(half),
        **chain(),
    )


@triton.jit(do_not_specialize=["rows", "frames", "slots"])
def _enter(
    codes, tables, bias, frequencies, plan, hidden, turns, rows, frames, slots, capacity, size,
    width, GROUPS: tl.constexpr, TAPS: tl.constexpr, TERMS: tl.constexpr, COLUMNS: tl.constexpr,
    WIDTH: tl.constexpr, HALF: tl.constexpr, CHAINED: tl.constexpr,
):  # fmt: skip
    # Plan and codes stand since before this graph began: no need to wait for them.
    line = tl.program_id(0)
    row = line // frames
    slot = tl.load(plan + row).to(tl.int64)
    slot = tl.where(slot < slots, slot, 0)
    frame = tl.load(plan + rows + row) + line - row * frames
    term = tl.arange(0, TERMS)
    each = frame - (TAPS - 1) + term // GROUPS
    known = (term < TAPS * GROUPS) & (each >= 0)
    place = (slot * capacity + each % capacity) * GROUPS + term % GROUPS
    code = tl.load(codes + place, mask=known, other=0)
    code = tl.minimum(tl.maximum(code, 0), size - 1)  # a wrong code must not read foreign memory
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    place = (term * size + code)[:, None] * width + column[None, :]
    inside = column < width
    values = tl.load(tables + place, mask=known[:, None] & inside[None, :], other=0.0)
    total = tl.sum(values, 0) + tl.load(bias + column, mask=inside, other=0.0)
    follow(CHAINED)
    tl.store(hidden + line * width + column, total, mask=inside)
    if tl.program_id(1) == 0:
        # fp64, because an fp32 angle is the coarser the later the frame.
        half = tl.arange(0, HALF)
        turn = frame.to(tl.float64) * tl.load(frequencies + half, mask=half < WIDTH, other=0.0)
        angle = ((turn - tl.floor(turn)) * 6.283185307179586).to(tl.float32)
        turned = turns + line * 2 * WIDTH + half
        tl.store(turned, tl.cos(angle), mask=half < WIDTH)
        tl.store(turned + WIDTH, tl.sin(angle), mask=half < WIDTH)


def recall(state: Tensor, work: Tensor, pieces: Tensor, plan: Tensor) -> None:
    """Put each slot's histories in front of its row's chunk; zeros, if it begins.

    Shapes: state (slots, size); work (values,): every layer's input; pieces (pieces, 5) int64:
    length, place in a slot's state, place in `work` of row 0, from row to row, values of a chunk;
    plan (2, rows) int32: slots, first frames.
    """
    _move[(len(pieces), plan.shape[1])](
        state,
        work,
        pieces,
        plan,
        state.stride(0),
        PIECE=PIECE,
        KEEP=False,
        **chain(),
    )


def remember(state: Tensor, work: Tensor, pieces: Tensor, plan: Tensor) -> None:
    """Keep the last columns of each layer's input, old and new together. Shapes: as `recall`."""
    _move[(len(pieces), plan.shape[1])](
        state,
        work,
        pieces,
        plan,
        state.stride(0),
        PIECE=PIECE,
        KEEP=True,
        **chain(),
    )


@triton.jit
def _move(
    state, work, pieces, plan, state_row, PIECE: tl.constexpr, KEEP: tl.constexpr,
    CHAINED: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(1)
    piece = pieces + tl.program_id(0) * 5
    slot = tl.load(plan + row).to(tl.int64)
    first = tl.load(plan + tl.num_programs(1) + row)
    value = tl.arange(0, PIECE)
    inside = value < tl.load(piece + LENGTH)
    kept = state + slot * state_row + tl.load(piece + STATE) + value
    used = work + tl.load(piece + WORK) + row * tl.load(piece + WORK_ROW) + value
    latest = used + tl.load(piece + CHUNK)
    follow(CHAINED)
    if KEEP:
        tl.store(kept, tl.load(latest, mask=inside), mask=inside)
    else:
        tl.store(used, tl.load(kept, mask=inside & (first > 0), other=0.0), mask=inside)


def leave(x: Tensor, weight: Tensor, bias: Tensor, sound: Tensor, *, samples: int) -> None:
    """Compute the last convolution and round it to int16; say which samples were finite.

    Shapes: x (rows, taps - 1 + samples, channels), activated; weight (taps, channels); bias (1,)
    fp32; sound (rows, samples + blocks) int16: samples, then 1 for each block of `SAMPLES` that is
    finite.
    """
    taps, channels = weight.shape
    _leave[(triton.cdiv(samples, SAMPLES), len(x))](
        x,
        weight,
        bias,
        sound,
        samples,
        channels,
        x.stride(0),
        sound.stride(0),
        TAPS=taps,
        SAMPLES=SAMPLES,
        CHANNELS=triton.next_power_of_2(channels),
        **chain(),
    )


@triton.jit(do_not_specialize=["samples", "sound_row"])
def _leave(
    x, weight, bias, sound, samples, channels, x_row, sound_row,
    TAPS: tl.constexpr, SAMPLES: tl.constexpr, CHANNELS: tl.constexpr, CHAINED: tl.constexpr,
):  # fmt: skip
    channel = tl.arange(0, CHANNELS)
    in_channel = channel < channels
    follow(CHAINED)
    row = tl.program_id(1)
    t = tl.program_id(0) * SAMPLES + tl.arange(0, SAMPLES)
    in_time = t < samples
    total = tl.zeros([SAMPLES], tl.float32)
    for tap in tl.static_range(TAPS):
        place = row * x_row + (t + tap)[:, None] * channels + channel[None, :]
        values = tl.load(x + place, mask=in_time[:, None] & in_channel[None, :], other=0.0)
        factor = tl.load(weight + tap * channels + channel, mask=in_channel, other=0.0)
        total += tl.sum(values.to(tl.float32) * factor.to(tl.float32)[None, :], 1)
    total += tl.load(bias)
    fine = tl.abs(total) < float("inf")
    finite = tl.sum((fine | ~in_time).to(tl.int32), 0) == SAMPLES
    total = tl.where(fine, tl.minimum(tl.maximum(total, -1.0), 1.0) * FULL, 0.0)
    place = sound + row * sound_row + t
    tl.store(place, tl.floor(total + 0.5).to(tl.int16), mask=in_time)
    tl.store(sound + row * sound_row + samples + tl.program_id(0), finite.to(tl.int16))
