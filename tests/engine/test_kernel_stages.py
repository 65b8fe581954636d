"""The kernels' Talker and Code Predictor equal the eager stages, code for code."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.engine.interpreting import DEVICE  # isort: skip (before any kernel)
from engine.api import Sampling
from engine.model.checkpoint import Checkpoint
from engine.utterance import Utterance
from tests.engine.direct_steps import KernelBench, without_graphs
from tests.engine.small_weights import small_checkpoint
from tests.engine.staging import Bench, speaking

TEXTS = ("Hello.", "A somewhat longer sentence.")


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return small_checkpoint(DEVICE)


@pytest.fixture
def bench(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> KernelBench:
    without_graphs(monkeypatch)
    return KernelBench(checkpoint)


def both(
    checkpoint: Checkpoint, bench: KernelBench, frames: int, **options: object
) -> tuple[list[Tensor], list[Tensor]]:
    def utterances() -> list[Utterance]:
        return [
            speaking(checkpoint, text, slot=slot, seed=slot + 7, voice="", **options)
            for slot, text in enumerate(TEXTS)
        ]

    return Bench(checkpoint).speak(utterances(), frames), bench.speak(utterances(), frames)


def test_drawn_codes_are_those_of_the_eager_stages(
    checkpoint: Checkpoint, bench: KernelBench
) -> None:
    expected, codes = both(checkpoint, bench, frames=2)

    for one, other in zip(expected, codes, strict=True):
        assert torch.equal(one, other)


@pytest.mark.gpu
def test_greedy_codes_are_those_of_the_eager_stages(
    checkpoint: Checkpoint, bench: KernelBench
) -> None:
    greedy = Sampling(temperature=0.0, predictor_temperature=0.0)

    expected, codes = both(checkpoint, bench, frames=6, sampling=greedy)

    for one, other in zip(expected, codes, strict=True):
        assert torch.equal(one, other)


@pytest.mark.gpu
def test_company_changes_no_code(checkpoint: Checkpoint, bench: KernelBench) -> None:
    texts = ("Hello.", "A somewhat longer sentence.", "Three.", "The fourth of them all.")

    def utterances() -> list[Utterance]:
        return [
            speaking(checkpoint, text, slot=slot, seed=slot, voice="")
            for slot, text in enumerate(texts)
        ]

    together = bench.speak(utterances(), 12)
    alone = [bench.speak([each], 12)[0] for each in utterances()]

    for one, other in zip(together, alone, strict=True):
        assert torch.equal(one, other)


@pytest.mark.gpu
def test_a_used_slot_is_as_good_as_new(checkpoint: Checkpoint, bench: KernelBench) -> None:
    def speak(text: str) -> Tensor:
        return bench.speak([speaking(checkpoint, text, seed=3, voice="")], 20)[0]

    fresh = speak(TEXTS[0])
    speak(TEXTS[1])

    assert torch.equal(speak(TEXTS[0]), fresh)


@pytest.mark.gpu
def test_padding_touches_only_the_scratch_slot(checkpoint: Checkpoint, bench: KernelBench) -> None:
    utterances = [speaking(checkpoint, TEXTS[0], slot=slot, voice="") for slot in range(3)]

    bench.speak(utterances, 3)

    state, unused = bench.state, 3
    assert not state.codes[unused].any()
    assert not state.seen[unused].any()
    assert not state.hidden[unused].any()
    assert not state.cache.keys[:, unused].any()
    assert state.cache.keys[:, :3].any()
