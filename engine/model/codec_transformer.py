"""The codec's sliding-window transformer: a frame sees itself and the `window - 1` before it.

What a layer remembers is its last `window - 1` keys (already rotated) and values.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from engine.model.codec_layers import Linear
from engine.model.codec_state import Tails
from engine.model.codec_weights import CodecWeights
from engine.model.config import CodecConfig


@dataclass(frozen=True, slots=True)
class Sight:
    """Who sees whom in this chunk, and under which angles; the same for all layers."""

    cosine: Tensor  # (frames * rows, 1, 1, head_dim / 2)
    sine: Tensor
    mask: Tensor  # (rows, 1, frames, window - 1 + frames): may the query see the key?


class Norm:
    """Divide by the root mean square."""

    def __init__(self, weights: CodecWeights, name: str, width: int, eps: float) -> None:
        self.weight = weights.keep(weights.take(f"{name}.weight", width))
        self.eps = eps

    def __call__(self, x: Tensor) -> Tensor:
        # By hand: PyTorch's own took three times as long for a single frame.
        return x * x.square().mean(-1, keepdim=True).add_(self.eps).rsqrt_() * self.weight


class Attention:
    """Attention over past and present frames."""

    def __init__(self, weights: CodecWeights, name: str, config: CodecConfig) -> None:
        hidden, width = config.hidden_size, config.num_attention_heads * config.head_dim
        inputs = [
            weights.take(f"{name}.self_attn.{each}_proj.weight", width, hidden) for each in "qkv"
        ]
        self.inputs = weights.keep(torch.cat(inputs).T)  # (hidden, 3 * width)
        scale = weights.take(f"{name}.self_attn_layer_scale.scale", hidden)
        output = weights.take(f"{name}.self_attn.o_proj.weight", hidden, width)
        self.output = weights.keep((output * scale[:, None]).T)
        self.heads = (config.num_attention_heads, config.head_dim)
        self.history = config.sliding_window - 1  # frames

    def __call__(self, x: Tensor, sight: Sight, tails: Tails) -> Tensor:
        inputs = torch.mm(x, self.inputs).view(len(x), 3, *self.heads)
        turned = _rotate(inputs[:, :2], sight)  # (frames * rows, query and key, heads, head_dim)
        memory = torch.cat([turned[:, 1:], inputs[:, 2:]], 1).flatten(1)
        memory = tails.join(memory, self.history).view(-1, tails.rows, 2, *self.heads)
        query = turned[:, 0].unflatten(0, (-1, tails.rows)).permute(1, 2, 0, 3)
        key, value = memory.permute(2, 1, 3, 0, 4)  # (rows, heads, history + frames, head_dim)
        mixed = functional.scaled_dot_product_attention(query, key, value, sight.mask)
        return torch.mm(mixed.permute(2, 0, 1, 3).reshape(len(x), -1), self.output)


class Perceptron:
    """The gated feed-forward half of a layer."""

    def __init__(self, weights: CodecWeights, name: str, config: CodecConfig) -> None:
        hidden, inner = config.hidden_size, config.intermediate_size
        inputs = [
            weights.take(f"{name}.mlp.{each}_proj.weight", inner, hidden) for each in ("gate", "up")
        ]
        self.inputs = weights.keep(torch.cat(inputs).T)  # (hidden, 2 * inner)
        scale = weights.take(f"{name}.mlp_layer_scale.scale", hidden)
        output = weights.take(f"{name}.mlp.down_proj.weight", hidden, inner)
        self.output = weights.keep((output * scale[:, None]).T)

    def __call__(self, x: Tensor) -> Tensor:
        gate, up = torch.mm(x, self.inputs).chunk(2, -1)
        return torch.mm(functional.silu(gate).mul_(up), self.output)


class Layer:
    """Attention and perceptron, each normalised before and added after."""

    def __init__(self, weights: CodecWeights, name: str, config: CodecConfig) -> None:
        width, eps = config.hidden_size, config.rms_norm_eps
        self.attention_norm = Norm(weights, f"{name}.input_layernorm", width, eps)
        self.attention = Attention(weights, name, config)
        self.perceptron_norm = Norm(weights, f"{name}.post_attention_layernorm", width, eps)
        self.perceptron = Perceptron(weights, name, config)

    def __call__(self, x: Tensor, sight: Sight, tails: Tails) -> Tensor:
        x = x + self.attention(self.attention_norm(x), sight, tails)
        return x + self.perceptron(self.perceptron_norm(x))


class Transformer:
    """Latent frames in, latent frames out."""

    def __init__(self, weights: CodecWeights, name: str, config: CodecConfig) -> None:
        hidden, latent = config.hidden_size, config.latent_dim
        self.input = Linear.load(weights, f"{name}.input_proj", latent, hidden)
        self.layers = [
            Layer(weights, f"{name}.layers.{number}", config)
            for number in range(config.num_hidden_layers)
        ]
        self.norm = Norm(weights, f"{name}.norm", hidden, config.rms_norm_eps)
        self.output = Linear.load(weights, f"{name}.output_proj", hidden, latent)
        self.window = config.sliding_window
        exponents = torch.arange(0, config.head_dim, 2, dtype=torch.float64) / config.head_dim
        device = self.input.bias.device
        self.frequencies = (config.rope_theta**-exponents).to(device)  # (head_dim / 2,)

    def __call__(self, x: Tensor, tails: Tails) -> Tensor:
        x = self.input(x)
        sight = self._sight(tails.positions, x)
        for layer in self.layers:
            x = layer(x, sight, tails)
        return self.output(self.norm(x))

    def _sight(self, positions: Tensor, x: Tensor) -> Sight:
        frames, history = len(x) // len(positions), self.window - 1
        query = torch.arange(frames, device=x.device)
        key = torch.arange(history + frames, device=x.device)
        # fp64, because an fp32 angle is the coarser the later the frame.
        angles = (positions + query[:, None]).view(-1, 1, 1, 1) * self.frequencies
        ahead = key - query[:, None]  # (frames, keys); the query itself stands at `history`
        near = (ahead >= 0) & (ahead <= history)
        known = key >= history - positions[:, None]  # (rows, keys): not before the first frame
        mask = (near & known[:, None])[:, None]
        return Sight(angles.cos().to(x.dtype), angles.sin().to(x.dtype), mask)


def _rotate(x: Tensor, sight: Sight) -> Tensor:
    """Turn each half-split pair of x (frames * rows, …, head_dim) by its frame's angle."""
    first, second = x.chunk(2, -1)
    cosine, sine = sight.cosine, sight.sine
    turned = [(first * cosine).sub_(second * sine), (second * cosine).add_(first * sine)]
    return torch.cat(turned, -1)
