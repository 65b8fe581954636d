"""The codec's tensors for random weights: names, shapes, and scales that keep its sound alive.

With smaller convolutions the sound would be nearly all bias, with larger ones the network would be
chaotic and magnify rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from engine.model.config import CodecConfig

GAIN = 0.7  # of convolutions
LOUDNESS = 0.12  # of the last one: samples get an rms of 0.1 to 0.2


@dataclass(frozen=True, slots=True)
class Drawn:
    """How one tensor is made from normal numbers: `offset + scale * normal`."""

    shape: tuple[int, ...]
    scale: float
    offset: float = 0.0

    def of(self, normal: Tensor) -> Tensor:
        """Scale and shift; a positive offset above 2 keeps counts positive."""
        drawn = normal.mul_(self.scale).add_(self.offset)
        return drawn.clamp_(min=0.5) if self.offset > 2 else drawn


Shapes = Iterator[tuple[str, Drawn]]


def codec_shapes(config: CodecConfig) -> Shapes:
    """Name every tensor under `decoder.`."""
    yield from _quantizer(config)
    yield from _transformer(config)
    yield from _upsampling(config)


def _quantizer(config: CodecConfig) -> Shapes:
    width, wide = config.codebook_dim // 2, config.codebook_dim
    for part, groups in (("rvq_first", 1), ("rvq_rest", config.num_quantizers - 1)):
        name = f"quantizer.{part}"
        yield f"{name}.input_proj.weight", Drawn((width, wide, 1), 1.0)
        yield f"{name}.output_proj.weight", Drawn((wide, width, 1), width**-0.5)
        for group in range(groups):
            book = f"{name}.vq.layers.{group}._codebook"
            yield f"{book}.cluster_usage", Drawn((config.codebook_size,), 1.0, 3.0)
            yield f"{book}.embedding_sum", Drawn((config.codebook_size, width), 1.5)
    yield from _convolution("pre_conv", config.latent_dim, config.codebook_dim, 3)


def _transformer(config: CodecConfig) -> Shapes:
    hidden, inner = config.hidden_size, config.intermediate_size
    heads = config.num_attention_heads * config.head_dim
    yield from _matrix("pre_transformer.input_proj", hidden, config.latent_dim, bias=True)
    for number in range(config.num_hidden_layers):
        name = f"pre_transformer.layers.{number}"
        for each in "qkv":
            yield from _matrix(f"{name}.self_attn.{each}_proj", heads, hidden)
        yield from _matrix(f"{name}.self_attn.o_proj", hidden, heads)
        yield from _matrix(f"{name}.mlp.gate_proj", inner, hidden)
        yield from _matrix(f"{name}.mlp.up_proj", inner, hidden)
        yield from _matrix(f"{name}.mlp.down_proj", hidden, inner)
        for each in ("input_layernorm", "post_attention_layernorm"):
            yield f"{name}.{each}.weight", Drawn((hidden,), 0.1, 1.0)
        for each in ("self_attn", "mlp"):
            yield f"{name}.{each}_layer_scale.scale", Drawn((hidden,), 0.05, 0.1)
    yield "pre_transformer.norm.weight", Drawn((hidden,), 0.1, 1.0)
    yield from _matrix("pre_transformer.output_proj", config.latent_dim, hidden, bias=True)


def _upsampling(config: CodecConfig) -> Shapes:
    latent, channels = config.latent_dim, config.decoder_dim
    for number, factor in enumerate(config.upsampling_ratios):
        name = f"upsample.{number}"
        yield from _convolution(f"{name}.0", latent, latent, factor, gain=1.0)
        yield from _convolution(f"{name}.1.dwconv", latent, 1, 7)
        yield f"{name}.1.norm.weight", Drawn((latent,), 0.1, 1.0)
        yield f"{name}.1.norm.bias", Drawn((latent,), 0.1)
        yield from _matrix(f"{name}.1.pwconv1", 4 * latent, latent, bias=True)
        yield from _matrix(f"{name}.1.pwconv2", latent, 4 * latent, bias=True)
        yield f"{name}.1.gamma", Drawn((latent,), 0.2, 0.5)
    yield from _convolution("decoder.0", channels, latent, 7)
    for number, stride in enumerate(config.upsample_rates, start=1):
        name, half = f"decoder.{number}.block", channels // 2
        yield from _snake(f"{name}.0", channels)
        weight = Drawn((channels, half, 2 * stride), GAIN / math.sqrt(half * 2 * stride))
        yield f"{name}.1.conv.weight", weight
        yield f"{name}.1.conv.bias", Drawn((half,), 0.05)
        for unit in (2, 3, 4):
            yield from _snake(f"{name}.{unit}.act1", half)
            yield from _snake(f"{name}.{unit}.act2", half)
            yield from _convolution(f"{name}.{unit}.conv1", half, half, 7)
            yield from _convolution(f"{name}.{unit}.conv2", half, half, 1)
        channels = half
    last = len(config.upsample_rates) + 1
    yield from _snake(f"decoder.{last}", channels)
    yield from _convolution(f"decoder.{last + 1}", 1, channels, 7, gain=LOUDNESS)


def _matrix(name: str, outputs: int, inputs: int, *, bias: bool = False) -> Shapes:
    yield f"{name}.weight", Drawn((outputs, inputs), inputs**-0.5)
    if bias:
        yield f"{name}.bias", Drawn((outputs,), 0.1)


def _convolution(name: str, outputs: int, inputs: int, taps: int, *, gain: float = GAIN) -> Shapes:
    yield f"{name}.conv.weight", Drawn((outputs, inputs, taps), gain / math.sqrt(inputs * taps))
    yield f"{name}.conv.bias", Drawn((outputs,), 0.05)


def _snake(name: str, channels: int) -> Shapes:
    yield f"{name}.alpha", Drawn((channels,), 0.3)
    yield f"{name}.beta", Drawn((channels,), 0.3)
