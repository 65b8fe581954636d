"""How a launch sees the past: whole prompts, one step of many slots, one frame of the predictor.

Each class is an `Attend` of `engine.model.layers`; all read keys as
(rows, kv_heads, positions, head_dim).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.model.config import DecoderConfig


@dataclass(frozen=True, slots=True)
class KeyValueCache:
    """Rotated keys and values of every slot."""

    keys: Tensor  # (layers, slots, kv_heads, positions, head_dim)
    values: Tensor  # the same

    @property
    def positions(self) -> int:
        """How many positions a slot can hold."""
        return self.keys.shape[3]


def allocate_cache(
    config: DecoderConfig, slots: int, positions: int, like: Tensor
) -> KeyValueCache:
    """Make an empty cache with the dtype and device of `like`."""
    shape = (
        config.num_hidden_layers,
        slots,
        config.num_key_value_heads,
        positions,
        config.head_dim,
    )
    return KeyValueCache(like.new_zeros(shape), like.new_zeros(shape))


class PromptAttention:
    """Causal attention inside right-padded prompts; the cache receives every row's keys and values.

    Padding writes past a prompt's end, where the first decode steps write before anyone reads.
    """

    def __init__(self, cache: KeyValueCache, slots: Tensor, length: int) -> None:
        self._cache = cache
        self._slots = slots  # (rows,) int64
        self._shape = (slots.shape[0], length)

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        rows, length = self._shape
        query, key, value = (
            each.unflatten(0, self._shape).transpose(1, 2) for each in (query, key, value)
        )  # (rows, heads, length, head_dim)
        self._cache.keys[layer, self._slots, :, :length] = key
        self._cache.values[layer, self._slots, :, :length] = value
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        return mixed.transpose(1, 2).reshape(rows * length, -1)


class StepAttention:
    """One new token for each of some slots, whose pasts differ in length."""

    def __init__(
        self, cache: KeyValueCache, slots: Sequence[int], positions: Sequence[int]
    ) -> None:
        device = cache.keys.device
        self._cache = cache
        self._slots = torch.tensor(slots, device=device)
        self._positions = torch.tensor(positions, device=device)
        self._length = max(positions) + 1
        self._mask: Tensor | None = None
        if min(positions) < max(positions):
            reach = torch.arange(self._length, device=device)
            self._mask = (reach <= self._positions[:, None])[:, None, None]  # (rows, 1, 1, length)
        first = slots[0]
        consecutive = list(slots) == list(range(first, first + len(slots)))
        self._window = slice(first, first + len(slots)) if consecutive else None

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        keys, values = self._cache.keys[layer], self._cache.values[layer]
        keys[self._slots, :, self._positions] = key
        values[self._slots, :, self._positions] = value
        return grouped_attention(query, self._past(keys), self._past(values), self._mask)

    def _past(self, stored: Tensor) -> Tensor:
        reached = stored[:, :, : self._length]
        if self._window is not None:
            return reached[self._window]  # a view: nothing is copied
        return reached.index_select(0, self._slots)


class FrameAttention:
    """The Code Predictor's few positions inside one frame, all rows at the same one."""

    def __init__(self, cache: KeyValueCache, rows: int) -> None:
        self._keys = [layer[:rows] for layer in cache.keys]
        self._values = [layer[:rows] for layer in cache.values]
        self._position = 0

    def at(self, position: int) -> FrameAttention:
        """Stand at `position`; position 1 also brings position 0 (two tokens a row)."""
        self._position = position
        return self

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        keys, values = self._keys[layer], self._values[layer]
        if self._position == 1:
            return self._first(keys, values, query, key, value)
        keys[:, :, self._position] = key
        values[:, :, self._position] = value
        end = self._position + 1
        return grouped_attention(query, keys[:, :, :end], values[:, :, :end], None)

    def _first(
        self, keys: Tensor, values: Tensor, query: Tensor, key: Tensor, value: Tensor
    ) -> Tensor:
        query, key, value = (
            each.unflatten(0, (-1, 2)).transpose(1, 2) for each in (query, key, value)
        )  # (rows, heads, 2, head_dim)
        keys[:, :, :2] = key
        values[:, :, :2] = value
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        return mixed.transpose(1, 2).flatten(2).flatten(0, 1)


def grouped_attention(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """Attend with one query per row: the heads that share keys become its "positions".

    Shapes: (rows, heads, head_dim), twice (rows, kv_heads, length, head_dim) ->
    (rows, heads * head_dim).
    """
    rows, kv_heads, _, width = keys.shape
    grouped = query.view(rows, kv_heads, -1, width)
    mixed = F.scaled_dot_product_attention(grouped, keys, values, attn_mask=mask)
    return mixed.reshape(rows, -1)
