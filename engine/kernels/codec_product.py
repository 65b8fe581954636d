"""What a product of the codec is made of, and what it computes, in plain words."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional


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

    def of(self, x: Tensor) -> Tensor:
        """Compute it in fp64. Shapes: x (…, n * channels)."""
        channels = x.unflatten(-1, (-1, len(self.gain)))
        waved = channels + (channels * self.frequency).sin().square() * self.gain
        return waved.flatten(-2)


@dataclass(frozen=True, slots=True)
class Mix:
    """A second layer right behind a convolution: what a residual unit does in its middle."""

    wave: Wave  # applied before
    product: Product  # of one tap


def reference(
    x: Tensor,
    product: Product,
    *,
    length: int,
    residual: Tensor | None,
    wave: Wave | None,
    mix: Mix | None = None,
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
        total = functional.silu(total[..., 0::2]) * total[..., 1::2]
    if mix:
        total = functional.linear(mix.wave.of(total), mix.product.weight.double())
        total = total if mix.product.bias is None else total + mix.product.bias
    if residual is not None:
        total = total + residual.reshape(total.shape)
    if wave is None:
        return total, functional.gelu(total)
    return total, wave.of(total)
