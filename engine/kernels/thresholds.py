"""Where a row of logits is cut: top-k and top-p, for a program that holds the row in registers.

With few rows the time is that of agreeing: every pass of a search waits for the whole program. So
warps combine whole numbers, for which they have an instruction, and exchange once a pass: each
thread reads the result of every warp. (`tl.sum` over a row exchanges twice.)
"""

from __future__ import annotations

import triton
import triton.language as tl

LONGEST = 4096  # logits of a row that eight warps can count


@triton.jit
def ordered(x):
    """Map fp32 to uint32 with the same order; no number maps to 0."""
    bits = x.to(tl.int32, bitcast=True)
    return (bits ^ ((bits >> 31) | -2147483648)).to(tl.uint32, bitcast=True)


@triton.jit
def number(key):
    """Undo `ordered`."""
    bits = key.to(tl.int32, bitcast=True)
    return tl.where(bits < 0, bits ^ -2147483648, ~bits).to(tl.float32, bitcast=True)


@triton.jit
def _by_warp(x, WARPS: tl.constexpr):
    """View a row as the program holds it: eight parts, dealt to four or eight warps in turn."""
    return tl.reshape(x, (8 // WARPS, WARPS, x.shape[0] // 8))


@triton.jit
def _add(x, y):
    return x + y


@triton.jit
def _larger(x, y):
    return tl.maximum(x, y)


@triton.jit
def _smaller(x, y):
    return tl.minimum(x, y)


@triton.jit
def _alternate(x):
    return tl.split(tl.reshape(x, (x.shape[0] // 2, 2)))


@triton.jit
def _exchange(parts, combine: tl.constexpr):
    """Combine a value per warp, each thread for itself: `split` brings it all of them at once."""
    for _ in tl.static_range(2):
        if parts.shape[0] > 2:
            even, odd = _alternate(parts)
            parts = combine(even, odd)
    even, odd = tl.split(parts)
    return combine(even, odd)


@triton.jit
def largest(x, WARPS: tl.constexpr):
    """Return the largest of whole numbers."""
    return _exchange(tl.max(tl.max(_by_warp(x, WARPS), 0), 1), _larger)


@triton.jit
def smallest(x, WARPS: tl.constexpr):
    """Return the smallest of whole numbers."""
    return _exchange(tl.min(tl.min(_by_warp(x, WARPS), 0), 1), _smaller)


@triton.jit
def total(x, WARPS: tl.constexpr):
    """Return the sum."""
    return _exchange(tl.sum(tl.sum(_by_warp(x, WARPS), 0), 1), _add)


@triton.jit
def _count(x, one, two, three, WARPS: tl.constexpr):
    """Count what is below each of three limits, for up to 1,023 values a warp."""
    tl.static_assert(x.shape[0] // WARPS < 1024)
    counts = (x < one).to(tl.int32) + ((x < two).to(tl.int32) << 10)
    counts += (x < three).to(tl.int32) << 20
    counts = tl.sum(tl.sum(_by_warp(counts, WARPS), 0), 1)
    wide = (counts & 0x3FF) + ((counts & 0xFFC00) << 6)
    sums = _exchange(((counts >> 20).to(tl.int64) << 32) + wide, _add)
    low = sums.to(tl.int32)
    return low & 0xFFFF, low >> 16, (sums >> 32).to(tl.int32)


@triton.jit
def reach(below, rank, UNIT: tl.constexpr, WARPS: tl.constexpr):
    """Return a limit that takes in the `rank` smallest of `below`, ties included, and no more.

    Logits stay near their largest: windows of 128, 256 and 1,024 steps of bfloat16 are tried first.
    Then each pass cuts the window in four, until it holds one value or ends just where it should.
    """
    start = tl.zeros([], tl.uint32)
    end = tl.full([], 0xFFFFFFFF, tl.uint32)
    one, two, three = start + (128 << 16), start + (384 << 16), start + (1408 << 16)
    taken = -1  # how many are up to the end
    while (end - start >= UNIT) & (taken != rank):
        first, second, third = _count(below, one, two, three, WARPS)
        start = tl.where(first < rank, one, start)
        start = tl.where(second < rank, two, start)
        start = tl.where(third < rank, three, start)
        end = tl.where(third < rank, end, three - 1)
        end = tl.where(second < rank, end, two - 1)
        end = tl.where(first < rank, end, one - 1)
        taken = tl.where(third < rank, taken, third)
        taken = tl.where(second < rank, taken, second)
        taken = tl.where(first < rank, taken, first)
        width = ((end - start) >> 2) + 1
        one, two, three = start + width, start + 2 * width, start + 3 * width
    return end


@triton.jit
def _eight(parts):
    """Bring a value per part to every thread."""
    even, odd = _alternate(parts)
    by_four, by_four_and_two = _alternate(even)
    by_four_and_one, by_four_and_three = _alternate(odd)
    first, fifth = tl.split(by_four)
    second, sixth = tl.split(by_four_and_one)
    third, seventh = tl.split(by_four_and_two)
    fourth, eighth = tl.split(by_four_and_three)
    return first, second, third, fourth, fifth, sixth, seventh, eighth


@triton.jit
def accumulated(share):
    """Sum a row up: what is reached at each value, and the total, which the last share reaches.

    Each of eight parts sums up alone; then every thread adds the parts before it in their order.
    """
    parts = tl.reshape(share, (8, share.shape[0] // 8))
    inner = tl.cumsum(parts, 1)
    # Lanes add in different orders: behind the last share, a sum may be rounded higher than there.
    kept = tl.where(parts > 0, inner, 0.0)
    # No sum is negative, and such numbers have the order of their bits.
    sums = _eight(tl.max(kept.to(tl.int32, bitcast=True), 1).to(tl.float32, bitcast=True))
    part = tl.arange(0, 8)
    before = tl.zeros([8], tl.float32)
    reached = sums[0]
    for index in tl.static_range(1, 8):
        before = tl.where(part == index, reached, before)
        reached += sums[index]
    return tl.reshape(inner + before[:, None], (share.shape[0],)), reached


@triton.jit
def nucleus(keys, best, share, top_p, UNIT: tl.constexpr, WARPS: tl.constexpr):
    """Find the smallest key that top-p keeps: less than it weighs at most 1 - top_p."""
    share = share / total(share, WARPS)
    found = tl.zeros([], tl.uint32)
    bit = tl.full([], 1 << 31, tl.uint32)
    while bit >= UNIT:
        below = total(tl.where(keys < found + bit, share, 0.0), WARPS)
        found = tl.where(below <= 1 - top_p, found + bit, found)
        bit = bit >> 1
    return tl.minimum(found, best)
