"""Gathering by slot: what a Talker step and a predictor frame begin with."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.pieces import chains, follow, options, rounded
from engine.model import rows as words

_WIDTH = tl.constexpr(words.WIDTH)
_SLOT = tl.constexpr(words.SLOT)
_BEFORE = tl.constexpr(words.BEFORE)
_PLACE = tl.constexpr(words.PLACE)
_TEXT = tl.constexpr(words.TEXT)


def embed_frames(
    rows: Tensor,
    codes: Tensor,
    code_table: Tensor,
    text_table: Tensor,
    out: Tensor,
    *,
    first: int,
    others: int,
) -> None:
    """Sum the embeddings of each row's last frame and add its text: (rows, 16) -> (rows, hidden).

    Args:
        code_table: the tables of all groups under each other.
        first: rows of group 0's table.
        others: rows of each other group's.
    """
    count, hidden = out.shape
    block = min(1024, triton.next_power_of_2(hidden))
    _embed_frames[(count, triton.cdiv(hidden, block))](
        rows,
        codes,
        code_table,
        text_table,
        out,
        hidden,
        codes.shape[1],
        first,
        others,
        GROUPS=codes.shape[2],
        BLOCK=block,
        CHAINED=chains(),
        **options(4),
    )


def begin_frame(
    rows: Tensor,
    codes: Tensor,
    hidden: Tensor,
    table: Tensor,
    *,
    states: Tensor,
    pairs: Tensor,
) -> None:
    """Fetch what a predictor frame starts from.

    Args:
        hidden: (slots, wide), the Talker's hidden states.
        table: (vocabulary, width), code 0 as the predictor sees it.
        states: (rows, wide), receives the rows' hidden states.
        pairs: (2 * rows, width), receives code 0's embedding in its odd rows.
    """
    wide, width = states.shape[1], pairs.shape[1]
    _begin_frame[(rows.shape[0],)](
        rows,
        codes,
        hidden,
        table,
        states,
        pairs,
        wide,
        width,
        codes.shape[1],
        codes.shape[2],
        WIDE=triton.next_power_of_2(wide),
        NARROW=triton.next_power_of_2(width),
        CHAINED=chains(),
        **options(4),
    )


@triton.jit
def _embed_frames(
    rows_ptr,
    codes_ptr,
    code_table_ptr,
    text_table_ptr,
    out_ptr,
    hidden,
    capacity,
    first,
    others,
    GROUPS: tl.constexpr,
    BLOCK: tl.constexpr,
    CHAINED: tl.constexpr,
):
    row = tl.program_id(0)
    follow(CHAINED)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < hidden
    slot = tl.load(rows_ptr + row * _WIDTH + _SLOT).to(tl.int64)
    place = tl.load(rows_ptr + row * _WIDTH + _BEFORE)
    frame = codes_ptr + (slot * capacity + place) * GROUPS
    total = tl.zeros([BLOCK], tl.float32)
    for group in tl.static_range(GROUPS):
        offset = 0 if group == 0 else first + (group - 1) * others
        line = tl.load(frame + group) + offset
        total += tl.load(code_table_ptr + line * hidden + at, mask=inside, other=0.0).to(tl.float32)
    text = tl.load(rows_ptr + row * _WIDTH + _TEXT).to(tl.int64)
    spoken = tl.load(text_table_ptr + text * hidden + at, mask=inside, other=0.0).to(tl.float32)
    total = rounded(total, out_ptr) + spoken
    tl.store(out_ptr + row * hidden + at, total.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _begin_frame(
    rows_ptr,
    codes_ptr,
    hidden_ptr,
    table_ptr,
    states_ptr,
    pairs_ptr,
    wide,
    width,
    capacity,
    groups,
    WIDE: tl.constexpr,
    NARROW: tl.constexpr,
    CHAINED: tl.constexpr,
):
    row = tl.program_id(0)
    follow(CHAINED)
    slot = tl.load(rows_ptr + row * _WIDTH + _SLOT).to(tl.int64)
    place = tl.load(rows_ptr + row * _WIDTH + _PLACE)
    code = tl.load(codes_ptr + (slot * capacity + place) * groups)
    at = tl.arange(0, WIDE)
    state = tl.load(hidden_ptr + slot * wide + at, mask=at < wide)
    tl.store(states_ptr + row * wide + at, state, mask=at < wide)
    at = tl.arange(0, NARROW)
    vector = tl.load(table_ptr + code * width + at, mask=at < width)
    tl.store(pairs_ptr + (2 * row + 1) * width + at, vector, mask=at < width)
