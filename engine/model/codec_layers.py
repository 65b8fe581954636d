"""The codec's convolutional layers, made for inference: tensors (time * rows, channels).

With time outermost, joining chunks is one copy, a tap of a convolution is one matrix product over
all rows, and the linear layers need no transposition. Scales are folded into weights. A layer is a
callable; one that looks back also takes the chunk's `Tails`. `name` arguments are the checkpoint's.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from engine.model.codec_state import Tails
from engine.model.codec_weights import CodecWeights

DILATIONS = (1, 3, 9)  # of a block's residual units
KERNEL = 7  # taps of every convolution but `pre_conv`
LAYER_NORM_EPS = 1e-6
SNAKE_EPS = 1e-9


class Linear:
    """A matrix and a bias."""

    def __init__(self, weights: CodecWeights, weight: Tensor, bias: Tensor) -> None:
        self.weight = weights.keep(weight.T)  # (in, out)
        self.bias = weights.keep(bias)

    @classmethod
    def load(cls, weights: CodecWeights, name: str, inputs: int, outputs: int) -> Linear:
        """Take `name`."""
        weight = weights.take(f"{name}.weight", outputs, inputs)
        return cls(weights, weight, weights.take(f"{name}.bias", outputs))

    def __call__(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, x, self.weight)


class Convolution:
    """A causal convolution: output t sees inputs t - (taps - 1) * dilation … t.

    One matrix product a tap, summed in place. For one to four frames that beats a convolution call,
    whose fast kernels PyTorch does not choose for images this small.
    """

    def __init__(
        self, weights: CodecWeights, weight: Tensor, bias: Tensor, *, dilation: int = 1
    ) -> None:
        self.taps = [weights.keep(tap.T) for tap in weight.unbind(2)]  # (in, out) each
        self.bias = weights.keep(bias)
        self.dilation = dilation

    @classmethod
    def load(
        cls, weights: CodecWeights, name: str, shape: tuple[int, int, int], *, dilation: int = 1
    ) -> Convolution:
        """Take `name`.conv; shape (out, in, taps)."""
        weight = weights.take(f"{name}.conv.weight", *shape)
        bias = weights.take(f"{name}.conv.bias", shape[0])
        return cls(weights, weight, bias, dilation=dilation)

    def __call__(self, x: Tensor, tails: Tails) -> Tensor:
        first, *others = tails.windows(x, len(self.taps), self.dilation)
        total = torch.addmm(self.bias, first, self.taps[0])
        for window, tap in zip(others, self.taps[1:], strict=True):
            total.addmm_(window, tap)
        return total


class Depthwise:
    """A causal convolution of each channel by itself."""

    def __init__(self, weights: CodecWeights, name: str, channels: int) -> None:
        weight = weights.take(f"{name}.conv.weight", channels, 1, KERNEL)
        self.weight = weights.keep(weight.permute(2, 1, 0))  # (taps, 1, channels)
        self.bias = weights.keep(weights.take(f"{name}.conv.bias", channels))

    def __call__(self, x: Tensor, tails: Tails) -> Tensor:
        windows = tails.windows(x, KERNEL, 1)
        return (windows * self.weight).sum(0).add_(self.bias)


class Stretch:
    """A transposed convolution with as many taps as its stride: each column becomes `factor`."""

    def __init__(self, weights: CodecWeights, name: str, channels: int, factor: int) -> None:
        weight = weights.take(f"{name}.conv.weight", channels, channels, factor)  # (in, out, taps)
        bias = weights.take(f"{name}.conv.bias", channels)
        self.linear = Linear(weights, weight.permute(2, 1, 0).flatten(0, 1), bias.repeat(factor))
        self.factor = factor

    def __call__(self, x: Tensor, tails: Tails) -> Tensor:
        return _interleave(self.linear(x), self.factor, tails)


class Upsampling:
    """A transposed convolution with twice as many taps as its stride, trimmed on the right.

    Output phase r of column t is tap r of column t plus tap r + stride of column t - 1: an ordinary
    convolution of two taps with `stride` times the channels. So it looks back one column of input,
    and there is no overlap to add.
    """

    def __init__(
        self, weights: CodecWeights, name: str, channels: tuple[int, int], stride: int
    ) -> None:
        weight = weights.take(f"{name}.conv.weight", *channels, 2 * stride)
        bias = weights.take(f"{name}.conv.bias", channels[1])
        late, early = weight[:, :, stride:], weight[:, :, :stride]  # (in, out, stride)
        taps = [tap.permute(2, 1, 0).flatten(0, 1) for tap in (late, early)]
        self.convolution = Convolution(weights, torch.stack(taps, 2), bias.repeat(stride))
        self.stride = stride

    def __call__(self, x: Tensor, tails: Tails) -> Tensor:
        return _interleave(self.convolution(x, tails), self.stride, tails)


class Snake:
    """x + sin(x * e^alpha)^2 / e^beta, for each channel."""

    def __init__(self, weights: CodecWeights, name: str, channels: int) -> None:
        # In half precision these exponentials have made other engines silent or NaN.
        self.frequency = weights.keep(weights.take(f"{name}.alpha", channels).exp())
        self.gain = weights.keep(1 / (weights.take(f"{name}.beta", channels).exp() + SNAKE_EPS))

    def __call__(self, x: Tensor) -> Tensor:
        wave = (x * self.frequency).sin_().square_()
        return torch.addcmul(x, wave, self.gain)


class ResidualUnit:
    """Two activated convolutions beside the identity."""

    def __init__(self, weights: CodecWeights, name: str, channels: int, dilation: int) -> None:
        self.before = Snake(weights, f"{name}.act1", channels)
        self.wide = Convolution.load(
            weights, f"{name}.conv1", (channels, channels, KERNEL), dilation=dilation
        )
        self.between = Snake(weights, f"{name}.act2", channels)
        weight = weights.take(f"{name}.conv2.conv.weight", channels, channels, 1)
        bias = weights.take(f"{name}.conv2.conv.bias", channels)
        self.mix = Linear(weights, weight.squeeze(2), bias)

    def __call__(self, x: Tensor, tails: Tails) -> Tensor:
        return self.mix(self.between(self.wide(self.before(x), tails))).add_(x)


class Block:
    """Upsample by `stride`, halve the channels, refine."""

    def __init__(self, weights: CodecWeights, name: str, channels: int, stride: int) -> None:
        half = channels // 2
        self.activation = Snake(weights, f"{name}.block.0", channels)
        self.upsampling = Upsampling(weights, f"{name}.block.1", (channels, half), stride)
        self.units = [
            ResidualUnit(weights, f"{name}.block.{number}", half, dilation)
            for number, dilation in enumerate(DILATIONS, start=2)
        ]

    def __call__(self, x: Tensor, tails: Tails) -> Tensor:
        x = self.upsampling(self.activation(x), tails)
        for unit in self.units:
            x = unit(x, tails)
        return x


class ConvNext:
    """A depthwise convolution and a two-layer perceptron beside the identity."""

    def __init__(self, weights: CodecWeights, name: str, channels: int) -> None:
        wide = 4 * channels
        self.depthwise = Depthwise(weights, f"{name}.dwconv", channels)
        self.norm_weight = weights.keep(weights.take(f"{name}.norm.weight", channels))
        self.norm_bias = weights.keep(weights.take(f"{name}.norm.bias", channels))
        self.expand = Linear.load(weights, f"{name}.pwconv1", channels, wide)
        scale = weights.take(f"{name}.gamma", channels)  # folded into the second layer
        self.contract = Linear(
            weights,
            weights.take(f"{name}.pwconv2.weight", channels, wide) * scale[:, None],
            weights.take(f"{name}.pwconv2.bias", channels) * scale,
        )

    def __call__(self, x: Tensor, tails: Tails) -> Tensor:
        inner = self.depthwise(x, tails)
        inner = functional.layer_norm(
            inner, inner.shape[-1:], self.norm_weight, self.norm_bias, LAYER_NORM_EPS
        )
        return self.contract(functional.gelu(self.expand(inner))).add_(x)


def _interleave(x: Tensor, factor: int, tails: Tails) -> Tensor:
    """Turn channel groups into columns: (time * rows, factor * c) -> (time * factor * rows, c)."""
    grouped = x.view(-1, tails.rows, factor, x.shape[1] // factor)
    return grouped.transpose(1, 2).flatten(0, 2)
