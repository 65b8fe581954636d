"""Causal convolutions and linear layers of the codec as one matrix product with an epilogue.

Channels are last, and an utterance's chunk stands behind the columns it looks back on, so the input
of tap j is the same memory moved by j * dilation columns: nothing is copied or unfolded, and the
sum over taps and channels is one long sum. Sums are fp32 whatever the operands are. A sum that
several programs share is added up by the last of them in a fixed order, whoever comes last.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.codec_launch import PROGRAM_VALUES, Scratch, options, sine
from engine.kernels.codec_tiles import Tile, choose
from engine.kernels.pieces import follow


@dataclass(frozen=True, slots=True)
class Product:
    """A layer's matrix."""

    weight: Tensor  # (outputs, taps * inputs), oldest tap first
    bias: Tensor | None  # (outputs,) fp32
    inputs: int  # channels of one tap
    dilation: int = 1
    eps: float = 0.0  # > 0: divide each input row by its root mean square
    gated: bool = False  # outputs are (gate, up) pairs: silu(gate) * up comes out

    @property
    def outputs(self) -> int:
        """Values that come out per column."""
        return self.weight.shape[0] // (2 if self.gated else 1)


@dataclass(frozen=True, slots=True)
class Wave:
    """A SnakeBeta: x + sin(x * frequency)^2 * gain."""

    frequency: Tensor  # (channels,) fp32
    gain: Tensor  # (channels,) fp32


def multiply(
    x: Tensor,
    product: Product,
    scratch: Scratch,
    *,
    length: int,
    out: Tensor | None = None,
    residual: Tensor | None = None,
    wave: Wave | None = None,
    activated: Tensor | None = None,
    tile: Tile | None = None,
) -> None:
    """Compute a layer for `length` columns of every row.

    Args:
        out: where bias and residual have been added; may be `residual`.
        wave: what `activated` applies to the same values; without it, GELU.
        tile: instead of the one that `choose` picks.

    Shapes: x (rows, (taps - 1) * dilation + length, inputs), rows contiguous inside; out, residual,
    activated (rows, length, outputs) or the same memory seen as (rows, length * n, outputs / n).
    """
    rows, depth, columns = x.shape[0], product.weight.shape[1], product.weight.shape[0]
    count = rows * length
    tile = tile or choose(
        count,
        columns,
        depth,
        inputs=product.inputs,
        whole=product.eps > 0,
        itemsize=product.weight.itemsize,
    )
    assert tile.split == 1 or not product.eps, "a shared sum knows no root mean square"
    grid = (triton.cdiv(count, tile.rows) * triton.cdiv(columns, tile.columns), tile.split)
    assert tile.split == 1 or grid[0] * tile.split * tile.rows * tile.columns <= PROGRAM_VALUES
    once = tile.stages == 0
    step = triton.next_power_of_2(depth) // tile.warps if once else tile.depth
    _multiply[grid](
        x,
        product.weight,
        product.bias,
        residual,
        out,
        activated,
        wave.frequency if wave else None,
        wave.gain if wave else None,
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
        ALIGNED=product.inputs % step == 0 and depth % step == 0,
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
    total, bias, residual, out, activated, frequency, gain, m, n, length, count, columns, channels,
    residual_row, out_row, activated_row,
    GATED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, PLAIN: tl.constexpr,
):  # fmt: skip
    """Bias, gate, residual, activation, store."""
    if bias is not None:
        total += tl.load(bias + n, mask=n < columns, other=0.0)[None, :]
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
        if frequency is not None:
            channel = n % channels
            wave = sine(total * tl.load(frequency + channel)[None, :], PLAIN)
            total += wave * wave * tl.load(gain + channel)[None, :]
        else:
            total = 0.5 * total * (1.0 + tl.erf(total * 0.7071067811865476))
        place = (row * activated_row + column)[:, None] + n[None, :]
        tl.store(activated + place, total.to(activated.dtype.element_ty), mask=keep)


@triton.jit(do_not_specialize=["length", "count"])
def _multiply(
    x, weight, bias, residual, out, activated, frequency, gain, parts, arrivals,
    length, count, depth, columns, inputs, jump, channels,
    x_row, residual_row, out_row, activated_row, eps,
    NORM: tl.constexpr, GATED: tl.constexpr, ALIGNED: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr, STAGES: tl.constexpr,
    SPLIT: tl.constexpr, WARPS: tl.constexpr, PRECISION: tl.constexpr, PLAIN: tl.constexpr,
    CHAINED: tl.constexpr,
):  # fmt: skip
    # Eight tiles of rows at a time pass over all columns: their inputs stay in the L2 cache.
    tile = tl.program_id(0)
    down, across = tl.cdiv(count, ROWS), tl.cdiv(columns, COLUMNS)
    group = tile // (8 * across)
    height = tl.minimum(down - group * 8, 8)
    m = (group * 8 + (tile % (8 * across)) % height) * ROWS + tl.arange(0, ROWS)
    n = ((tile % (8 * across)) // height) * COLUMNS + tl.arange(0, COLUMNS)
    row = m // length
    place = row * x_row + (m - row * length) * inputs
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
        follow(CHAINED)
        steps = tl.cdiv(depth, STEP)
        share = tl.cdiv(steps, SPLIT)
        first = tl.program_id(1) * share
        last = tl.minimum(first + share, steps)
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
            total, bias, residual, out, activated, frequency, gain, m, n, length, count, columns,
            channels, residual_row, out_row, activated_row, GATED, ROWS, COLUMNS, PLAIN,
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
                total, bias, residual, out, activated, frequency, gain, m, n, length, count,
                columns, channels, residual_row, out_row, activated_row, GATED, ROWS, COLUMNS,
                PLAIN,
            )  # fmt: skip


def reference(
    x: Tensor, product: Product, *, length: int, residual: Tensor | None, wave: Wave | None
) -> tuple[Tensor, Tensor]:
    """Compute in fp64 what `multiply` stores in `out` and `activated`: (rows, length, outputs)."""
    weight = product.weight.double().unflatten(1, (-1, product.inputs))
    x = x.double()
    windows = [
        x[:, tap * product.dilation :][:, :length] for tap in range(weight.shape[1])
    ]  # (rows, length, inputs) each
    total = sum(window @ weight[:, tap].T for tap, window in enumerate(windows))
    assert isinstance(total, Tensor)
    if product.eps:
        total = total * (windows[0].square().mean(-1, keepdim=True) + product.eps).rsqrt()
    if product.bias is not None:
        total = total + product.bias
    if product.gated:
        total = torch.nn.functional.silu(total[..., 0::2]) * total[..., 1::2]
    if residual is not None:
        total = total + residual.reshape(total.shape)
    if wave is None:
        return total, torch.nn.functional.gelu(total)
    channels = total.unflatten(2, (-1, len(wave.gain)))
    waved = channels + (channels * wave.frequency).sin().square() * wave.gain
    return total, waved.flatten(2)
