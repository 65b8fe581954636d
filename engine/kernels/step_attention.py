"""One decode step's attention: normalise, rotate, write the cache, attend, in one kernel.

A row's past is cut into chunks that several programs share; the last of them to finish combines
their partial sums in a fixed order, so equal inputs give equal bits.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.pieces import angles, chains, follow, halves, options, prefetch, turned
from engine.kernels.step_cut import StepScratch
from engine.model.layers import Rope
from engine.model.rows import POSITION, SLOT, WIDTH

QUERIES = 16  # a matrix instruction's rows: the heads that share keys, padded

_POSITION = tl.constexpr(POSITION)
_SLOT = tl.constexpr(SLOT)
_WIDTH = tl.constexpr(WIDTH)
_QUERIES = tl.constexpr(QUERIES)


def step_attention(
    qkv: Tensor,
    qk_norm: Tensor,
    rope: Rope,
    keys: Tensor,
    values: Tensor,
    rows: Tensor,
    out: Tensor,
    scratch: StepScratch,
    *,
    eps: float,
) -> None:
    """Attend with one new token per row; positions and slots come from `rows`.

    Shapes: qkv (rows, (heads + 2 * kv_heads) * head_dim); qk_norm (heads + kv_heads, head_dim);
    keys, values (slots, kv_heads, positions, head_dim) of one layer; rows (rows, 16) int32;
    out (rows, heads * head_dim).
    """
    _, kv_heads, positions, width = keys.shape
    heads = qk_norm.shape[0] - kv_heads
    cut = scratch.cut
    _step_attention[(qkv.shape[0], kv_heads, cut.splits)](
        qkv,
        qk_norm,
        rope.cosine,
        rope.sine,
        keys,
        values,
        rows,
        out,
        scratch.partial,
        scratch.arrived,
        positions,
        eps,
        width**-0.5,
        KEYS=kv_heads,
        GROUP=heads // kv_heads,
        HALF=width // 2,
        SPLITS=cut.splits,
        CHUNK=cut.chunk,
        STAGES=cut.stages,
        THREADS=32 * cut.warps if chains() and keys.element_size() == 2 else 0,
        CHAINED=chains(),
        **options(cut.warps),
    )


@triton.jit
def _step_attention(
    qkv_ptr,
    weight_ptr,
    cosine_ptr,
    sine_ptr,
    keys_ptr,
    values_ptr,
    rows_ptr,
    out_ptr,
    partial_ptr,
    arrived_ptr,
    capacity,
    eps,
    scale,
    KEYS: tl.constexpr,
    GROUP: tl.constexpr,
    HALF: tl.constexpr,
    SPLITS: tl.constexpr,
    CHUNK: tl.constexpr,
    STAGES: tl.constexpr,
    THREADS: tl.constexpr,  # that prefetch the past; 0: none
    CHAINED: tl.constexpr,
):
    """Attend to a share of one row's past with the heads that share a key head."""
    row = tl.program_id(0)
    key_head = tl.program_id(1)
    split = tl.program_id(2)
    # The rows' words and the past stand since before this step began: no need to wait for them.
    position = tl.load(rows_ptr + row * _WIDTH + _POSITION)
    slot = tl.load(rows_ptr + row * _WIDTH + _SLOT).to(tl.int64)
    past = (slot * KEYS + key_head) * capacity * 2 * HALF
    chunks = tl.cdiv(position, CHUNK)
    if THREADS > 0:  # noqa: SIM102 (decided when compiling, the other when running)
        if split < chunks:
            begin = past + split * CHUNK * 2 * HALF
            prefetch(keys_ptr + begin, 0, 1, CHUNK * 2 * HALF, THREADS)
            prefetch(values_ptr + begin, 0, 1, CHUNK * 2 * HALF, THREADS)
    follow(CHAINED)
    working = tl.maximum(tl.minimum(chunks, SPLITS), 1)
    if split < working:
        wide = tl.arange(0, 2 * HALF)
        half = tl.arange(0, HALF)
        base = qkv_ptr + row * ((GROUP + 2) * KEYS * 2 * HALF)
        query = tl.arange(0, _QUERIES)
        real = query < GROUP
        heads = (key_head * GROUP + query)[:, None] * 2 * HALF
        key = (GROUP * KEYS + key_head) * 2 * HALF + tl.zeros([1, 1], tl.int32)
        # All loads first, for each takes its time.
        low, high = halves(base + heads, real[:, None], HALF)
        new_low, new_high = halves(base + key, True, HALF)
        new_value = tl.load(base + key + KEYS * 2 * HALF + wide[None, :])
        cosine, low_sine, high_sine = angles(cosine_ptr, sine_ptr, position, HALF)
        low_weight, high_weight = halves(weight_ptr + heads, real[:, None], HALF)
        low_key_weight, high_key_weight = halves(weight_ptr + key, True, HALF)
        low, high = turned(
            low, high, low_weight, high_weight, cosine, low_sine, high_sine, eps, qkv_ptr, HALF
        )
        top = tl.full([_QUERIES], -1e30, tl.float32)
        total = tl.zeros([_QUERIES], tl.float32)
        mixed = tl.zeros([_QUERIES, 2 * HALF], tl.float32)
        if split == 0:
            new_low, new_high = turned(
                new_low, new_high, low_key_weight, high_key_weight, cosine, low_sine, high_sine,
                eps, qkv_ptr, HALF,
            )  # fmt: skip
            to = past + position * 2 * HALF
            tl.store(keys_ptr + to + half[None, :], new_low.to(keys_ptr.dtype.element_ty))
            tl.store(keys_ptr + to + HALF + half[None, :], new_high.to(keys_ptr.dtype.element_ty))
            tl.store(values_ptr + to + wide[None, :], new_value)
            top = (tl.sum(low * new_low, 1) + tl.sum(high * new_high, 1)) * scale
            total = tl.full([_QUERIES], 1.0, tl.float32)
            mixed = mixed + new_value.to(tl.float32)
        low = low.to(keys_ptr.dtype.element_ty)
        high = high.to(keys_ptr.dtype.element_ty)
        for chunk in tl.range(split, chunks, SPLITS, num_stages=STAGES):
            at = chunk * CHUNK + tl.arange(0, CHUNK)
            known = at < position
            to = past + at * 2 * HALF
            spread = to[None, :] + half[:, None]
            key_low = tl.load(keys_ptr + spread, mask=known[None, :], other=0.0)
            key_high = tl.load(keys_ptr + spread + HALF, mask=known[None, :], other=0.0)
            value = tl.load(
                values_ptr + to[:, None] + wide[None, :], mask=known[:, None], other=0.0
            )
            score = tl.dot(low, key_low, input_precision="ieee")
            score = tl.dot(high, key_high, score, input_precision="ieee") * scale
            score = tl.where(known[None, :], score, -1e30)
            new_top = tl.maximum(top, tl.max(score, 1))
            weight = tl.exp(score - new_top[:, None])
            fade = tl.exp(top - new_top)
            total = total * fade + tl.sum(weight, 1)
            mixed = tl.dot(
                weight.to(value.dtype), value, mixed * fade[:, None], input_precision="ieee"
            )
            top = new_top
        to = out_ptr + (row * KEYS + key_head) * GROUP * 2 * HALF
        to = to + query[:, None] * 2 * HALF + wide[None, :]
        if SPLITS == 1:
            result = mixed / total[:, None]
            tl.store(to, result.to(out_ptr.dtype.element_ty), mask=real[:, None])
        else:
            first = (row * KEYS + key_head) * SPLITS
            size = GROUP * (2 * HALF + 2)
            mine = partial_ptr + (first + split) * size
            tl.store(mine + query[:, None] * 2 * HALF + wide[None, :], mixed, mask=real[:, None])
            tl.store(mine + GROUP * 2 * HALF + query, top, mask=real)
            tl.store(mine + GROUP * (2 * HALF + 1) + query, total, mask=real)
            tl.debug_barrier()  # all of the program's stores come before it says it has arrived
            arrived = tl.atomic_add(arrived_ptr + row * KEYS + key_head, 1, sem="acq_rel")
            if arrived == working - 1:
                tl.debug_barrier()
                top = tl.full([_QUERIES], -1e30, tl.float32)
                total = tl.zeros([_QUERIES], tl.float32)
                mixed = tl.zeros([_QUERIES, 2 * HALF], tl.float32)
                for other in range(0, working):
                    part = partial_ptr + (first + other) * size
                    its_top = tl.load(
                        part + GROUP * 2 * HALF + query,
                        mask=real,
                        other=-1e30,
                        cache_modifier=".cg",
                    )
                    its_total = tl.load(
                        part + GROUP * (2 * HALF + 1) + query,
                        mask=real,
                        other=1.0,
                        cache_modifier=".cg",
                    )
                    its_mixed = tl.load(
                        part + query[:, None] * 2 * HALF + wide[None, :],
                        mask=real[:, None],
                        other=0.0,
                        cache_modifier=".cg",
                    )
                    new_top = tl.maximum(top, its_top)
                    fade = tl.exp(top - new_top)
                    share = tl.exp(its_top - new_top)
                    total = total * fade + its_total * share
                    mixed = mixed * fade[:, None] + its_mixed * share[:, None]
                    top = new_top
                result = mixed / total[:, None]
                tl.store(to, result.to(out_ptr.dtype.element_ty), mask=real[:, None])
                tl.store(arrived_ptr + row * KEYS + key_head, 0)
