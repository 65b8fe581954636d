"""The codec stage for CUDA; without a device its steps run directly, in Triton's interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from tests.engine.interpreting import DEVICE, ON_DEVICE  # isort: skip (before any kernel)
from engine.model.codec import Codec
from engine.model.codec_fused import FusedCodec
from engine.model.codec_lane import FusedState
from engine.stages import codec_cuda
from engine.stages.codec_cuda import CudaCodecStage
from engine.utterance import Utterance
from engine.work import Outcome, Stage, Ticket, Work
from tests.engine.direct_steps import streams
from tests.engine.random_codec_weights import CONFIG, random_codes, random_weights

SMALL = replace(CONFIG, upsample_rates=(4,), num_hidden_layers=1)  # the interpreter is slow
SLOTS = 3
CAPACITY = 16  # frames kept per slot
LENGTH = 20


@dataclass
class Speaking:
    """What the stage reads of an utterance."""

    slot: int
    decoded: int = 0


@dataclass
class Finished:
    """What a replay would leave, computed at once."""

    results: Tensor

    def done(self) -> bool:
        return True

    def wait(self, timeout: float) -> None:
        """Nothing to wait for."""


class DirectGraphs:
    """Has the face of `CodecGraphs`; runs the step itself, with one row of padding."""

    def __init__(
        self,
        codec: FusedCodec,
        codes: Tensor,
        state: FusedState,
        *,
        rows: int,
        chunks: Any,
        home: object,
    ) -> None:
        self.chunks = sorted(chunks, reverse=True)
        self.codec, self.state, self._codes = codec, state, codes
        self._lane = codec.new_lane((rows + 1) * max(chunks))

    def launch(self, slots: Sequence[int], firsts: Sequence[int], frames: int) -> Finished:
        plan = torch.tensor([[*slots, self.state.spare], [*firsts, 0]], dtype=torch.int32)
        sound = self.codec.step(plan, self._codes, self.state, self._lane, frames=frames)
        return Finished(sound[: len(slots)])


class Listener:
    """Feeds random codes to a stage and collects PCM by slot."""

    def __init__(self, weights: dict[str, Tensor] | None = None) -> None:
        self.weights = weights or random_weights(SMALL)
        groups = SMALL.num_quantizers
        self.codes = torch.zeros(SLOTS + 1, CAPACITY, groups, dtype=torch.int64, device=DEVICE)
        self.stage = CudaCodecStage(
            *(SMALL, self.weights),
            slots=SLOTS,
            codes=self.codes,
            rows=3,
            streams=streams(),
            chunks=(1, 4),
        )
        self.utterances = [Speaking(slot) for slot in range(SLOTS)]
        self.heard = [b""] * SLOTS

    def launch(self, *slots: int, frames: int) -> Ticket:
        works = []
        for slot in slots:
            utterance = self.utterances[slot]
            codes = random_codes(SMALL, 1, LENGTH, seed=slot)[0]
            for frame in range(utterance.decoded, utterance.decoded + frames):
                self.codes[slot, frame % CAPACITY] = codes[frame]
            works.append(Work(cast(Utterance, utterance), Stage.CODEC, frames, 0.0))
        return self.stage.launch(works)

    def decode(self, *slots: int, frames: int) -> list[Outcome]:
        ticket = self.launch(*slots, frames=frames)
        ticket.wait(5.0)
        assert ticket.done()
        outcomes = list(ticket.outcomes())
        for slot, outcome in zip(slots, outcomes, strict=True):
            self.utterances[slot].decoded += frames
            self.heard[slot] += outcome.pcm
        return outcomes

    def steps_off(self, slot: int) -> float:
        """The largest difference from decoding at once, in int16 steps."""
        plain = Codec.load(SMALL, self.weights, dtype=torch.float64)
        samples = plain.decode(random_codes(SMALL, 1, LENGTH, seed=slot))[0]
        heard = torch.frombuffer(bytearray(self.heard[slot]), dtype=torch.int16)
        return float((heard - samples[: len(heard)] * 32767).abs().max())


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    if not ON_DEVICE:
        monkeypatch.setattr(codec_cuda, "CodecGraphs", DirectGraphs)


def test_chunk_of_a_length_without_graph_is_made_of_others() -> None:
    listener = Listener()

    outcomes = [listener.decode(1, frames=6)[0], listener.decode(1, frames=1)[0]]

    samples = 4 * 4 * 2  # int16 samples of a frame, as bytes
    assert [len(outcome.pcm) for outcome in outcomes] == [6 * samples, samples]
    assert listener.steps_off(1) < 40  # fp16


def test_beginning_and_continuing_works_share_a_batch() -> None:
    listener = Listener()
    listener.decode(2, frames=1)

    listener.decode(0, 2, frames=4)

    assert listener.steps_off(0) < 40
    assert listener.steps_off(2) < 40


def test_continuing_a_released_slot_is_our_mistake() -> None:
    listener = Listener()
    listener.decode(0, frames=1)
    listener.stage.release(0)

    with pytest.raises(AssertionError, match="stand at"):
        listener.launch(0, frames=1)


def test_row_that_is_not_finite_fails_alone() -> None:
    weights = random_weights(SMALL)
    spoilt = random_codes(SMALL, 1, LENGTH, seed=0)[0, 0, 0]
    weights["decoder.quantizer.rvq_first.vq.layers.0._codebook.embedding_sum"][spoilt] = torch.inf
    listener = Listener(weights)

    failed, fine = listener.decode(0, 1, frames=1)

    assert failed == Outcome(error="generation_failed")
    assert fine.pcm
    assert fine.error == ""
