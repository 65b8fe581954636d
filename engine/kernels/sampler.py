"""Logits → code, as `engine.sampling` defines it, for rows with different options, in one kernel.

The same order (penalty, reserved ids, temperature, top-k with ties, top-p, draw) and the same
counter-based random numbers. One known difference: equal logits at the top-p threshold are kept
together, where the reference keeps some of them in no defined order.
"""

from __future__ import annotations

from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.pieces import chains, follow_all, options
from engine.kernels.thresholds import (
    accumulated,
    largest,
    nucleus,
    number,
    ordered,
    reach,
    smallest,
)
from engine.model import rows as words

_WIDTH = tl.constexpr(words.WIDTH)
_SLOT = tl.constexpr(words.SLOT)
_PLACE = tl.constexpr(words.PLACE)
_SEED_LOW = tl.constexpr(words.SEED_LOW)
_SEED_HIGH = tl.constexpr(words.SEED_HIGH)
_SEGMENT = tl.constexpr(words.SEGMENT)
_STEP = tl.constexpr(words.STEP)
_EOS_ALLOWED = tl.constexpr(words.EOS_ALLOWED)
_TEMPERATURE = tl.constexpr(words.TEMPERATURE)
_TOP_K = tl.constexpr(words.TOP_K)
_TOP_P = tl.constexpr(words.TOP_P)
_PENALTY = tl.constexpr(words.PENALTY)

ENDED = 1  # flags: the code is end of speech
FINITE = 2  # flags: the logits were finite


@dataclass(frozen=True, slots=True)
class FirstCode:
    """What drawing code 0 needs and leaves beyond the code."""

    seen: Tensor  # (slots, vocabulary) bool
    hidden: Tensor  # (slots, hidden): receives the row's hidden state
    flags: Tensor  # (rows,) int32: receives ENDED and FINITE
    codes: int  # ids that are frames
    eos: int


def draw_first(
    logits: Tensor,
    hidden: Tensor,
    rows: Tensor,
    codes: Tensor,
    first: FirstCode,
) -> None:
    """Draw code 0 of each row's frame into (slots, places, groups) `codes`.

    Shapes: logits (rows, vocabulary), hidden (rows, hidden), rows (rows, 16) int32.
    """
    _launch(logits, rows, codes, 0, hidden, first.hidden, first)


def draw_next(
    logits: Tensor,
    rows: Tensor,
    codes: Tensor,
    group: int,
    *,
    table: Tensor | None,
    out: Tensor,
) -> None:
    """Draw the code of `group` and look it up: out (rows, width) = table[code], if there is one."""
    _launch(logits, rows, codes, group, table, out, None)


def _launch(
    logits: Tensor,
    rows: Tensor,
    codes: Tensor,
    group: int,
    source: Tensor | None,
    target: Tensor,
    first: FirstCode | None,
) -> None:
    count, vocabulary = logits.shape
    width = 0 if source is None else source.shape[-1]
    block = triton.next_power_of_2(vocabulary)
    warps = 4 if block <= 2048 else 8  # a warp per scheduler has the least to agree on
    _draw[(count,)](
        logits,
        rows,
        codes,
        logits if source is None else source,
        target,
        first.seen if first else rows,
        first.flags if first else rows,
        group,
        vocabulary,
        codes.shape[1],
        codes.shape[2],
        width,
        first.codes if first else vocabulary,
        first.eos if first else 0,
        FIRST=first is not None,
        COPY=width > 0,
        # bfloat16 has no bits below the 16th: finer passes would find the same threshold.
        UNIT=65536 if logits.element_size() == 2 and first is None else 1,
        WARPS=warps,
        BLOCK=block,
        COPY_BLOCK=triton.next_power_of_2(max(width, 1)),
        CHAINED=chains(),
        **options(warps),
    )


@triton.jit
def _mix(x):
    """Scramble 32-bit words: lowbias32, offset so that 0 does not stay 0."""
    x = x + 0x9E3779B9
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def _uniform(low, high, segment, step, group):
    """Hash the row's counter to its random number for `group`, in [0, 1)."""
    state = _mix(low.to(tl.uint32, bitcast=True))
    state = _mix(state ^ high.to(tl.uint32, bitcast=True))
    state = _mix(state ^ segment.to(tl.uint32, bitcast=True))
    state = _mix(state ^ step.to(tl.uint32, bitcast=True))
    state = _mix(state ^ group.to(tl.uint32))
    return (state >> 9).to(tl.float32) * (1.0 / 8388608.0)


@triton.jit
def _float(pointer):
    return tl.load(pointer).to(tl.float32, bitcast=True)


@triton.jit
def _weight(below, temperature):
    """Return exp(below / temperature); 1 for the largest logit."""
    scale = tl.minimum(1.4426950408889634 / temperature, 1e38)  # finite: 0 stays 0
    return tl.exp2(below * scale)


@triton.jit
def _rules(x, seen, at, penalty, may_end, codes, eos):
    """Penalise what was drawn before; forbid reserved ids and early ends."""
    penalised = tl.where(x < 0, x * penalty, tl.div_rn(x, tl.zeros_like(x) + penalty))
    x = tl.where(seen, penalised, x)
    real = (at < codes) | ((at == eos) & may_end)
    return tl.where(real, x, float("-inf"))


@triton.jit
def _shares(x, keys, best, inside, temperature, rank, top_p, vocabulary, UNIT, WARPS):
    """Return what each logit that top-k and top-p keep weighs; 0 for the others."""
    kept = inside
    if rank < vocabulary:
        kept = kept & (best - keys <= reach(best - keys, rank, UNIT, WARPS))
    share = tl.where(kept, _weight(x - number(best), temperature), 0.0)
    if top_p < 1:
        share = tl.where(keys >= nucleus(keys, best, share, top_p, UNIT, WARPS), share, 0.0)
    return share


@triton.jit(do_not_specialize=["group"])
def _draw(
    logits_ptr,
    rows_ptr,
    codes_ptr,
    source_ptr,
    target_ptr,
    seen_ptr,
    flags_ptr,
    group,
    vocabulary: tl.constexpr,  # if a power of two, nothing is masked
    capacity,
    groups,
    width,
    codes,
    eos,
    FIRST: tl.constexpr,
    COPY: tl.constexpr,
    UNIT: tl.constexpr,
    WARPS: tl.constexpr,
    BLOCK: tl.constexpr,
    COPY_BLOCK: tl.constexpr,
    CHAINED: tl.constexpr,
):
    """Draw one row's code; one program a row, which holds all of its logits in registers."""
    row = tl.program_id(0)
    row_ptr = rows_ptr + row * _WIDTH
    slot = tl.load(row_ptr + _SLOT).to(tl.int64)
    place = tl.load(row_ptr + _PLACE)
    temperature = _float(row_ptr + _TEMPERATURE)
    rank = tl.load(row_ptr + _TOP_K)
    top_p = _float(row_ptr + _TOP_P)
    penalty = _float(row_ptr + _PENALTY)
    may_end = tl.load(row_ptr + _EOS_ALLOWED) != 0
    seed_low, seed_high = tl.load(row_ptr + _SEED_LOW), tl.load(row_ptr + _SEED_HIGH)
    segment, step = tl.load(row_ptr + _SEGMENT), tl.load(row_ptr + _STEP)
    at = tl.arange(0, BLOCK)
    inside = at < vocabulary
    # The words were there before the first kernel. `follow_all`: the next pass reads the keys of
    # all passes so far before it waits (`predictor_attention`).
    follow_all(CHAINED)
    x = tl.load(logits_ptr + row * vocabulary + at, mask=inside, other=0.0).to(tl.float32)
    copied = tl.arange(0, COPY_BLOCK)
    if FIRST:
        seen = tl.load(seen_ptr + slot * vocabulary + at, mask=inside, other=0) != 0
        hidden = tl.load(source_ptr + row * width + copied, mask=copied < width)
        finite = tl.abs(x) < float("inf")
        x = _rules(x, seen, at, penalty, may_end, codes, eos)
        tl.store(target_ptr + slot * width + copied, hidden, mask=copied < width)
    keys = tl.where(inside, ordered(x), 0)
    best = largest(keys, WARPS)
    reached = inside & (x == number(best))
    if temperature > 0:
        share = _shares(x, keys, best, inside, temperature, rank, top_p, vocabulary, UNIT, WARPS)
        sums, total = accumulated(share)
        # Only now, while shuffles are under way: earlier, the hash would be waited for.
        target = _uniform(seed_low, seed_high, segment, step, group) * total
        reached = (share > 0) & (sums > target)
    found = tl.where(reached, at, BLOCK)
    if FIRST:
        found = tl.where(finite, found, -1)
    earliest = smallest(found, WARPS)
    # Of logits that are not finite, any code will do.
    chosen = tl.where((earliest >= 0) & (earliest < vocabulary), earliest, codes - 1)
    tl.store(codes_ptr + (slot * capacity + place) * groups + group, chosen.to(tl.int64))
    if FIRST:
        tl.store(seen_ptr + slot * vocabulary + chosen, 1)
        tl.store(flags_ptr + row, (chosen == eos).to(tl.int32) + 2 * (earliest >= 0).to(tl.int32))
    elif COPY:
        vector = tl.load(source_ptr + chosen * width + copied, mask=copied < width)
        tl.store(target_ptr + row * width + copied, vector, mask=copied < width)
