"""The codec stage: codes of slots in, PCM of utterances out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.model.codec import Codec
from engine.stages.codec import CodecStage
from engine.utterance import Utterance
from engine.work import Outcome, Stage, Work
from tests.engine.random_codec_weights import CONFIG, random_codes, random_weights

SLOTS = 3
CAPACITY = 16  # frames kept per slot; fewer than the utterances below have
LENGTH = 24
FRAME_BYTES = 3840


@dataclass
class Speaking:
    """What the stage reads of an utterance."""

    slot: int
    decoded: int = 0


class Listener:
    """Feeds random codes to a stage and collects PCM by slot."""

    def __init__(self, weights: dict[str, Tensor] | None = None) -> None:
        self.codes = torch.zeros(SLOTS, CAPACITY, CONFIG.num_quantizers, dtype=torch.int64)
        tensors = weights or random_weights()
        self.stage = CodecStage(CONFIG, tensors, slots=SLOTS, codes=self.codes, device="cpu")
        self.utterances = [Speaking(slot) for slot in range(SLOTS)]
        self.heard = [b""] * SLOTS

    def decode(self, *slots: int, frames: int, seed: int = 0) -> list[Outcome]:
        """Launch one batch; utterances in `slots` speak `random_codes(…, seed=seed + slot)`."""
        works = []
        for slot in slots:
            utterance = self.utterances[slot]
            codes = random_codes(CONFIG, 1, LENGTH, seed=seed + slot)[0]
            for frame in range(utterance.decoded, utterance.decoded + frames):
                self.codes[slot, frame % CAPACITY] = codes[frame]
            works.append(Work(cast(Utterance, utterance), Stage.CODEC, frames, 0.0))
        outcomes = self.stage.launch(works)
        for slot, outcome in zip(slots, outcomes, strict=True):
            self.utterances[slot].decoded += frames
            self.heard[slot] += outcome.pcm
        return outcomes

    def release(self, slot: int) -> None:
        self.stage.release(slot)
        self.utterances[slot], self.heard[slot] = Speaking(slot), b""


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def listener() -> Listener:
    return Listener()


def expected(seed: int, frames: int = LENGTH) -> np.ndarray[Any, Any]:
    samples = Codec.load(CONFIG, random_weights()).decode(
        random_codes(CONFIG, 1, LENGTH, seed=seed)
    )
    values: np.ndarray[Any, Any] = samples[0, : frames * 1920].numpy()
    return np.round(values * 32767)


def steps_off(pcm: bytes, seed: int) -> int:
    """The largest difference from decoding at once, in int16 steps."""
    heard = np.frombuffer(pcm, "<i2").astype(float)
    return int(np.abs(heard - expected(seed, len(pcm) // FRAME_BYTES)).max())


def test_chunks_are_the_utterance_as_int16(listener: Listener) -> None:
    for frames in (1, 2, 4, 8, 9):
        outcome = listener.decode(0, frames=frames)[0]
        assert len(outcome.pcm) == frames * FRAME_BYTES

    assert steps_off(listener.heard[0], seed=0) <= 1  # rounding at a half


def test_codes_wrap_around_their_ring(listener: Listener) -> None:
    listener.decode(1, frames=12)
    listener.decode(1, frames=12)  # frames 12 to 23 in a ring of 16

    assert steps_off(listener.heard[1], seed=1) <= 1


def test_beginning_and_continuing_works_share_a_batch(listener: Listener) -> None:
    listener.decode(2, frames=4)

    listener.decode(0, 2, 1, frames=4)
    listener.decode(1, 0, 2, frames=4)

    assert [steps_off(listener.heard[slot], seed=slot) <= 1 for slot in range(SLOTS)] == [True] * 3


def test_reused_slot_begins_afresh(listener: Listener) -> None:
    listener.decode(0, frames=10, seed=50)
    listener.release(0)

    listener.decode(0, frames=1)
    listener.decode(0, frames=3)

    assert steps_off(listener.heard[0], seed=0) <= 1


def test_no_two_chunks_are_alike_when_the_end_falls_on_a_border(listener: Listener) -> None:
    chunks = [listener.decode(0, frames=4)[0].pcm for _ in range(LENGTH // 4)]

    assert len(set(chunks)) == len(chunks)
    assert len(listener.heard[0]) == LENGTH * FRAME_BYTES


def test_frames_that_skip_or_repeat_are_our_mistake(listener: Listener) -> None:
    listener.decode(0, frames=2)
    listener.utterances[0].decoded = 3

    with pytest.raises(AssertionError, match="stand at"):
        listener.decode(0, frames=1)


def test_continuing_a_released_slot_is_our_mistake(listener: Listener) -> None:
    listener.decode(0, frames=2)
    listener.stage.release(0)

    with pytest.raises(AssertionError, match="stand at"):
        listener.decode(0, frames=1)


def test_row_that_is_not_finite_fails_alone() -> None:
    weights = random_weights()
    spoilt = random_codes(CONFIG, 1, LENGTH, seed=0)[0, 0, 0]
    weights["decoder.quantizer.rvq_first.vq.layers.0._codebook.embedding_sum"][spoilt] = torch.inf
    listener = Listener(weights)

    failed, fine = listener.decode(0, 1, frames=1)

    assert failed == Outcome(error="generation_failed")
    assert len(fine.pcm) == FRAME_BYTES
    assert fine.error == ""
