"""The codec's decoder as some eighty fused kernels, for many utterances at once on a GPU.

It is made from the plain `Codec` and computes the same function. A row whose first frame is 0
begins: it reads no history, so rows that begin and rows that continue share a launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import pi
from typing import Any

import torch
from torch import Tensor

from engine.kernels.codec_attention import attend
from engine.kernels.codec_edges import SAMPLES, enter, leave, recall, remember
from engine.kernels.codec_gemm import multiply
from engine.kernels.codec_product import Wave
from engine.kernels.codec_refine import refine
from engine.model.codec import Codec
from engine.model.codec_fused_layers import (
    FusedBlock,
    FusedConvNext,
    FusedLayer,
    FusedUnit,
    convolution,
    entry,
    stretches,
    wave,
)
from engine.model.codec_lane import FusedState, History, Lane
from engine.model.codec_layers import DILATIONS, KERNEL, LAYER_NORM_EPS

MIXED_CHANNELS = 128  # of a residual unit that one kernel does faster than two


class FusedCodec:
    """The decoder of one checkpoint; weights and activations in `dtype`, sums in fp32."""

    def __init__(self, codec: Codec, dtype: torch.dtype) -> None:
        self.config = codec.config
        self.dtype = dtype
        self.device = codec.tables.device
        self.frame_samples = codec.frame_samples
        self.histories = list(_histories(codec))
        self._tables, self._bias = entry(codec)
        self._frequencies = codec.transformer.frequencies / (2 * pi)  # turns per frame
        self._layers = [FusedLayer.of(layer, dtype) for layer in codec.transformer.layers]
        self._stretches = list(stretches(codec, dtype))
        self._factors = [stretch.factor for stretch, _ in codec.stretches]
        self._convnexts = [FusedConvNext.of(block, dtype) for _, block in codec.stretches]
        self._entry = convolution(codec.entry, dtype)
        self._blocks = [FusedBlock.of(block, dtype) for block in codec.blocks]
        self._last = wave(codec.activation)
        self._exit = torch.stack(codec.exit.taps).squeeze(2).to(dtype)  # (taps, channels)
        self._exit_bias = codec.exit.bias.float()

    def new_state(self, slots: int, *, longest: int) -> FusedState:
        """Make the memory of `slots` utterances and a spare one, for padding.

        Args:
            longest: frames of the longest chunk.
        """
        config = self.config
        return FusedState.allocate(
            slots + 1,
            values=sum(history.size for history in self.histories),
            layers=config.num_hidden_layers,
            heads=config.num_attention_heads,
            frames=config.sliding_window - 1 + longest,
            width=config.head_dim,
            like=self._exit,
        )

    def new_lane(self, frames: int) -> Lane:
        """Make the memory of one stream, for at most `frames` frames of all rows together."""
        return Lane(self.histories, frames, like=self._exit)

    def blocks(self, frames: int) -> int:
        """Return how many values that say "finite" follow the samples of `frames` frames."""
        return -(-frames * self.frame_samples // SAMPLES)

    @torch.inference_mode()
    def step(
        self, plan: Tensor, codes: Tensor, state: FusedState, lane: Lane, *, frames: int
    ) -> Tensor:
        """Decode the next `frames` frames of each row, wherever it stands.

        Args:
            plan: a slot may occur once, but for the spare one.

        Shapes: plan (2, rows) int32: slots, first frames; codes (slots, capacity, groups) int64,
        frame f at `f % capacity` -> (rows, frames * frame_samples + blocks) int16: samples, then 1
        for each block of them that is finite.
        """
        desk = lane.desk(plan.shape[1], frames)
        inputs = iter(desk.inputs)
        recall(state.values, lane.work, desk.pieces, plan)
        hidden = self._transform(plan, codes, state, lane, frames=frames)
        self._stretch(hidden, inputs, lane, frames=frames)
        sound = self._decode(desk.inputs[len(self._factors) :], lane, frames=frames)
        remember(state.values, lane.work, desk.pieces, plan)
        return sound

    def _transform(
        self, plan: Tensor, codes: Tensor, state: FusedState, lane: Lane, *, frames: int
    ) -> Tensor:
        """Return (rows * frames, hidden) fp32, not yet normalised."""
        lines, config = plan.shape[1] * frames, self.config
        width = config.num_attention_heads * config.head_dim
        hidden = self._bias.new_empty(lines, config.hidden_size)
        turns = self._bias.new_empty(lines, config.head_dim)
        enter(codes, self._tables, self._bias, self._frequencies, plan, hidden, turns)
        inputs, mixed = self._new(lines, 3 * width), self._new(lines, width)
        inner = self._new(lines, config.intermediate_size)
        for layer, ring in zip(self._layers, state.rings.unbind(1), strict=True):
            multiply(hidden, layer.inputs, lane.scratch, length=1, out=inputs)
            attend(inputs, turns, ring, plan, mixed, history=config.sliding_window - 1)
            multiply(mixed, layer.output, lane.scratch, length=1, residual=hidden, out=hidden)
            multiply(hidden, layer.expand, lane.scratch, length=1, out=inner)
            multiply(inner, layer.contract, lane.scratch, length=1, residual=hidden, out=hidden)
        return hidden

    def _stretch(self, x: Tensor, inputs: Iterator[Tensor], lane: Lane, *, frames: int) -> None:
        """Upsample from hidden states to the input of the first causal convolution."""
        x, length = x.view(-1, frames, x.shape[1]), frames
        joined = next(inputs)
        for stretch, factor, block in zip(
            self._stretches, self._factors, self._convnexts, strict=True
        ):
            rows, channels = len(x), joined.shape[2]
            chunk = joined[:, KERNEL - 1 :]
            multiply(x, stretch, lane.scratch, length=length, out=chunk)
            length *= factor
            refined = self._new(rows * length, channels)
            inner = self._new(rows, length, block.expand.outputs)
            refine(
                joined,
                block.weight,
                block.bias,
                block.norm_weight,
                block.norm_bias,
                refined,
                eps=LAYER_NORM_EPS,
            )
            multiply(refined, block.expand, lane.scratch, length=1, activated=inner.flatten(0, 1))
            joined = next(inputs)
            is_last = block is self._convnexts[-1]
            x = joined[:, KERNEL - 1 :] if is_last else self._new(rows, length, channels)
            multiply(inner, block.contract, lane.scratch, length=length, residual=chunk, out=x)

    def _decode(self, inputs: Sequence[Tensor], lane: Lane, *, frames: int) -> Tensor:
        """Return samples and whether they are finite."""
        others = iter(inputs)
        first = next(others)
        length = first.shape[1] - (KERNEL - 1)
        joined = next(others)
        multiply(
            first,
            self._entry,
            lane.scratch,
            length=length,
            wave=self._blocks[0].before,
            activated=joined[:, 1:],
        )
        waves = [*(block.before for block in self._blocks[1:]), self._last]
        for block, after in zip(self._blocks, waves, strict=True):
            joined = self._block(block, joined, others, lane, length=length, after=after)
            length *= block.stride
        sound = torch.empty(
            len(first), length + self.blocks(frames), dtype=torch.int16, device=self.device
        )
        leave(joined, self._exit, self._exit_bias, sound, samples=length)
        return sound

    def _block(
        self,
        block: FusedBlock,
        joined: Tensor,
        others: Iterator[Tensor],
        lane: Lane,
        *,
        length: int,
        after: Wave,
    ) -> Tensor:
        """Upsample and refine; return the next layer's input, activated by `after`."""
        columns = length * block.stride
        x = self._new(len(joined), columns, block.upsampling.outputs // block.stride)
        waves = [*(unit.before for unit in block.units), after]
        following = next(others)
        multiply(
            joined,
            block.upsampling,
            lane.scratch,
            length=length,
            out=x,
            wave=waves[0],
            activated=following[:, -columns:],
        )
        for unit, wave_after in zip(block.units, waves[1:], strict=True):
            joined, following = following, next(others)
            target = {
                "residual": x,
                "out": None if unit is block.units[-1] else x,
                "wave": wave_after,
                "activated": following[:, -columns:],
            }
            self._unit(unit, joined, lane, columns=columns, target=target)
        return following

    def _unit(
        self,
        unit: FusedUnit,
        joined: Tensor,
        lane: Lane,
        *,
        columns: int,
        target: dict[str, Any],
    ) -> None:
        """Run a residual unit: in one kernel if one program can see all its channels."""
        channels = unit.wide.inputs
        if channels <= MIXED_CHANNELS:
            multiply(joined, unit.wide, lane.scratch, length=columns, mix=unit.mix, **target)
            return
        inner = self._new(len(joined), columns, channels)
        multiply(
            joined,
            unit.wide,
            lane.scratch,
            length=columns,
            wave=unit.mix.wave,
            activated=inner,
        )
        multiply(inner, unit.mix.product, lane.scratch, length=columns, **target)

    def _new(self, *shape: int) -> Tensor:
        return self._exit.new_empty(shape)


def _histories(codec: Codec) -> Iterator[History]:
    """List what each layer looks back on, in the order in which they run."""
    rate = 1
    for stretch, convnext in codec.stretches:
        rate *= stretch.factor
        yield History(KERNEL - 1, rate, convnext.depthwise.bias.shape[0])
    yield History(KERNEL - 1, rate, codec.entry.taps[0].shape[0])
    for block in codec.blocks:
        yield History(1, rate, block.upsampling.convolution.taps[0].shape[0])
        rate *= block.upsampling.stride
        for dilation, unit in zip(DILATIONS, block.units, strict=True):
            yield History((KERNEL - 1) * dilation, rate, unit.mix.bias.shape[0])
    yield History(KERNEL - 1, rate, codec.exit.taps[0].shape[0])
