"""Code Predictor batches: the other fifteen codes of each work's frame."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch

from engine.model.checkpoint import Checkpoint
from engine.sampling import Sampler, predictor_knobs
from engine.stages.state import SlotState
from engine.stages.talker import counter
from engine.work import Outcome, Work


class PredictorStage:
    """Runs PREDICTOR batches on the shared slot state."""

    def __init__(self, checkpoint: Checkpoint, state: SlotState) -> None:
        config = checkpoint.config
        vocabulary, device = config.predictor.vocab_size, checkpoint.talker.device
        self._groups = config.predictor.num_code_groups
        self._default = config.generation
        self._predictor = checkpoint.predictor
        self._state = state
        self._sampler = lru_cache(64)(lambda knobs: Sampler(knobs, vocabulary, device))

    def frame(self, works: Sequence[Work]) -> list[Outcome]:
        """Complete the frame whose code 0 was drawn last.

        A code 0 that turned out to be end of speech is completed too; nobody reads that frame.
        """
        state = self._state
        utterances = [work.utterance for work in works]
        device = state.codes.device
        slots = torch.tensor([each.slot for each in utterances], device=device)
        places = torch.tensor([each.frame % state.capacity for each in utterances], device=device)
        knobs = tuple(predictor_knobs(self._default, each.options.sampling) for each in utterances)
        sampler, draw = (
            self._sampler(knobs),
            counter(utterances, groups=self._groups, device=device),
        )
        codes = self._predictor.frame(
            state.hidden[slots],
            state.codes[slots, places, 0],
            lambda logits, group: sampler.choose(logits, group, draw),
        )
        state.codes[slots, places, 1:] = codes
        return [Outcome()] * len(works)
