"""The decoder of `engine.model.layers` with kernels between the products, in static buffers.

The residual stream is changed in place; attention is a callable, as in the reference.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from engine.kernels.norm import rms_norm
from engine.kernels.tile_table import ADD, STORE, SWIGLU, Shape, Tile, tile_for
from engine.kernels.tiles import Scratch, product
from engine.model.config import DecoderConfig
from engine.model.layers import Decoder, Layer


class AttendFused(Protocol):
    """Attention of one launch over raw projections: heads are not yet normalised or rotated."""

    def __call__(self, index: int, layer: Layer, qkv: Tensor, out: Tensor) -> None:
        """Shapes: (rows, (heads + 2 * kv_heads) * head_dim) -> out (rows, heads * head_dim)."""


def supported(config: DecoderConfig) -> bool:
    """Whether the kernels can do this decoder: head widths are powers of two from 32 to 256."""
    return (
        config.head_dim in (32, 64, 128, 256)
        and config.num_attention_heads <= 16 * config.num_key_value_heads
    )


class FusedDecoder:
    """Runs every layer over `rows` rows in buffers of its own."""

    def __init__(self, decoder: Decoder, rows: int, *, tiled: bool = True) -> None:
        """Allocate.

        Args:
            tiled: use our product kernels where they were measured to be faster.
        """
        config, like = decoder.config, decoder.norm
        heads, keys = config.num_attention_heads, config.num_key_value_heads
        width, hidden, inner = config.head_dim, config.hidden_size, config.intermediate_size
        self.x = like.new_empty(rows, hidden)  # the residual stream
        self._normals = like.new_empty(rows, hidden)
        self._decoder = decoder
        self._tiled = tiled
        self._eps = config.rms_norm_eps
        self._qkv = like.new_empty(rows, (heads + 2 * keys) * width)
        self._mixed = like.new_empty(rows, heads * width)
        self._inner = like.new_empty(rows, inner)
        self._tiles = (
            self._tile((self._qkv.shape[1], hidden, STORE), rows),
            self._tile((hidden, heads * width, ADD), rows),
            self._tile((inner, hidden, SWIGLU), rows),
            self._tile((hidden, inner, ADD), rows),
        )
        split = any(tile and tile.splits > 1 for tile in self._tiles)
        self._scratch = Scratch.allocate(like.device) if split else None

    def layers(self, attend: AttendFused) -> None:
        """Run all layers over `x`, in place."""
        into_heads, out_of_heads, into_mlp, out_of_mlp = self._tiles
        scratch = self._scratch
        for index, layer in enumerate(self._decoder.layers):
            self._normalised(into_heads, self.x, layer.input_norm, layer.qkv, self._qkv, STORE)
            attend(index, layer, self._qkv, self._mixed)
            product(out_of_heads, self._mixed, layer.output, self.x, kind=ADD, scratch=scratch)
            self._normalised(into_mlp, self.x, layer.mlp_norm, layer.gate_up, self._inner, SWIGLU)
            product(out_of_mlp, self._inner, layer.down, self.x, kind=ADD, scratch=scratch)

    def finish(self, x: Tensor) -> Tensor:
        """Apply the final norm to some rows of `x`."""
        return self._normal(x, self._decoder.norm)

    def head(self, x: Tensor, head: Tensor, logits: Tensor) -> None:
        """Apply the final norm and a head (outputs, hidden) to some rows of `x`."""
        features, size = head.shape
        tile = self._tile((features, size, STORE), x.shape[0])
        self._normalised(tile, x, self._decoder.norm, head, logits, STORE)

    def _tile(self, shape: Shape, rows: int) -> Tile | None:
        return tile_for(shape, rows, self.x.dtype) if self._tiled else None

    def _normalised(
        self, tile: Tile | None, x: Tensor, norm: Tensor, weight: Tensor, out: Tensor, kind: int
    ) -> None:
        if tile is not None and tile.norm:
            product(tile, x, weight, out, kind=kind, norm=norm, eps=self._eps)
        else:
            product(tile, self._normal(x, norm), weight, out, kind=kind)

    def _normal(self, x: Tensor, norm: Tensor) -> Tensor:
        normal = self._normals[: x.shape[0]]
        rms_norm(x, norm, normal, eps=self._eps)
        return normal
