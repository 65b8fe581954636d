"""The Qwen3 decoder that the Talker and the Code Predictor share, over flat rows of tokens.

Weights are data: a dataclass of tensors per layer, projections that share an input fused into one.
What differs between prefill, decode and a predictor's frame is how attention sees the past: the
`attend` callable. Rounding points are the official ones: they decide how bfloat16 drifts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.model.config import DecoderConfig
from engine.model.tensors import TensorSource


class Attend(Protocol):
    """Attention of one launch: stores the new keys and values, then reads the past."""

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Shapes: (N, heads, head_dim), twice (N, kv_heads, head_dim) -> (N, heads * head_dim)."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One decoder layer's weights."""

    input_norm: Tensor  # (hidden,)
    qkv: Tensor  # ((heads + 2 * kv_heads) * head_dim, hidden)
    qk_norm: Tensor  # (heads + kv_heads, head_dim): the query's weight per head, then the key's
    output: Tensor  # (hidden, heads * head_dim)
    mlp_norm: Tensor  # (hidden,)
    gate_up: Tensor  # (2 * intermediate, hidden)
    down: Tensor  # (hidden, intermediate)


@dataclass(frozen=True, slots=True)
class Decoder:
    """A stack of layers and the final norm."""

    config: DecoderConfig
    layers: Sequence[Layer]
    norm: Tensor  # (hidden,)
    rope: Rope

    def __call__(self, x: Tensor, positions: Tensor | slice, attend: Attend) -> Tensor:
        """Run every layer over N tokens and normalise.

        Args:
            x: (N, hidden).
            positions: (N,) int64, or a slice of consecutive positions.
        """
        config = self.config
        cosine, sine = self.rope.at(positions)
        heads, keys = config.num_attention_heads, config.num_key_value_heads
        for index, layer in enumerate(self.layers):
            normal = rms_norm(x, layer.input_norm, config.rms_norm_eps)
            qkv = F.linear(normal, layer.qkv).view(-1, heads + 2 * keys, config.head_dim)
            qk, value = qkv.split((heads + keys, keys), 1)
            qk = rotate(rms_norm(qk, layer.qk_norm, config.rms_norm_eps), cosine, sine)
            query, key = qk.split((heads, keys), 1)
            x = x + F.linear(attend(index, query, key, value), layer.output)
            normal = rms_norm(x, layer.mlp_norm, config.rms_norm_eps)
            gate, up = F.linear(normal, layer.gate_up).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, layer.down)
        return rms_norm(x, self.norm, config.rms_norm_eps)


class Rope:
    """Cosines and signed sines of every position: angles in fp32, then rounded to the dtype.

    The checkpoints' interleaved three-axis variant has equal axes here, which makes it plain RoPE.
    """

    def __init__(self, config: DecoderConfig, positions: int, like: Tensor) -> None:
        exponents = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
        angles = torch.outer(
            torch.arange(positions, dtype=torch.float32), config.rope_theta**-exponents
        )
        cosine, sine = angles.cos(), angles.sin()
        self.cosine = torch.cat((cosine, cosine), -1)[:, None].to(like)  # (positions, 1, head_dim)
        self.sine = torch.cat((-sine, sine), -1)[:, None].to(like)

    def at(self, positions: Tensor | slice) -> tuple[Tensor, Tensor]:
        """Rows of `positions`, shaped to broadcast over heads."""
        return self.cosine[positions], self.sine[positions]


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Normalise in fp32, round to the dtype of `x`, then multiply: bfloat16 sees the order."""
    wide = x.float()
    scale = wide.square().mean(-1, keepdim=True).add_(eps).rsqrt_()
    return (wide * scale).to(x.dtype) * weight


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotate halves by the position's angle; the sign of the swap is in `sine`."""
    return x * cosine + x.roll(x.shape[-1] // 2, -1) * sine


def load_decoder(
    tensors: TensorSource, prefix: str, config: DecoderConfig, *, positions: int
) -> Decoder:
    """Take the decoder's tensors under `prefix`, able to address `positions` positions."""
    layers = [
        _load_layer(tensors, f"{prefix}.layers.{index}", config)
        for index in range(config.num_hidden_layers)
    ]
    norm = tensors.take(f"{prefix}.norm.weight", config.hidden_size)
    return Decoder(config, layers, norm, Rope(config, positions, norm))


def _load_layer(tensors: TensorSource, prefix: str, config: DecoderConfig) -> Layer:
    hidden, inner, width = config.hidden_size, config.intermediate_size, config.head_dim
    heads, keys = config.num_attention_heads, config.num_key_value_heads
    attention, mlp = f"{prefix}.self_attn", f"{prefix}.mlp"
    query_norm = tensors.take(f"{attention}.q_norm.weight", width)
    key_norm = tensors.take(f"{attention}.k_norm.weight", width)
    return Layer(
        input_norm=tensors.take(f"{prefix}.input_layernorm.weight", hidden),
        qkv=torch.cat(
            (
                tensors.take(f"{attention}.q_proj.weight", heads * width, hidden),
                tensors.take(f"{attention}.k_proj.weight", keys * width, hidden),
                tensors.take(f"{attention}.v_proj.weight", keys * width, hidden),
            )
        ),
        qk_norm=torch.cat((query_norm.expand(heads, width), key_norm.expand(keys, width))),
        output=tensors.take(f"{attention}.o_proj.weight", hidden, heads * width),
        mlp_norm=tensors.take(f"{prefix}.post_attention_layernorm.weight", hidden),
        gate_up=torch.cat(
            (
                tensors.take(f"{mlp}.gate_proj.weight", inner, hidden),
                tensors.take(f"{mlp}.up_proj.weight", inner, hidden),
            )
        ),
        down=tensors.take(f"{mlp}.down_proj.weight", hidden, inner),
    )
