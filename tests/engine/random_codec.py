"""Random weights of a codec decoder in the official layout, alive enough not to hide mistakes.

Scales keep the waveform inside [-1, 1]: a clipped network is chaotic and magnifies rounding.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

CODES = 300
GROUPS = 16

Shapes: TypeAlias = Iterator[tuple[str, tuple[int, ...], str]]  # name, shape, kind of tensor

VOICE = Path(__file__).resolve().parents[2] / "engine" / "voices" / "tiny"

RATES = {
    "encoder_valid_num_quantizers": 16,
    "input_sample_rate": 24000,
    "decode_upsample_rate": 1920,
    "encode_downsample_rate": 1920,
}

DECODER: dict[str, Any] = {
    "codebook_size": CODES,
    "codebook_dim": 32,
    "latent_dim": 48,
    "hidden_size": 40,
    "intermediate_size": 56,
    "head_dim": 16,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "num_hidden_layers": 3,
    "num_quantizers": GROUPS,
    "num_semantic_quantizers": 1,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000,
    "sliding_window": 9,
    "upsample_rates": [8, 5, 4, 3],
    "upsampling_ratios": [2, 2],
    "decoder_dim": 64,
    "max_position_embeddings": 8000,
    "attention_bias": False,
    "attention_dropout": 0.0,
    "layer_scale_initial_scale": 0.01,
    "hidden_act": "silu",
}

# The official package builds an encoder too; speaking never uses it.
ENCODER = {
    "hidden_size": 16,
    "num_filters": 4,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 16,
    "codebook_size": 8,
    "codebook_dim": 8,
    "vector_quantization_hidden_dimension": 8,
    "num_quantizers": 16,
    "upsample_groups": 16,
    "sampling_rate": 24000,
    "frame_rate": 12.5,
    "_frame_rate": 12.5,
    "num_semantic_quantizers": 1,
}


def write(folder: Path, random: np.random.RandomState) -> None:
    """Write `speech_tokenizer` into an existing folder."""
    save_file(fill(_shapes(DECODER), random, torch.float32), folder / "model.safetensors")
    config = {
        "architectures": ["Qwen3TTSTokenizerV2Model"],
        "model_type": "qwen3_tts_tokenizer_12hz",
        "output_sample_rate": 24000,
        **RATES,
        "decoder_config": DECODER,
        "encoder_config": ENCODER,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    name = "preprocessor_config.json"
    shutil.copyfile(VOICE / "speech_tokenizer" / name, folder / name)


def fill(shapes: Shapes, random: np.random.RandomState, dtype: torch.dtype) -> dict[str, Tensor]:
    """Draw every tensor, in order."""
    return {name: _draw(shape, kind, random).to(dtype) for name, shape, kind in shapes}


def _draw(shape: tuple[int, ...], kind: str, random: np.random.RandomState) -> Tensor:
    normal = torch.from_numpy(random.standard_normal(shape).astype(np.float32))
    fan_in = normal[0].numel()
    match kind:
        case "norm":
            return 1 + 0.1 * normal
        case "bias":
            return 0.05 * normal
        case "linear":
            return 1.5 * fan_in**-0.5 * normal
        case "convolution":
            return 0.6 * fan_in**-0.5 * normal
        case "scale":
            return 0.5 + 0.2 * normal
        case "snake":
            return 0.3 * normal
        case "usage":
            return 0.5 + normal.abs()
        case "table":
            return normal
    raise AssertionError(kind)


def _shapes(config: dict[str, Any]) -> Shapes:
    dim, latent, hidden = config["codebook_dim"], config["latent_dim"], config["hidden_size"]
    entry = (config["codebook_size"], dim // 2)
    for part, count in (("first", 1), ("rest", GROUPS - 1)):
        vector = f"decoder.quantizer.rvq_{part}"
        for index in range(count):
            book = f"{vector}.vq.layers.{index}._codebook"
            yield f"{book}.embedding_sum", entry, "table"
            yield f"{book}.cluster_usage", entry[:1], "usage"
        yield f"{vector}.input_proj.weight", (dim // 2, dim, 1), "linear"
        yield f"{vector}.output_proj.weight", (dim, dim // 2, 1), "linear"
    yield from _convolution("decoder.pre_conv.conv", (latent, dim, 3), latent)
    yield from _transformer("decoder.pre_transformer", config, latent, hidden)
    for index, ratio in enumerate(config["upsampling_ratios"]):
        up = f"decoder.upsample.{index}"
        yield from _convolution(f"{up}.0.conv", (latent, latent, ratio), latent)
        yield f"{up}.1.gamma", (latent,), "scale"
        yield from _convolution(f"{up}.1.dwconv.conv", (latent, 1, 7), latent)
        yield f"{up}.1.norm.weight", (latent,), "norm"
        yield f"{up}.1.norm.bias", (latent,), "bias"
        yield from _linear(f"{up}.1.pwconv1", 4 * latent, latent)
        yield from _linear(f"{up}.1.pwconv2", latent, 4 * latent)
    yield from _upsampler("decoder.decoder", config, latent)


def _transformer(prefix: str, config: dict[str, Any], latent: int, hidden: int) -> Shapes:
    inner, width = config["intermediate_size"], config["num_attention_heads"] * config["head_dim"]
    yield from _linear(f"{prefix}.input_proj", hidden, latent)
    yield from _linear(f"{prefix}.output_proj", latent, hidden)
    yield f"{prefix}.norm.weight", (hidden,), "norm"
    for index in range(config["num_hidden_layers"]):
        layer = f"{prefix}.layers.{index}"
        for name in ("q", "k", "v"):
            yield f"{layer}.self_attn.{name}_proj.weight", (width, hidden), "linear"
        yield f"{layer}.self_attn.o_proj.weight", (hidden, width), "linear"
        yield f"{layer}.mlp.gate_proj.weight", (inner, hidden), "linear"
        yield f"{layer}.mlp.up_proj.weight", (inner, hidden), "linear"
        yield f"{layer}.mlp.down_proj.weight", (hidden, inner), "linear"
        yield f"{layer}.input_layernorm.weight", (hidden,), "norm"
        yield f"{layer}.post_attention_layernorm.weight", (hidden,), "norm"
        yield f"{layer}.self_attn_layer_scale.scale", (hidden,), "scale"
        yield f"{layer}.mlp_layer_scale.scale", (hidden,), "scale"


def _upsampler(prefix: str, config: dict[str, Any], latent: int) -> Shapes:
    channels = config["decoder_dim"]
    yield from _convolution(f"{prefix}.0.conv", (channels, latent, 7), channels)
    for index, rate in enumerate(config["upsample_rates"], start=1):
        block = f"{prefix}.{index}.block"
        yield from _snake(f"{block}.0", channels)
        half = channels // 2
        yield from _convolution(f"{block}.1.conv", (channels, half, 2 * rate), half)
        channels = half
        for unit in (2, 3, 4):
            yield from _snake(f"{block}.{unit}.act1", channels)
            yield from _convolution(f"{block}.{unit}.conv1.conv", (channels, channels, 7), channels)
            yield from _snake(f"{block}.{unit}.act2", channels)
            yield from _convolution(f"{block}.{unit}.conv2.conv", (channels, channels, 1), channels)
    last = len(config["upsample_rates"]) + 1
    yield from _snake(f"{prefix}.{last}", channels)
    yield from _convolution(f"{prefix}.{last + 1}.conv", (1, channels, 7), 1)


def _linear(name: str, out: int, into: int) -> Shapes:
    yield f"{name}.weight", (out, into), "linear"
    yield f"{name}.bias", (out,), "bias"


def _convolution(name: str, shape: tuple[int, ...], out: int) -> Shapes:
    yield f"{name}.weight", shape, "convolution"
    yield f"{name}.bias", (out,), "bias"


def _snake(name: str, channels: int) -> Shapes:
    yield f"{name}.alpha", (channels,), "snake"
    yield f"{name}.beta", (channels,), "snake"
