"""Causal convolutions and linear layers of the codec as one matrix product with an epilogue.

Channels are last, and an utterance's chunk stands behind the columns it looks back on, so the input
of tap j is the same memory moved by j * dilation columns: nothing is copied or unfolded, and the
sum over taps and channels is one long sum. Sums are fp32 whatever the operands are. A sum that
several programs share is added up by the last of them in a fixed order, whoever comes last.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.codec_launch import PROGRAM_VALUES, Scratch, fetch, options, sine, vector
from engine.kernels.codec_product import Mix, Product, Wave
from engine.kernels.codec_tiles import Tile, choose, choose_mixed
from engine.kernels.pieces import follow

FETCHED_ROWS = 2048  # of a product: with more, reading weights is not what takes the time


def multiply(
    x: Tensor,
    product: Product,
    scratch: Scratch,
    *,
    length: int,
    mix: Mix | None = None,
    out: Tensor | None = None,
    residual: Tensor | None = None,
    wave: Wave | None = None,
    activated: Tensor | None = None,
    tile: Tile | None = None,
) -> None:
    """Compute a layer for `length` columns of every row.

    Args:
        mix: what else becomes of the product before bias and residual of `out`.
        out: where bias and residual have been added; may be `residual`.
        wave: what `activated` applies to the same values; without it, GELU.
        tile: instead of the one that `choose` picks.

    Shapes: x (rows, (taps - 1) * dilation + length, inputs), rows contiguous inside; out, residual,
    activated (rows, length, outputs) or the same memory seen as (rows, length * n, outputs / n).
    """
    rows, depth, columns = x.shape[0], product.weight.shape[1], product.weight.shape[0]
    count = rows * length
    if tile is None and mix:
        tile = choose_mixed(count, columns, depth, inputs=product.inputs)
    elif tile is None:
        tile = choose(
            count,
            columns,
            depth,
            inputs=product.inputs,
            whole=product.eps > 0,
            itemsize=product.weight.itemsize,
        )
    assert not mix or (tile.split == 1 and tile.columns >= columns), "a mix needs all columns"
    assert tile.split == 1 or not product.eps, "a shared sum knows no root mean square"
    assert not (product.gated and wave), "a wave has a weight for every column, a gate for half"
    grid = (triton.cdiv(count, tile.rows) * triton.cdiv(columns, tile.columns), tile.split)
    assert tile.split == 1 or grid[0] * tile.split * tile.rows * tile.columns <= PROGRAM_VALUES
    once = tile.stages == 0
    step = triton.next_power_of_2(depth) // tile.warps if once else tile.depth
    aligned = product.inputs % step == 0 and depth % step == 0
    _multiply[grid](
        x,
        product.weight,
        product.bias,
        residual,
        out,
        activated,
        wave.frequency if wave else None,
        wave.gain if wave else None,
        mix.product.weight if mix else None,
        mix.product.bias if mix else None,
        mix.wave.frequency if mix else None,
        mix.wave.gain if mix else None,
        scratch.parts,
        scratch.arrivals,
        length,
        count,
        depth,
        columns,
        product.inputs,
        (product.dilation - 1) * product.inputs,
        len(wave.gain) if wave else 1,
        x.stride(0),
        residual.stride(0) if residual is not None else 0,
        out.stride(0) if out is not None else 0,
        activated.stride(0) if activated is not None else 0,
        product.eps,
        NORM=product.eps > 0,
        GATED=product.gated,
        ALIGNED=aligned,
        FETCH=aligned and step >= 32 and not once and count <= FETCHED_ROWS,
        ROWS=tile.rows,
        COLUMNS=tile.columns,
        STEP=step,
        STAGES=tile.stages,
        SPLIT=tile.split,
        WARPS=tile.warps,
        **options(product.weight.dtype, warps=tile.warps),
    )


@triton.jit
def _finish(
    total, shift, frequency, gain, mix, mix_shift, mix_frequency, mix_gain, residual, out,
    activated, m, n, length, count, columns, residual_row, out_row, activated_row,
    GATED: tl.constexpr, WAVED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    PRECISION: tl.constexpr, PLAIN: tl.constexpr,
):  # fmt: skip
    """Bias, mix, gate, residual, activation, store."""
    total += shift[None, :]
    if mix is not None:
        wave = sine(total * mix_frequency[None, :], PLAIN)
        total += wave * wave * mix_gain[None, :]
        k = tl.arange(0, COLUMNS)
        known = (k < columns)[:, None] & (n < columns)[None, :]
        weight = tl.load(mix + n[None, :] * columns + k[:, None], mask=known, other=0.0)
        total = tl.dot(total.to(weight.dtype), weight, input_precision=PRECISION)
        total += mix_shift[None, :]
    if GATED:
        gate, up = tl.split(total.reshape(ROWS, COLUMNS // 2, 2))
        total = gate / (1.0 + tl.exp(-gate)) * up
        n = tl.max(n.reshape(COLUMNS // 2, 2), 1) // 2
        columns = columns // 2
    row = m // length
    column = (m - row * length) * columns
    keep = (m < count)[:, None] & (n < columns)[None, :]
    if residual is not None:
        place = (row * residual_row + column)[:, None] + n[None, :]
        total += tl.load(residual + place, mask=keep, other=0.0).to(tl.float32)
    if out is not None:
        place = (row * out_row + column)[:, None] + n[None, :]
        tl.store(out + place, total.to(out.dtype.element_ty), mask=keep)
    if activated is not None:
        if WAVED:
            wave = sine(total * frequency[None, :], PLAIN)
            total += wave * wave * gain[None, :]
        else:
            total = 0.5 * total * (1.0 + tl.erf(total * 0.7071067811865476))
        place = (row * activated_row + column)[:, None] + n[None, :]
        tl.store(activated + place, total.to(activated.dtype.element_ty), mask=keep)


@triton.jit(do_not_specialize=["length", "count"])
def _multiply(
    x, weight, bias, residual, out, activated, frequency, gain, mix, mix_bias, mix_frequency,
    mix_gain, parts, arrivals,
    length, count, depth, columns, inputs, jump, channels,
    x_row, residual_row, out_row, activated_row, eps,
    NORM: tl.constexpr, GATED: tl.constexpr, ALIGNED: tl.constexpr, FETCH: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr, STAGES: tl.constexpr,
    SPLIT: tl.constexpr, WARPS: tl.constexpr, PRECISION: tl.constexpr, PLAIN: tl.constexpr,
    CHAINED: tl.constexpr,
):  # fmt: skip
    # Eight tiles of rows at a time pass over all columns: their inputs stay in the L2 cache.
    tile = tl.program_id(0)
    down, across = tl.cdiv(count, ROWS), tl.cdiv(columns, COLUMNS)
    group = tile // (8 * across)
    height = tl.minimum(down - group * 8, 8)
    top = group * 8 + (tile % (8 * across)) % height
    m = top * ROWS + tl.arange(0, ROWS)
    left = ((tile % (8 * across)) // height) * COLUMNS
    n = left + tl.arange(0, COLUMNS)
    row = m // length
    place = row * x_row + (m - row * length) * inputs
    # What the sum will meet at its end has time to come now, from wherever it lies.
    shift = vector(bias, n, columns)
    speed, lift = vector(frequency, n % channels, channels), vector(gain, n % channels, channels)
    mix_shift = vector(mix_bias, n, columns)
    mix_speed, mix_lift = vector(mix_frequency, n, columns), vector(mix_gain, n, columns)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    squares = tl.zeros([ROWS], tl.float32)
    if STAGES == 0:
        # Weights are asked for before the input exists; each warp sums a part of the depth.
        k = tl.arange(0, WARPS)[:, None] * STEP + tl.arange(0, STEP)[None, :]
        k = k[:, :, None]
        w = tl.load(
            weight + n[None, None, :] * depth + k,
            mask=(k < depth) & (n < columns)[None, None, :],
            other=0.0,
        )
        follow(CHAINED)
        k = tl.arange(0, WARPS)[:, None] * STEP + tl.arange(0, STEP)[None, :]
        k = k[:, None, :]
        known = (k < depth) & (m < count)[None, :, None]
        a = tl.load(x + place[None, :, None] + (k + k // inputs * jump), mask=known, other=0.0)
        total = tl.sum(tl.dot(a.to(w.dtype), w, input_precision=PRECISION), 0)
        if NORM:
            a = a.to(tl.float32)
            squares = tl.sum(tl.sum(a * a, 2), 0)
    else:
        steps = tl.cdiv(depth, STEP)
        share = tl.cdiv(steps, SPLIT)
        first = tl.program_id(1) * share
        last = tl.minimum(first + share, steps)
        if CHAINED and FETCH:  # noqa: SIM102 (the first is known when compiling)
            if top == 0:
                column = left + tl.arange(0, COLUMNS)
                start = weight + tl.minimum(column, columns - 1) * depth + first * STEP
                fetch(start, (last - first) * STEP, COLUMNS, WARPS)
        follow(CHAINED)
        weight_place = n * depth
        for step in tl.range(first, last, num_stages=STAGES):
            k = step * STEP + tl.arange(0, STEP)
            known_m, known_n = (m < count)[:, None], (n < columns)[None, :]
            if ALIGNED:
                beyond = k + (step * STEP) // inputs * jump
            else:
                beyond = k + k // inputs * jump
                known_m &= (k < depth)[None, :]
                known_n &= (k < depth)[:, None]
            a = tl.load(x + place[:, None] + beyond[None, :], mask=known_m, other=0.0)
            w = tl.load(weight + weight_place[None, :] + k[:, None], mask=known_n, other=0.0)
            if NORM:
                wide = a.to(tl.float32)
                squares += tl.sum(wide * wide, 1)
            total = tl.dot(a.to(w.dtype), w, total, input_precision=PRECISION)
    if NORM:
        total *= tl.rsqrt(squares / depth + eps)[:, None]
    if SPLIT == 1:
        _finish(
            total, shift, speed, lift, mix, mix_shift, mix_speed, mix_lift, residual, out,
            activated, m, n, length, count, columns, residual_row, out_row, activated_row, GATED,
            frequency is not None, ROWS, COLUMNS, PRECISION, PLAIN,
        )  # fmt: skip
    else:
        inside = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
        shared = parts + tile * SPLIT * ROWS * COLUMNS + inside
        tl.store(shared + tl.program_id(1) * ROWS * COLUMNS, total)
        tl.debug_barrier()
        arrived = tl.atomic_add(arrivals + tile, 1, sem="acq_rel")
        if arrived == SPLIT - 1:
            tl.debug_barrier()
            total = tl.load(shared, cache_modifier=".cg")
            for other in tl.static_range(1, SPLIT):
                total += tl.load(shared + other * ROWS * COLUMNS, cache_modifier=".cg")
            tl.store(arrivals + tile, 0)
            _finish(
                total, shift, speed, lift, mix, mix_shift, mix_speed, mix_lift, residual, out,
                activated, m, n, length, count, columns, residual_row, out_row, activated_row,
                GATED, frequency is not None, ROWS, COLUMNS, PRECISION, PLAIN,
            )  # fmt: skip
