"""A tiny random codec whose sound depends on its codes: alive, and too quiet to clip.

With smaller convolutions the sound is nearly all bias, with larger ones the network is chaotic and
magnifies rounding: either would hide mistakes.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from engine.model.config import CodecConfig

CONFIG = CodecConfig(
    codebook_size=50,
    codebook_dim=32,
    latent_dim=48,
    hidden_size=32,
    intermediate_size=40,
    head_dim=16,
    num_attention_heads=4,
    num_hidden_layers=3,
    num_quantizers=16,
    rms_norm_eps=1e-5,
    rope_theta=10000.0,
    sliding_window=9,
    upsample_rates=(8, 5, 4, 3),
    upsampling_ratios=(2, 2),
    decoder_dim=64,
    sample_rate=24000,
)
LOUDNESS = 0.12  # gain of the last convolution that gives samples an rms of 0.1 to 0.2


def random_weights(config: CodecConfig = CONFIG, *, seed: int = 0) -> dict[str, Tensor]:
    """Draw the tensors of a codec, under the names of a checkpoint.

    Not one is left at what a fresh network has (zero codebooks, scales of 0.01). Draws depend on
    the seed and the order below only: the program that writes the golden files repeats them.
    """
    random = np.random.RandomState(seed)

    def normal(*shape: int) -> Tensor:
        return torch.from_numpy(random.standard_normal(shape).astype(np.float32))

    tensors: dict[str, Tensor] = {}

    def put(name: str, tensor: Tensor) -> None:
        tensors[f"decoder.{name}"] = tensor

    def matrix(name: str, outputs: int, inputs: int, *, bias: bool = False) -> None:
        put(f"{name}.weight", normal(outputs, inputs) * 1.5 / math.sqrt(inputs))
        if bias:
            put(f"{name}.bias", 0.1 * normal(outputs))

    def convolution(name: str, *shape: int, outputs: int, gain: float = 0.7) -> None:
        put(f"{name}.conv.weight", normal(*shape) * gain / math.sqrt(shape[1] * shape[2]))
        put(f"{name}.conv.bias", 0.05 * normal(outputs))

    def snake(name: str, channels: int) -> None:
        put(f"{name}.alpha", 0.3 * normal(channels))
        put(f"{name}.beta", 0.3 * normal(channels))

    hidden, latent, width = config.hidden_size, config.latent_dim, config.codebook_dim // 2
    for part, groups in (("rvq_first", 1), ("rvq_rest", config.num_quantizers - 1)):
        name = f"quantizer.{part}"
        put(f"{name}.input_proj.weight", normal(width, config.codebook_dim, 1))
        put(f"{name}.output_proj.weight", normal(config.codebook_dim, width, 1) / math.sqrt(width))
        for group in range(groups):
            book = f"{name}.vq.layers.{group}._codebook"
            usage = 0.5 + 5 * torch.from_numpy(random.random_sample(config.codebook_size)).float()
            usage[::7] = 0  # never used in training
            put(f"{book}.cluster_usage", usage)
            entries = normal(config.codebook_size, width) / 2
            put(f"{book}.embedding_sum", entries * usage.clamp(min=1e-5)[:, None])
    convolution("pre_conv", latent, config.codebook_dim, 3, outputs=latent)

    matrix("pre_transformer.input_proj", hidden, latent, bias=True)
    heads = config.num_attention_heads * config.head_dim
    for number in range(config.num_hidden_layers):
        name = f"pre_transformer.layers.{number}"
        for each in "qkv":
            matrix(f"{name}.self_attn.{each}_proj", heads, hidden)
        matrix(f"{name}.self_attn.o_proj", hidden, heads)
        matrix(f"{name}.mlp.gate_proj", config.intermediate_size, hidden)
        matrix(f"{name}.mlp.up_proj", config.intermediate_size, hidden)
        matrix(f"{name}.mlp.down_proj", hidden, config.intermediate_size)
        for each in ("input_layernorm", "post_attention_layernorm"):
            put(f"{name}.{each}.weight", 1 + 0.1 * normal(hidden))
        for each in ("self_attn", "mlp"):
            put(f"{name}.{each}_layer_scale.scale", 0.5 + 0.2 * normal(hidden))
    put("pre_transformer.norm.weight", 1 + 0.1 * normal(hidden))
    matrix("pre_transformer.output_proj", latent, hidden, bias=True)

    for number, factor in enumerate(config.upsampling_ratios):
        name = f"upsample.{number}"
        convolution(f"{name}.0", latent, latent, factor, outputs=latent, gain=1.0)
        convolution(f"{name}.1.dwconv", latent, 1, 7, outputs=latent)
        put(f"{name}.1.norm.weight", 1 + 0.1 * normal(latent))
        put(f"{name}.1.norm.bias", 0.1 * normal(latent))
        matrix(f"{name}.1.pwconv1", 4 * latent, latent, bias=True)
        matrix(f"{name}.1.pwconv2", latent, 4 * latent, bias=True)
        put(f"{name}.1.gamma", 0.5 + 0.2 * normal(latent))

    channels = config.decoder_dim
    convolution("decoder.0", channels, latent, 7, outputs=channels)
    for number, stride in enumerate(config.upsample_rates, start=1):
        name, half = f"decoder.{number}.block", channels // 2
        snake(f"{name}.0", channels)
        convolution(f"{name}.1", channels, half, 2 * stride, outputs=half)
        for unit in (2, 3, 4):
            snake(f"{name}.{unit}.act1", half)
            snake(f"{name}.{unit}.act2", half)
            convolution(f"{name}.{unit}.conv1", half, half, 7, outputs=half)
            convolution(f"{name}.{unit}.conv2", half, half, 1, outputs=half)
        channels = half
    last = len(config.upsample_rates) + 1
    snake(f"decoder.{last}", channels)
    convolution(f"decoder.{last + 1}", 1, channels, 7, outputs=1, gain=LOUDNESS)
    return tensors


def random_codes(config: CodecConfig, rows: int, frames: int, *, seed: int = 0) -> Tensor:
    """Draw codes (rows, frames, groups)."""
    shape = (rows, frames, config.num_quantizers)
    codes = np.random.RandomState(seed).randint(config.codebook_size, size=shape)
    return torch.from_numpy(codes)
