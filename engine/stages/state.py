"""Device state of every slot that the stages share: codes, cache, last hidden state, history.

A slot's rows mean nothing before its prefill, which sets all that a segment reads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.api import FRAME_SECONDS
from engine.model.attention import KeyValueCache, allocate_cache
from engine.model.checkpoint import POSITIONS, Checkpoint

CODES_CAPACITY = 2048  # frames kept per slot: far more than ever wait for the codec
PROMPT_ROWS = 256  # beside the body: role, header, style instructions of about 1000 characters
PER_FRAME = 3  # cache positions: a text token at most, and speech of twice the estimate
LONGEST_SEGMENT = (POSITIONS - PROMPT_ROWS) // PER_FRAME * FRAME_SECONDS  # s


@dataclass(frozen=True, slots=True)
class SlotState:
    """Tensors addressed by slot; codes also by `frame % capacity`."""

    codes: Tensor  # (slots, capacity, groups) int64
    cache: KeyValueCache  # the Talker's
    hidden: Tensor  # (slots, hidden), behind the last code 0
    seen: Tensor  # (slots, vocabulary) bool: code 0s of the segment so far
    prompt_rows: list[int]  # per slot, of the segment being spoken

    @property
    def capacity(self) -> int:
        """Frames of codes a slot holds."""
        return self.codes.shape[1]


def allocate(checkpoint: Checkpoint, *, slots: int, segment_seconds: float) -> SlotState:
    """Make the state of `slots` slots, whose segments are meant to last `segment_seconds`."""
    talker, like = checkpoint.config.talker, checkpoint.talker.like
    positions = positions_for(segment_seconds)
    shape = (slots, CODES_CAPACITY, talker.num_code_groups)
    return SlotState(
        codes=torch.zeros(shape, dtype=torch.int64, device=like.device),
        cache=allocate_cache(talker, slots, positions, like),
        hidden=like.new_zeros(slots, talker.hidden_size),
        seen=torch.zeros(slots, talker.vocab_size, dtype=torch.bool, device=like.device),
        prompt_rows=[0] * slots,
    )


def positions_for(segment_seconds: float) -> int:
    """Return the cache positions of a slot whose segments last up to `LONGEST_SEGMENT`."""
    return PROMPT_ROWS + PER_FRAME * math.ceil(segment_seconds / FRAME_SECONDS)
