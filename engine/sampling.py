"""Logits → ids, exactly as the official pipeline orders it, for rows with different options.

fp32 throughout. The random numbers come from outside: the product counts them per utterance, so
that a row never depends on its neighbours; a test may inject a generator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import torch
from torch import Tensor

from engine.api import Sampling
from engine.model.config import GenerationConfig, TalkerConfig

# probabilities (rows, vocabulary), code group -> ids (rows,)
Draw: TypeAlias = Callable[[Tensor, int], Tensor]

T = TypeVar("T")

UNIFORM_BITS = 23  # so that u < 1 and u * total < total in fp32
WORD = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class Knobs:
    """How one row draws from one network's logits."""

    temperature: float  # 0: greedy
    top_k: int  # 0: all
    top_p: float
    penalty: float = 1.0


def talker_knobs(default: GenerationConfig, wish: Sampling | None) -> Knobs:
    """Resolve an utterance's options for code 0; explicit ones beat the checkpoint's."""
    wish = wish or Sampling()
    return Knobs(
        temperature=_first(wish.temperature, default.temperature if default.do_sample else 0.0),
        top_k=_first(wish.top_k, default.top_k),
        top_p=_first(wish.top_p, default.top_p),
        penalty=_first(wish.repetition_penalty, default.repetition_penalty),
    )


def predictor_knobs(default: GenerationConfig, wish: Sampling | None) -> Knobs:
    """Resolve an utterance's options for codes 1 to 15."""
    wish = wish or Sampling()
    temperature = default.subtalker_temperature if default.subtalker_dosample else 0.0
    return Knobs(
        temperature=_first(wish.predictor_temperature, temperature),
        top_k=_first(wish.predictor_top_k, default.subtalker_top_k),
        top_p=_first(wish.predictor_top_p, default.subtalker_top_p),
    )


class Sampler:
    """Draws for the rows of one batch."""

    def __init__(self, knobs: Sequence[Knobs], vocabulary: int, device: torch.device) -> None:
        self._greedy = [each.temperature <= 0 for each in knobs]
        self._is_greedy = torch.tensor(self._greedy, device=device)
        warm = [each.temperature if each.temperature > 0 else 1.0 for each in knobs]
        self._temperature = torch.tensor(warm, device=device)[:, None]
        ranks = [min(each.top_k, vocabulary) or vocabulary for each in knobs]
        self._deepest = max(ranks)
        self._any_top_k = min(ranks) < vocabulary
        self._rank = torch.tensor(ranks, device=device)[:, None] - 1
        self._any_top_p = any(each.top_p < 1 for each in knobs)
        self._top_p = torch.tensor([each.top_p for each in knobs], device=device)[:, None]

    def choose(self, logits: Tensor, group: int, draw: Draw) -> Tensor:
        """Pick an id per row: (rows, vocabulary) fp32 -> (rows,) int64."""
        if all(self._greedy):
            return logits.argmax(-1)
        drawn = draw(self.probabilities(logits), group)
        if any(self._greedy):
            return torch.where(self._is_greedy, logits.argmax(-1), drawn)
        return drawn

    def probabilities(self, logits: Tensor) -> Tensor:
        """Temperature, top-k with ties kept, top-p, softmax."""
        logits = logits / self._temperature
        if self._any_top_k:
            logits = self._keep_top_k(logits)
        if self._any_top_p:
            logits = self._keep_top_p(logits)
        return logits.softmax(-1)

    def _keep_top_k(self, logits: Tensor) -> Tensor:
        best = logits.topk(self._deepest, -1).values
        return logits.masked_fill(logits < best.gather(-1, self._rank), -torch.inf)

    def _keep_top_p(self, logits: Tensor) -> Tensor:
        """Drop the tail that holds at most 1 - top_p; what crosses the threshold stays."""
        ascending, order = logits.sort(-1, descending=False)
        tail = ascending.softmax(-1).cumsum(-1) <= 1 - self._top_p
        tail[:, -1] = False
        tail &= self._top_p < 1
        return logits.masked_fill(tail.scatter(-1, order, tail), -torch.inf)


class TalkerRules:
    """What code 0 may not be, whatever the sampler: reserved ids, repeated codes, early ends."""

    def __init__(self, config: TalkerConfig, device: torch.device) -> None:
        self._eos = config.codec_eos_token_id
        self._reserved = torch.arange(config.vocab_size, device=device) >= config.codes
        self._reserved[self._eos] = False

    def apply(
        self, logits: Tensor, *, seen: Tensor, penalty: Tensor | None, eos_allowed: Tensor
    ) -> Tensor:
        """Penalise and forbid.

        Args:
            logits: (rows, vocabulary) fp32.
            seen: (rows, vocabulary) bool, the code 0s of this segment so far.
            penalty: (rows, 1), or None if all are 1.
            eos_allowed: (rows,) bool.
        """
        if penalty is not None:
            penalised = torch.where(logits < 0, logits * penalty, logits / penalty)
            logits = torch.where(seen, penalised, logits)
        logits = logits.masked_fill(self._reserved, -torch.inf)
        end = logits[:, self._eos]
        logits[:, self._eos] = end.masked_fill(~eos_allowed, -torch.inf)
        return logits


class CounterDraw:
    """Random numbers that are a hash of (seed, segment, frame, group): no state, no neighbours."""

    def __init__(
        self,
        seeds: Sequence[int],
        segments: Sequence[int],
        frames: Sequence[int],
        *,
        groups: int,
        device: torch.device,
    ) -> None:
        self._uniforms = uniforms(seeds, segments, frames, groups=groups, device=device)

    def __call__(self, probabilities: Tensor, group: int) -> Tensor:
        """Invert the cumulative distribution; ids of probability 0 are never drawn."""
        cumulative = probabilities.cumsum(-1)
        target = self._uniforms[:, group, None] * cumulative[:, -1:]
        return (cumulative <= target).sum(-1)


def uniforms(
    seeds: Sequence[int],
    segments: Sequence[int],
    frames: Sequence[int],
    *,
    groups: int,
    device: torch.device,
) -> Tensor:
    """Return (rows, groups) fp32 in [0, 1)."""
    words = torch.tensor(
        [
            (seed & WORD, seed >> 32 & WORD, segment, frame)
            for seed, segment, frame in zip(seeds, segments, frames, strict=True)
        ],
        device=device,
    )
    state = torch.zeros_like(words[:, 0])
    for word in words.unbind(1):
        state = _mix(state ^ word)
    state = _mix(state[:, None] ^ torch.arange(groups, device=device))
    return (state >> (32 - UNIFORM_BITS)).float() * 2.0**-UNIFORM_BITS


def _mix(x: Tensor) -> Tensor:
    """Scramble 32-bit words held in int64: lowbias32, offset so that 0 does not stay 0."""
    x = (x + 0x9E37_79B9) & WORD
    x = ((x ^ x >> 16) * 0x7FEB_352D) & WORD
    x = ((x ^ x >> 15) * 0x846C_A68B) & WORD
    return x ^ x >> 16


def _first(wish: T | None, default: T) -> T:
    return default if wish is None else wish
