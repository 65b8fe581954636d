"""The Code Predictor: from the Talker's hidden state and code 0, codes 1 to 15 of the frame.

Fifteen dependent passes over at most sixteen positions, so the input projection is folded into the
embedding tables and the cache is allocated once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.model.attention import FrameAttention, allocate_cache
from engine.model.config import PredictorConfig, TalkerConfig
from engine.model.layers import Decoder, load_decoder
from engine.model.tensors import TensorSource

# logits (rows, vocab) fp32, code group -> ids (rows,)
Choose: TypeAlias = Callable[[Tensor, int], Tensor]


@dataclass(frozen=True, slots=True)
class Projection:
    """Talker width → predictor width; the identity where they are equal."""

    weight: Tensor | None
    bias: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        """Project (…, talker hidden) to (…, predictor hidden)."""
        return x if self.weight is None else F.linear(x, self.weight, self.bias)


class Predictor:
    """Weights and the forward pass of a whole frame."""

    def __init__(
        self,
        decoder: Decoder,
        projection: Projection,
        tables: Sequence[Tensor],
        heads: Sequence[Tensor],
    ) -> None:
        """Fold the projection.

        Args:
            tables: talker-width embeddings of code groups 0 to 14.
            heads: (vocab, hidden) for code groups 1 to 15.
        """
        self.decoder = decoder
        self.projection = projection
        self.tables = [projection(table) for table in tables]
        self.heads = list(heads)
        self._cache = allocate_cache(decoder.config, 0, len(heads) + 1, decoder.norm)

    def frame(self, hidden: Tensor, code: Tensor, choose: Choose) -> Tensor:
        """Predict the other codes of one frame per row.

        Args:
            hidden: (rows, talker hidden), after the Talker's final norm, as code 0 was drawn from.
            code: (rows,) int64, code 0.
            choose: picks an id per row from fp32 logits.

        Returns: (rows, 15) int64, codes 1 to 15.
        """
        attend = self._attention(hidden.shape[0])
        first = torch.stack((self.projection(hidden), F.embedding(code, self.tables[0])), 1)
        x = self.decoder(first.flatten(0, 1), _pair(hidden), attend.at(1))[1::2]
        codes = [choose(F.linear(x, self.heads[0]).float(), 1)]
        for group in range(1, len(self.heads)):
            position = group + 1
            x = F.embedding(codes[-1], self.tables[group])
            x = self.decoder(x, slice(position, position + 1), attend.at(position))
            codes.append(choose(F.linear(x, self.heads[group]).float(), group + 1))
        return torch.stack(codes, 1)

    def _attention(self, rows: int) -> FrameAttention:
        if self._cache.keys.shape[1] < rows:
            norm, positions = self.decoder.norm, len(self.heads) + 1
            self._cache = allocate_cache(self.decoder.config, rows, positions, norm)
        return FrameAttention(self._cache, rows)


def _pair(hidden: Tensor) -> Tensor:
    """Positions of the first pass: 0 and 1 for every row."""
    return torch.arange(2, device=hidden.device).repeat(hidden.shape[0])


def load_predictor(
    tensors: TensorSource, config: PredictorConfig, talker: TalkerConfig, tables: Sequence[Tensor]
) -> Predictor:
    """Take the predictor's tensors; `tables` are the talker-width embeddings of groups 0 to 14."""
    prefix = "talker.code_predictor"
    groups = config.num_code_groups
    wide, hidden = talker.hidden_size, config.hidden_size
    projection = Projection(None, None)
    if wide != hidden:
        projection = Projection(
            tensors.take(f"{prefix}.small_to_mtp_projection.weight", hidden, wide),
            tensors.take(f"{prefix}.small_to_mtp_projection.bias", hidden),
        )
    return Predictor(
        load_decoder(tensors, f"{prefix}.model", config, positions=groups),
        projection,
        tables,
        [
            tensors.take(f"{prefix}.lm_head.{index}.weight", config.vocab_size, hidden)
            for index in range(groups - 1)
        ],
    )
