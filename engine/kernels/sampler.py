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
        # bfloat16 has no bits below the 16th: half of the passes find the same threshold.
        LOWEST=14 if logits.element_size() == 2 and first is None else -2,
        BLOCK=triton.next_power_of_2(vocabulary),
        COPY_BLOCK=triton.next_power_of_2(max(width, 1)),
        CHAINED=chains(),
        **options(8),
    )


@triton.jit
def _mix(x):
    """Scramble 32-bit words: lowbias32, offset so that 0 does not stay 0."""
    x = x + 0x9E3779B9
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def _uniform(row_ptr, group):
    """The row's random number for `group`, in [0, 1)."""
    state = _mix(tl.load(row_ptr + _SEED_LOW).to(tl.uint32, bitcast=True))
    state = _mix(state ^ tl.load(row_ptr + _SEED_HIGH).to(tl.uint32, bitcast=True))
    state = _mix(state ^ tl.load(row_ptr + _SEGMENT).to(tl.uint32, bitcast=True))
    state = _mix(state ^ tl.load(row_ptr + _STEP).to(tl.uint32, bitcast=True))
    state = _mix(state ^ group.to(tl.uint32))
    return (state >> 9).to(tl.float32) * (1.0 / 8388608.0)


@triton.jit
def _float(pointer):
    return tl.load(pointer).to(tl.float32, bitcast=True)


@triton.jit
def _ordered(x):
    """Map fp32 to uint32 with the same order; no number maps to 0."""
    bits = x.to(tl.int32, bitcast=True)
    flipped = tl.where(bits < 0, ~bits, bits ^ -2147483648)
    return flipped.to(tl.uint32, bitcast=True)


@triton.jit
def _kth_largest(keys, rank, LOWEST: tl.constexpr):
    """Find the `rank`-th largest key, two bits a pass: each pass counts three candidates."""
    found = tl.zeros([], tl.uint32)
    for shift in tl.static_range(30, LOWEST, -2):
        one = found + tl.full([], 1 << shift, tl.uint32)
        two = found + tl.full([], 2 << shift, tl.uint32)
        three = found + tl.full([], 3 << shift, tl.uint32)
        counts = (keys >= one).to(tl.int64) + ((keys >= two).to(tl.int64) << 16)
        counts = tl.sum(counts + ((keys >= three).to(tl.int64) << 32), 0)
        low = (counts & 0xFFFF).to(tl.int32)
        middle = ((counts >> 16) & 0xFFFF).to(tl.int32)
        high = (counts >> 32).to(tl.int32)
        found = tl.where(low >= rank, one, found)
        found = tl.where(middle >= rank, two, found)
        found = tl.where(high >= rank, three, found)
    return found


@triton.jit
def _nucleus(keys, share, top_p):
    """Find the smallest key that top-p keeps: less than it weighs at most 1 - top_p."""
    found = tl.zeros([], tl.uint32)
    for step in tl.static_range(32):
        candidate = found + tl.full([], 1 << (31 - step), tl.uint32)
        below = tl.sum(tl.where(keys < candidate, share, 0.0), 0)
        found = tl.where(below <= 1 - top_p, candidate, found)
    return tl.minimum(found, tl.max(keys, 0))


@triton.jit
def _rules(x, at, row_ptr, seen_ptr, vocabulary, codes, eos):
    """Penalise what was drawn before; forbid reserved ids and early ends."""
    slot = tl.load(row_ptr + _SLOT).to(tl.int64)
    penalty = _float(row_ptr + _PENALTY)
    inside = at < vocabulary
    seen = tl.load(seen_ptr + slot * vocabulary + at, mask=inside, other=0) != 0
    penalised = tl.where(x < 0, x * penalty, tl.div_rn(x, tl.zeros_like(x) + penalty))
    x = tl.where(seen, penalised, x)
    may_end = tl.load(row_ptr + _EOS_ALLOWED) != 0
    real = (at < codes) | ((at == eos) & may_end)
    return tl.where(real, x, float("-inf"))


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
    vocabulary,
    capacity,
    groups,
    width,
    codes,
    eos,
    FIRST: tl.constexpr,
    COPY: tl.constexpr,
    LOWEST: tl.constexpr,
    BLOCK: tl.constexpr,
    COPY_BLOCK: tl.constexpr,
    CHAINED: tl.constexpr,
):
    row = tl.program_id(0)
    follow_all(CHAINED)
    row_ptr = rows_ptr + row * _WIDTH
    at = tl.arange(0, BLOCK)
    inside = at < vocabulary
    x = tl.load(logits_ptr + row * vocabulary + at, mask=inside, other=0.0).to(tl.float32)
    finite = tl.min((tl.abs(x) < float("inf")).to(tl.int32), 0)
    if FIRST:
        x = _rules(x, at, row_ptr, seen_ptr, vocabulary, codes, eos)
    temperature = _float(row_ptr + _TEMPERATURE)
    best = tl.argmax(tl.where(inside, x, float("-inf")), 0)
    best = tl.minimum(best, vocabulary - 1)  # NaN compares with nothing
    chosen = best
    if temperature > 0:
        warm = tl.div_rn(x, tl.zeros_like(x) + temperature)
        keys = tl.where(inside, _ordered(x), 0)
        rank = tl.load(row_ptr + _TOP_K)
        kept = inside & (keys >= _kth_largest(keys, rank, LOWEST))
        top = tl.max(tl.where(kept, warm, float("-inf")), 0)
        share = tl.where(kept, tl.exp(warm - top), 0.0)
        top_p = _float(row_ptr + _TOP_P)
        if top_p < 1:
            kept = kept & (keys >= _nucleus(keys, share / tl.sum(share, 0), top_p))
            share = tl.where(kept, share, 0.0)
        cumulative = tl.cumsum(share, 0)
        target = _uniform(row_ptr, group) * tl.max(cumulative, 0)
        reached = (share > 0) & (cumulative > target)
        chosen = tl.min(tl.where(reached, at, BLOCK), 0)
        chosen = tl.where(chosen < vocabulary, chosen, best)  # only where nothing is finite
    slot = tl.load(row_ptr + _SLOT).to(tl.int64)
    place = tl.load(row_ptr + _PLACE)
    tl.store(codes_ptr + (slot * capacity + place) * groups + group, chosen.to(tl.int64))
    copied = tl.arange(0, COPY_BLOCK)
    if FIRST:
        tl.store(seen_ptr + slot * vocabulary + chosen, 1)
        tl.store(flags_ptr + row, (chosen == eos).to(tl.int32) + 2 * finite)
        hidden = tl.load(source_ptr + row * width + copied, mask=copied < width)
        tl.store(target_ptr + slot * width + copied, hidden, mask=copied < width)
    elif COPY:
        vector = tl.load(source_ptr + chosen * width + copied, mask=copied < width)
        tl.store(target_ptr + row * width + copied, vector, mask=copied < width)
