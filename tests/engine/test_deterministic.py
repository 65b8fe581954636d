"""`deterministic`: company changes no code that is drawn, nor a bit of what it is drawn from."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest
import torch

from engine.config import ModelConfig
from engine.model.checkpoint import Checkpoint, load, locate
from engine.stages import ModelStages, build, device
from engine.stages.state import SlotState, allocate
from engine.utterance import Utterance
from engine.work import Batch, Outcome, Stage
from tests.engine.staging import CPU, TEXTS, speaking, work

FRAMES = 6


class Speakers:
    """Utterances over `ModelStages` on a CPU, whose state can be looked at."""

    def __init__(
        self, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, *, deterministic: bool
    ) -> None:
        def kept(*arguments: Checkpoint, **options: int | float) -> SlotState:
            self.state = allocate(*arguments, **options)  # type: ignore[arg-type]
            return self.state

        monkeypatch.setattr(device, "allocate", kept)
        self.stages = ModelStages(
            checkpoint, name="", slots=len(TEXTS), rows=len(TEXTS), segment_seconds=4.0,
            normalise=False, deterministic=deterministic,
        )  # fmt: skip

    def run(self, stage: Stage, utterances: Sequence[Utterance]) -> list[Outcome]:
        ticket = self.stages.launch(Batch(stage, [work(each, stage) for each in utterances]))
        outcomes = list(ticket.outcomes())
        for each, outcome in zip(utterances, outcomes, strict=True):
            each.advance(stage, 1)
            each.commit(stage, 1, outcome)
        return outcomes

    def speak(self, utterances: Sequence[Utterance]) -> None:
        self.run(Stage.PREFILL, utterances)
        self.run(Stage.PREDICTOR, utterances)
        for _ in range(FRAMES - 1):
            self.run(Stage.TALKER, utterances)
            self.run(Stage.PREDICTOR, utterances)


@pytest.fixture(scope="module")
def voice() -> Checkpoint:
    return load(locate("embedded"), device=CPU, dtype=torch.float32)


def crowd(voice: Checkpoint) -> list[Utterance]:
    return [
        speaking(voice, text, slot=slot, seed=slot, voice="") for slot, text in enumerate(TEXTS)
    ]


def test_on_a_cpu_nothing_depends_on_company(
    voice: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = Speakers(voice, monkeypatch, deterministic=True)
    alone = Speakers(voice, monkeypatch, deterministic=True)

    together.speak(crowd(voice))
    for each in crowd(voice):
        alone.speak([each])

    assert torch.equal(together.state.codes, alone.state.codes)
    assert torch.equal(together.state.hidden, alone.state.hidden)
    assert torch.equal(together.state.cache.values, alone.state.cache.values)


def test_a_failing_work_leaves_the_others_alone(
    voice: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    company = Speakers(voice, monkeypatch, deterministic=True)
    ill, well = crowd(voice)[:2]
    company.speak([well])
    company.run(Stage.PREFILL, [ill])
    company.run(Stage.PREDICTOR, [ill])
    ill.segment = None  # its step raises

    outcomes = company.stages.launch(
        Batch(Stage.TALKER, [work(each, Stage.TALKER) for each in (well, ill)])
    ).outcomes()

    assert [each.error for each in outcomes] == ["", "generation_failed"]


def test_it_is_named_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    build(ModelConfig(device="cpu", threads=1, slots=1, rows=3, deterministic=True))

    assert "deterministic rows=3" in caplog.text
