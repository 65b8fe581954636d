"""Matrix products with few rows: the time is that of reading the weight once.

Three shapes of one product. A vector product for one or two rows, a one-shot kernel that holds its
whole slab of the weight in registers, and a pipelined loop for everything else, its depth shared by
several programs where one column of programs would not fill the device. The first two read their
weights before they wait for the kernel in front of them, past a cache that they must not fill: it
holds what is read again. The loop may ask for them ahead. All round where the reference stores.
"""

from __future__ import annotations

import triton
import triton.language as tl

from engine.kernels.pieces import follow, invite, prefetch, rounded
from engine.kernels.tile_table import ADD, SWIGLU

_ADD = tl.constexpr(ADD)
_SWIGLU = tl.constexpr(SWIGLU)


@triton.jit
def _before(out, mask, KIND: tl.constexpr):
    """Load what a product will be added to: early, for its last moments are waited for."""
    if KIND == _ADD:
        return tl.load(out, mask=mask, other=0.0).to(tl.float32)
    else:
        return 0.0


@triton.jit
def _settle(product, gate_up, before, out, mask, out_ptr, KIND: tl.constexpr):
    """Round and store a product, added to what was there, or gated."""
    product = rounded(product, out_ptr)
    if KIND == _ADD:
        product += before
    if KIND == _SWIGLU:
        product = rounded(product / (1.0 + tl.exp(-product)), out_ptr) * rounded(gate_up, out_ptr)
    tl.store(out, product.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def vector_product(
    x_ptr,
    weight_ptr,
    out_ptr,
    norm_ptr,
    features,
    x_stride,
    out_stride,
    eps,
    ROWS: tl.constexpr,
    DEPTH: tl.constexpr,  # inputs read at once
    PARTS: tl.constexpr,  # how many times
    FEATURES: tl.constexpr,
    NORM: tl.constexpr,
    KIND: tl.constexpr,
    CHAINED: tl.constexpr,
):
    """Multiply one or two rows, each program `FEATURES` outputs; NORM normalises x on the way."""
    invite(CHAINED)
    feature = tl.program_id(0) * FEATURES + tl.arange(0, FEATURES)
    at = tl.arange(0, DEPTH)
    size: tl.constexpr = DEPTH * PARTS
    slab = weight_ptr + feature[:, None] * size + at[None, :]
    weight = tl.load(slab, eviction_policy="evict_first")
    if PARTS > 1:
        weight1 = tl.load(slab + DEPTH, eviction_policy="evict_first")
    if PARTS > 2:
        weight2 = tl.load(slab + 2 * DEPTH, eviction_policy="evict_first")
    if KIND == _SWIGLU:
        up_weight = tl.load(slab + features * size, eviction_policy="evict_first")
    if NORM:
        norm = tl.load(norm_ptr + at).to(tl.float32)
    follow(CHAINED)
    for row in tl.static_range(ROWS):
        out = out_ptr + row * out_stride + feature
        before = _before(out, feature < features, KIND)
        x = tl.load(x_ptr + row * x_stride + at).to(tl.float32)
        if NORM:
            scale = tl.rsqrt(tl.sum(x * x, 0) / DEPTH + eps)
            x = rounded(rounded(x * scale, x_ptr) * norm, x_ptr)
        product = tl.sum(weight.to(tl.float32) * x[None, :], 1)
        up = product
        if KIND == _SWIGLU:
            up = tl.sum(up_weight.to(tl.float32) * x[None, :], 1)
        if PARTS > 1:
            x1 = tl.load(x_ptr + row * x_stride + DEPTH + at).to(tl.float32)
            product += tl.sum(weight1.to(tl.float32) * x1[None, :], 1)
        if PARTS > 2:
            x2 = tl.load(x_ptr + row * x_stride + 2 * DEPTH + at).to(tl.float32)
            product += tl.sum(weight2.to(tl.float32) * x2[None, :], 1)
        _settle(product, up, before, out, feature < features, out_ptr, KIND)


@triton.jit
def slab_product(
    x_ptr,
    weight_ptr,
    out_ptr,
    norm_ptr,
    rows,
    features,
    x_stride,
    out_stride,
    eps,
    ROWS: tl.constexpr,
    DEPTH: tl.constexpr,
    PARTS: tl.constexpr,
    PASSES: tl.constexpr,  # slabs of DEPTH * PARTS inputs
    FEATURES: tl.constexpr,
    NORM: tl.constexpr,  # normalise x on the way, in a single pass
    KIND: tl.constexpr,
    CHAINED: tl.constexpr,
):
    """Multiply few rows at once: warps split the depth as a batch of products, then summed."""
    feature = tl.program_id(0) * FEATURES + tl.arange(0, FEATURES)
    depth = tl.arange(0, PARTS)[:, None, None] * DEPTH
    at = tl.arange(0, DEPTH)
    width: tl.constexpr = DEPTH * PARTS
    size: tl.constexpr = width * PASSES
    slab = weight_ptr + feature[None, :, None] * size + depth + at[None, None, :]
    weight = tl.load(slab, eviction_policy="evict_first")
    if PASSES > 1:
        weight1 = tl.load(slab + width, eviction_policy="evict_first")
    if PASSES > 2:
        weight2 = tl.load(slab + 2 * width, eviction_policy="evict_first")
    if KIND == _SWIGLU:
        up_weight = tl.load(slab + features * size, eviction_policy="evict_first")
    if NORM:
        norm = tl.load(norm_ptr + depth + at[None, :, None]).to(tl.float32)
    follow(CHAINED)
    row = tl.arange(0, ROWS)
    real = row < rows
    inside = real[None, None, :]
    x_at = x_ptr + row[None, None, :] * x_stride + depth + at[None, :, None]
    x = tl.load(x_at, mask=inside, other=0.0)
    out = out_ptr + row[None, :] * out_stride + feature[:, None]
    before = _before(out, real[None, :], KIND)
    if NORM:
        wide = x.to(tl.float32)
        scale = tl.rsqrt(tl.sum(tl.sum(wide * wide, 1), 0) / size + eps)
        x = (rounded(wide * scale[None, None, :], x_ptr) * norm).to(x_ptr.dtype.element_ty)
    product = tl.dot(weight, x)
    if PASSES > 1:
        product = tl.dot(weight1, tl.load(x_at + width, mask=inside, other=0.0), product)
    if PASSES > 2:
        product = tl.dot(weight2, tl.load(x_at + 2 * width, mask=inside, other=0.0), product)
    product = tl.sum(product, 0)
    up = product
    if KIND == _SWIGLU:
        up = tl.sum(tl.dot(up_weight, x), 0)
    _settle(product, up, before, out, real[None, :], out_ptr, KIND)


@triton.jit
def loop_product(
    x_ptr,
    weight_ptr,
    out_ptr,
    partial_ptr,
    arrived_ptr,
    rows,
    features,
    size,
    x_stride,
    out_stride,
    ROWS: tl.constexpr,
    FEATURES: tl.constexpr,
    DEPTH: tl.constexpr,
    SHARE: tl.constexpr,  # inputs per program
    SPLITS: tl.constexpr,
    STAGES: tl.constexpr,
    KIND: tl.constexpr,
    CHAINED: tl.constexpr,
    THREADS: tl.constexpr,  # that prefetch; 0: none
):
    """Multiply up to ROWS rows; the last of SPLITS programs sums their shares in order."""
    block = tl.program_id(0)
    split = tl.program_id(1)
    feature = block * FEATURES + tl.arange(0, FEATURES)
    first = split * SHARE
    if THREADS > 0:
        slab = weight_ptr + block * FEATURES * size + first
        prefetch(slab, size, FEATURES, SHARE, THREADS)
        if KIND == _SWIGLU:
            prefetch(slab + features * size, size, FEATURES, SHARE, THREADS)
    follow(CHAINED)
    row = tl.arange(0, ROWS)
    real = row < rows
    product = tl.zeros([FEATURES, ROWS], tl.float32)
    up = product
    for start in tl.range(0, SHARE, DEPTH, num_stages=STAGES):
        at = first + start + tl.arange(0, DEPTH)
        x = tl.load(x_ptr + row[None, :] * x_stride + at[:, None], mask=real[None, :], other=0.0)
        weight = tl.load(weight_ptr + feature[:, None] * size + at[None, :])
        product = tl.dot(weight, x, product)
        if KIND == _SWIGLU:
            up_weight = tl.load(weight_ptr + (features + feature[:, None]) * size + at[None, :])
            up = tl.dot(up_weight, x, up)
    out = out_ptr + row[None, :] * out_stride + feature[:, None]
    if SPLITS == 1:
        before = _before(out, real[None, :], KIND)
        _settle(product, up, before, out, real[None, :], out_ptr, KIND)
    else:
        tile = tl.arange(0, FEATURES)[:, None] * ROWS + row[None, :]
        partial = partial_ptr + block * SPLITS * FEATURES * ROWS + tile
        tl.store(partial + split * FEATURES * ROWS, product)
        tl.debug_barrier()  # all of the program's stores come before it says it has arrived
        arrived = tl.atomic_add(arrived_ptr + block, 1, sem="acq_rel")
        if arrived == SPLITS - 1:
            tl.debug_barrier()
            before = _before(out, real[None, :], KIND)
            product = tl.zeros([FEATURES, ROWS], tl.float32)
            for other in tl.static_range(SPLITS):
                product += tl.load(partial + other * FEATURES * ROWS, cache_modifier=".cg")
            _settle(product, product, before, out, real[None, :], out_ptr, KIND)
            tl.store(arrived_ptr + block, 0)
