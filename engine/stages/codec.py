"""Waiting frames → PCM, eagerly: codes by slot in, one chunk of samples for each utterance out."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from engine.model.codec import Codec
from engine.model.config import CodecConfig
from engine.pcm import to_bytes, to_int16
from engine.work import Outcome, Work

logger = logging.getLogger(__name__)

FAILED = Outcome(error="generation_failed")


class CodecStage:
    """Runs CODEC batches; owns what the codec remembers of every slot."""

    def __init__(
        self,
        config: CodecConfig,
        tensors: Mapping[str, Tensor],
        *,
        slots: int,
        codes: Tensor,
        device: torch.device | str,
    ) -> None:
        """Load the codec, in fp32, and allocate its state.

        Args:
            tensors: the checkpoint's, named `decoder.…`.
            codes: (slots, capacity, groups) int64; frame f of a slot stands at `f % capacity`.

        Raises: CheckpointError naming the tensor.
        """
        self._codec = Codec.load(config, tensors, device=device)
        self._state = self._codec.new_state(slots)
        self._codes = codes
        self._decoded = [0] * slots  # frames, as `_state.positions` has them on the device

    def launch(self, works: Sequence[Work]) -> list[Outcome]:
        """Decode the next frames of each work's utterance.

        A work that begins its utterance is decoded from scratch, the others continue; a batch may
        hold both. A row that is not finite fails alone.

        Args:
            works: at most one per slot, all of the same `frames`.
        """
        outcomes = [FAILED] * len(works)
        beginning = [index for index, work in enumerate(works) if work.utterance.decoded == 0]
        continuing = [index for index, work in enumerate(works) if work.utterance.decoded > 0]
        for indices in (beginning, continuing):
            if indices:
                results = self._decode([works[index] for index in indices])
                for index, outcome in zip(indices, results, strict=True):
                    outcomes[index] = outcome
        return outcomes

    def release(self, slot: int) -> None:
        """Forget the slot's utterance."""
        self._decoded[slot] = 0

    def _decode(self, works: Sequence[Work]) -> list[Outcome]:
        """Decode works that all begin or all continue."""
        slots = [work.utterance.slot for work in works]
        firsts = [work.utterance.decoded for work in works]
        frames = works[0].frames
        assert all(work.frames == frames for work in works), "codec works of one batch differ"
        rows = torch.tensor(slots, device=self._codes.device)
        codes = self._codes_of(rows, firsts, frames)
        if firsts[0] == 0:
            samples = self._codec.start(codes, self._state, rows)
        else:
            known = [self._decoded[slot] for slot in slots]
            assert firsts == known, f"codec: slots {slots} stand at {known}, not {firsts}"
            samples = self._codec.step(codes, self._state, rows)
        for slot, first in zip(slots, firsts, strict=True):
            self._decoded[slot] = first + frames
        return _outcomes(samples, slots)

    def _codes_of(self, rows: Tensor, firsts: Sequence[int], frames: int) -> Tensor:
        """Read `frames` frames of each slot from its first: (rows, frames, groups)."""
        count = torch.arange(frames, device=rows.device)
        first = torch.tensor(firsts, device=rows.device)
        return self._codes[rows[:, None], (first[:, None] + count) % self._codes.shape[1]]


def _outcomes(samples: Tensor, slots: Sequence[int]) -> list[Outcome]:
    """Turn samples (rows, time) into one outcome a row."""
    finite = samples.isfinite().all(1).tolist()
    pcm = to_int16(samples).cpu()
    for slot, fine in zip(slots, finite, strict=True):
        if not fine:
            logger.error("codec_not_finite slot=%d", slot)
    return [
        Outcome(pcm=to_bytes(row)) if fine else FAILED
        for row, fine in zip(pcm, finite, strict=True)
    ]
