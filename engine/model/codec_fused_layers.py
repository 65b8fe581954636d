"""The plain codec's layers, laid out for fused kernels: folded in fp64, rounded once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.kernels.codec_product import Mix, Product, Wave
from engine.model.codec import Codec
from engine.model.codec_layers import Block, ConvNext, Convolution, Linear, ResidualUnit, Snake
from engine.model.codec_transformer import Layer, Norm


@dataclass(frozen=True, slots=True)
class FusedLayer:
    """A layer of the transformer in four products."""

    inputs: Product
    output: Product
    expand: Product
    contract: Product

    @classmethod
    def of(cls, layer: Layer, dtype: torch.dtype) -> FusedLayer:
        """Convert."""
        attention, perceptron = layer.attention, layer.perceptron
        gate, up = perceptron.inputs.chunk(2, 1)
        gated = torch.stack([gate, up], 2).flatten(1)  # pairs side by side
        return cls(
            _normed(layer.attention_norm, attention.inputs, None, dtype),
            product(attention.output, None, dtype),
            _normed(layer.perceptron_norm, gated, None, dtype, gated=True),
            product(perceptron.output, None, dtype),
        )


@dataclass(frozen=True, slots=True)
class FusedConvNext:
    """A ConvNeXt block."""

    weight: Tensor  # (taps, channels) fp32, as the next three (channels,)
    bias: Tensor
    norm_weight: Tensor
    norm_bias: Tensor
    expand: Product
    contract: Product

    @classmethod
    def of(cls, block: ConvNext, dtype: torch.dtype) -> FusedConvNext:
        """Convert."""
        return cls(
            block.depthwise.weight.squeeze(1).float(),
            block.depthwise.bias.float(),
            block.norm_weight.float(),
            block.norm_bias.float(),
            linear(block.expand, dtype),
            linear(block.contract, dtype),
        )


@dataclass(frozen=True, slots=True)
class FusedUnit:
    """A residual unit; its input arrives activated."""

    before: Wave
    wide: Product
    mix: Mix

    @classmethod
    def of(cls, unit: ResidualUnit, dtype: torch.dtype) -> FusedUnit:
        """Convert."""
        mix = Mix(wave(unit.between), linear(unit.mix, dtype))
        return cls(wave(unit.before), convolution(unit.wide, dtype), mix)


@dataclass(frozen=True, slots=True)
class FusedBlock:
    """A block of the decoder; its input arrives activated by `before`."""

    before: Wave
    upsampling: Product
    stride: int
    units: Sequence[FusedUnit]

    @classmethod
    def of(cls, block: Block, dtype: torch.dtype) -> FusedBlock:
        """Convert."""
        return cls(
            wave(block.activation),
            convolution(block.upsampling.convolution, dtype),
            block.upsampling.stride,
            [FusedUnit.of(unit, dtype) for unit in block.units],
        )


def product(weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> Product:
    """Convert a matrix (in, out)."""
    return Product(
        weight.T.to(dtype).contiguous(), None if bias is None else bias.float(), weight.shape[0]
    )


def linear(layer: Linear, dtype: torch.dtype) -> Product:
    """Convert."""
    return product(layer.weight, layer.bias, dtype)


def convolution(layer: Convolution, dtype: torch.dtype) -> Product:
    """Convert: taps (in, out) each -> (out, taps * in)."""
    weight = torch.cat(layer.taps).T.to(dtype).contiguous()
    return Product(weight, layer.bias.float(), layer.taps[0].shape[0], layer.dilation)


def wave(snake: Snake) -> Wave:
    """Convert."""
    return Wave(snake.frequency.float(), snake.gain.float())


def entry(codec: Codec) -> tuple[Tensor, Tensor]:
    """Fold code tables, `pre_conv` and the transformer's input.

    Shapes: -> (taps, groups, size, hidden), (hidden,), both fp32.
    """
    last, config = codec.transformer.input, codec.config
    weight = last.weight.double()
    tables = [
        (codec.tables.double() @ (tap.double() @ weight)).float() for tap in codec.latent.taps
    ]
    bias = codec.latent.bias.double() @ weight + last.bias
    shape = (len(tables), config.num_quantizers, config.codebook_size, -1)
    return torch.stack(tables).view(shape), bias.float()


def stretches(codec: Codec, dtype: torch.dtype) -> Iterator[Product]:
    """Convert the transposed convolutions; the first takes in the transformer's output."""
    transformer = codec.transformer
    (first, _), *others = codec.stretches
    weight, output = first.linear.weight.double(), transformer.output
    bias = output.bias.double() @ weight + first.linear.bias
    yield _normed(transformer.norm, output.weight.double() @ weight, bias, dtype)
    for stretch, _ in others:
        yield linear(stretch.linear, dtype)


def _normed(
    norm: Norm, weight: Tensor, bias: Tensor | None, dtype: torch.dtype, *, gated: bool = False
) -> Product:
    """Convert a matrix (in, out) behind a norm, whose weights it takes in."""
    folded = product(norm.weight.double()[:, None] * weight, bias, dtype)
    return Product(folded.weight, folded.bias, folded.inputs, eps=norm.eps, gated=gated)
