"""The Talker: a prompt and the frames so far → the hidden state and logits of the next code 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.model.attention import KeyValueCache, PromptAttention, StepAttention
from engine.model.config import TalkerConfig
from engine.model.layers import Decoder, load_decoder
from engine.model.tensors import TensorSource
from engine.prompt import Prompt

FOLDED_VOCABULARY = 16_384  # text ids up to which projecting all of them at load costs nothing


@dataclass(frozen=True, slots=True)
class TextProjection:
    """Two linears with SiLU between: text width → Talker width."""

    weight1: Tensor
    bias1: Tensor
    weight2: Tensor
    bias2: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Project (…, text hidden) to (…, hidden)."""
        return F.linear(F.silu(F.linear(x, self.weight1, self.bias1)), self.weight2, self.bias2)


class Talker:
    """Weights, embeddings and the two forward passes."""

    def __init__(
        self,
        config: TalkerConfig,
        decoder: Decoder,
        *,
        text_table: Tensor,
        projection: TextProjection,
        code_table: Tensor,
        head: Tensor,
    ) -> None:
        """Hold the weights.

        Args:
            text_table: (text vocabulary, text hidden).
            code_table: (vocabulary + 15 * codes, hidden): the Talker's own table, then the
                predictor's 15, so that a whole frame is one lookup.
            head: (vocabulary, hidden).
        """
        self.config = config
        self.head = head
        self.decoder = decoder
        self._project = projection
        self.text_table = text_table
        self._folded = text_table.is_cuda or config.text_vocab_size <= FOLDED_VOCABULARY
        if self._folded:  # a pure function of the id
            self.text_table = torch.cat([projection(part) for part in text_table.split(8192)])
        self.code_table = code_table
        groups = torch.arange(config.num_code_groups - 1, device=head.device)
        self._offsets = F.pad(groups * config.codes + config.vocab_size, (1, 0))  # (16,)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.head.device

    @property
    def like(self) -> Tensor:
        """A tensor with the device and dtype of all activations."""
        return self.head

    def code_tables(self) -> list[Tensor]:
        """Talker-width embeddings of code groups 0 to 15."""
        config = self.config
        sizes = [config.vocab_size] + [config.codes] * (config.num_code_groups - 1)
        return list(self.code_table.split(sizes))

    def text(self, ids: Tensor) -> Tensor:
        """Embed text ids: (…) int64 -> (…, hidden)."""
        rows = F.embedding(ids, self.text_table)
        return rows if self._folded else self._project(rows)

    def prompt(self, prompt: Prompt) -> Tensor:
        """Embed a prompt: (rows, hidden)."""
        rows = self.text(torch.tensor(prompt.text, device=self.device))
        codes = torch.tensor(prompt.codes, device=self.device)
        rows[-len(codes) :] += F.embedding(codes, self.code_table)
        return rows

    def frames(self, codes: Tensor, text: Tensor) -> Tensor:
        """Embed finished frames and the text that comes with the next: the input of a step.

        Args:
            codes: (rows, 16) int64.
            text: (rows,) int64 text ids.
        """
        return F.embedding(codes + self._offsets, self.code_table).sum(1) + self.text(text)

    def prefill(
        self, prompts: Sequence[Tensor], cache: KeyValueCache, slots: Sequence[int]
    ) -> Tensor:
        """Run whole prompts into their slots.

        Args:
            prompts: one (rows, hidden) each, of any lengths.

        Returns: (prompts, hidden), the last row of each after the final norm.
        """
        lengths = torch.tensor([len(prompt) for prompt in prompts], device=self.device)
        padded = torch.nn.utils.rnn.pad_sequence(list(prompts), batch_first=True)
        count, length = padded.shape[:2]
        attend = PromptAttention(cache, torch.tensor(slots, device=self.device), length)
        positions = torch.arange(length, device=self.device).repeat(count)
        hidden = self.decoder(padded.flatten(0, 1), positions, attend).view(count, length, -1)
        return hidden[torch.arange(count, device=self.device), lengths - 1]

    def step(
        self, x: Tensor, cache: KeyValueCache, slots: Sequence[int], positions: Sequence[int]
    ) -> Tensor:
        """Advance some slots by one token each.

        Shapes: (rows, hidden) -> (rows, hidden), after the final norm.
        """
        attend = StepAttention(cache, slots, positions)
        return self.decoder(x, torch.tensor(positions, device=self.device), attend)

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits of code 0: (rows, hidden) -> (rows, vocabulary) fp32."""
        return F.linear(hidden, self.head).float()


def load_talker(tensors: TensorSource, config: TalkerConfig, *, positions: int) -> Talker:
    """Take the Talker's tensors and the predictor's embedding tables, which have its width."""
    hidden, wide = config.hidden_size, config.text_hidden_size
    tables = [tensors.take("talker.model.codec_embedding.weight", config.vocab_size, hidden)]
    for group in range(config.num_code_groups - 1):
        name = f"talker.code_predictor.model.codec_embedding.{group}.weight"
        tables.append(tensors.take(name, config.codes, hidden))
    prefix = "talker.text_projection.linear_fc"
    return Talker(
        config,
        load_decoder(tensors, "talker.model", config, positions=positions),
        text_table=tensors.take("talker.model.text_embedding.weight", config.text_vocab_size, wide),
        projection=TextProjection(
            tensors.take(f"{prefix}1.weight", wide, wide),
            tensors.take(f"{prefix}1.bias", wide),
            tensors.take(f"{prefix}2.weight", hidden, wide),
            tensors.take(f"{prefix}2.bias", hidden),
        ),
        code_table=torch.cat(tables),
        head=tensors.take("talker.codec_head.weight", config.vocab_size, hidden),
    )
