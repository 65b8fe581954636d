"""Batches on shared slot state: rows never feel their neighbours, and fail alone."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.api import FRAME_SAMPLES, ConfigError, Sampling
from engine.config import ModelConfig
from engine.model.checkpoint import EMBEDDED, Checkpoint, load
from engine.prompt import Prompt
from engine.stages import ModelStages, build
from engine.stages.predictor import PredictorStage
from engine.stages.state import SlotState, allocate, positions_for
from engine.stages.talker import TalkerStage
from engine.utterance import Segment, Utterance
from engine.work import Batch, Outcome, Stage, Work
from tests.engine.random_checkpoint import make
from tests.engine.speaking import utterance

CPU = torch.device("cpu")
TEXTS = ("Short.", "A rather longer sentence, said in one go.", "Middle sized text.")

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    folder: Path = tmp_path_factory.mktemp("stages") / "checkpoint"
    return load(make(folder), device=CPU, dtype=torch.float32)


@pytest.fixture(scope="module")
def stages(checkpoint: Checkpoint) -> ModelStages:
    return ModelStages(checkpoint, slots=4, rows=4, segment_seconds=4.0, normalise=False)


def speaking(
    checkpoint: Checkpoint,
    text: str,
    *,
    slot: int = 0,
    whole: bool = True,
    closed: bool = True,
    **options: object,
) -> Utterance:
    """An utterance whose prefill may be launched."""
    tokens = checkpoint.tokenizer.body(text)
    segment = Segment(0, len(text), tokens, closed=closed, frames_limit=99)
    given = {"voice": "ryan", "ignore_eos": True} | options
    voice = given.pop("voice")
    each = utterance(segment, slot=slot, **given)
    object.__setattr__(each.options, "voice", voice)
    segment.whole = whole
    return each


def work(each: Utterance, stage: Stage, frames: int = 1) -> Work:
    return Work(each, stage, frames, latest_start=0.0)


class Bench:
    """Talker and predictor stages with state of their own, driven frame by frame."""

    def __init__(self, checkpoint: Checkpoint, slots: int = 4) -> None:
        self.state: SlotState = allocate(checkpoint, slots=slots, segment_seconds=4.0)
        self.talker = TalkerStage(checkpoint, self.state)
        self.predictor = PredictorStage(checkpoint, self.state)

    @torch.inference_mode()
    def run(self, stage: Stage, utterances: Sequence[Utterance]) -> list[Outcome]:
        launch = {
            Stage.PREFILL: self.talker.prefill,
            Stage.TALKER: self.talker.step,
            Stage.PREDICTOR: self.predictor.frame,
        }[stage]
        outcomes = launch([work(each, stage) for each in utterances])
        for each, outcome in zip(utterances, outcomes, strict=True):
            each.advance(stage, 1)
            each.commit(stage, 1, outcome)
        return outcomes

    def speak(self, utterances: Sequence[Utterance], frames: int) -> list[Tensor]:
        """Prefill all at once, then step all together; return each one's (frames, 16) codes."""
        self.run(Stage.PREFILL, utterances)
        self.run(Stage.PREDICTOR, utterances)
        for _ in range(frames - 1):
            self.run(Stage.TALKER, utterances)
            self.run(Stage.PREDICTOR, utterances)
        return [self.state.codes[each.slot, :frames].clone() for each in utterances]


def alone(checkpoint: Checkpoint, text: str, frames: int = 5, **options: object) -> Tensor:
    return Bench(checkpoint).speak([speaking(checkpoint, text, **options)], frames)[0]


def test_a_batch_speaks_as_each_would_alone(checkpoint: Checkpoint) -> None:
    options: list[dict[str, object]] = [
        {"seed": 1},
        {"seed": 2, "whole": False, "voice": "eric"},
        {"seed": 3, "sampling": Sampling(temperature=0.0, predictor_top_p=0.5)},
    ]
    mixed = [
        speaking(checkpoint, text, slot=slot, **each)
        for text, slot, each in zip(TEXTS, (3, 0, 2), options, strict=True)
    ]

    together = Bench(checkpoint).speak(mixed, 5)

    for text, each, codes in zip(TEXTS, options, together, strict=True):
        assert torch.equal(codes, alone(checkpoint, text, **each))


def test_utterances_that_joined_at_different_times_share_batches(checkpoint: Checkpoint) -> None:
    bench = Bench(checkpoint)
    early = speaking(checkpoint, TEXTS[1], slot=1, seed=1)
    bench.speak([early], 4)
    late = speaking(checkpoint, TEXTS[0], slot=0, seed=2)
    bench.speak([late], 1)

    for _ in range(2):
        bench.run(Stage.TALKER, [late, early])
        bench.run(Stage.PREDICTOR, [early, late])

    assert torch.equal(bench.state.codes[1, :6], alone(checkpoint, TEXTS[1], 6, seed=1))
    assert torch.equal(bench.state.codes[0, :3], alone(checkpoint, TEXTS[0], 3, seed=2))


def test_a_slot_used_again_remembers_nothing(checkpoint: Checkpoint) -> None:
    bench = Bench(checkpoint)
    bench.speak([speaking(checkpoint, TEXTS[1], seed=7)], 8)

    again = bench.speak([speaking(checkpoint, TEXTS[0], seed=2)], 5)[0]

    assert torch.equal(again, alone(checkpoint, TEXTS[0], seed=2))


@pytest.mark.parametrize("change", [{"seed": 1}, {"voice": "dylan"}, {"language": "german"}])
def test_seed_voice_and_language_change_what_is_said(
    checkpoint: Checkpoint, change: dict[str, object]
) -> None:
    assert not torch.equal(alone(checkpoint, TEXTS[0], **change), alone(checkpoint, TEXTS[0]))


def test_the_default_voice_speaks_when_none_is_named(checkpoint: Checkpoint) -> None:
    named = alone(checkpoint, TEXTS[0], voice=checkpoint.settings.default_voice)

    assert torch.equal(alone(checkpoint, TEXTS[0], voice=""), named)


def test_streamed_text_that_arrives_late_changes_nothing(checkpoint: Checkpoint) -> None:
    complete = alone(checkpoint, TEXTS[2], whole=False, seed=4)
    tokens = checkpoint.tokenizer.body(TEXTS[2])
    bench, each = (
        Bench(checkpoint),
        speaking(checkpoint, TEXTS[2], whole=False, closed=False, seed=4),
    )
    assert each.segment is not None
    each.segment.tokens[:] = tokens[:1]

    bench.run(Stage.PREFILL, [each])
    bench.run(Stage.PREDICTOR, [each])
    for count in range(2, 6):
        each.segment.tokens[:] = tokens[:count]
        each.segment.closed = count == len(tokens)
        bench.run(Stage.TALKER, [each])
        bench.run(Stage.PREDICTOR, [each])

    assert torch.equal(bench.state.codes[0, :5], complete)


def test_a_starved_row_is_refused_instead_of_fed(checkpoint: Checkpoint) -> None:
    bench, each = Bench(checkpoint), speaking(checkpoint, "a", whole=False, closed=False)
    assert each.segment is not None
    del each.segment.tokens[1:]
    bench.run(Stage.PREFILL, [each])
    bench.run(Stage.PREDICTOR, [each])

    with pytest.raises(AssertionError, match="starved"):
        bench.run(Stage.TALKER, [each])


def test_end_of_speech_is_reported_as_soon_as_it_is_allowed(tmp_path: Path) -> None:
    ending = load(make(tmp_path / "eos", eos_always=True), device=CPU, dtype=torch.float32)
    bench = Bench(ending)
    each = speaking(ending, TEXTS[0], ignore_eos=False)

    outcomes = [bench.run(Stage.PREFILL, [each])]
    for _ in range(2):
        bench.run(Stage.PREDICTOR, [each])
        outcomes.append(bench.run(Stage.TALKER, [each]))

    assert [outcome[0].end_of_speech for outcome in outcomes] == [False, False, True]


def test_speech_that_outgrows_its_cache_ends(
    checkpoint: Checkpoint, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(checkpoint)
    short, long = (speaking(checkpoint, TEXTS[0], slot=slot) for slot in (0, 1))
    bench.speak([short, long], 1)
    bench.state.prompt_rows[1] = bench.state.cache.positions

    outcomes = bench.run(Stage.TALKER, [long, short])

    assert [outcome.end_of_speech for outcome in outcomes] == [True, False]
    assert "segment_outgrew_cache" in caplog.text


def test_a_segment_has_room_for_twice_its_speech() -> None:
    assert positions_for(12.0) > 2 * 150
    assert positions_for(60.0) > 2 * 750


# ------------------------------------------------------------- all stages


def launch(stages: ModelStages, stage: Stage, *works: Utterance, frames: int = 1) -> list[Outcome]:
    batch = Batch(stage, [work(each, stage, frames) for each in works])
    ticket = stages.launch(batch)
    assert ticket.done()
    outcomes = list(ticket.outcomes())
    for each, outcome in zip(works, outcomes, strict=True):
        each.advance(stage, frames)
        each.commit(stage, frames, outcome)
    return outcomes


def test_text_becomes_sound(stages: ModelStages, checkpoint: Checkpoint) -> None:
    each = speaking(checkpoint, TEXTS[0])

    launch(stages, Stage.PREFILL, each)
    launch(stages, Stage.PREDICTOR, each)
    launch(stages, Stage.TALKER, each)
    launch(stages, Stage.PREDICTOR, each)
    sound = launch(stages, Stage.CODEC, each, frames=2)[0]
    stages.release(each.slot)

    assert len(sound.pcm) == 2 * 2 * FRAME_SAMPLES
    assert any(sound.pcm)


def test_a_failing_row_leaves_its_neighbours_alone(
    stages: ModelStages, checkpoint: Checkpoint, caplog: pytest.LogCaptureFixture
) -> None:
    well, ill = speaking(checkpoint, TEXTS[0], slot=0), speaking(checkpoint, TEXTS[1], slot=1)
    object.__setattr__(ill.options, "voice", "nobody")

    with caplog.at_level(logging.ERROR):
        outcomes = launch(stages, Stage.PREFILL, ill, well)

    assert [outcome.error for outcome in outcomes] == ["generation_failed", ""]
    assert len(caplog.records) == 1
    assert "launch_failed stage=prefill" in caplog.text


def test_a_failing_batch_of_one_is_reported(stages: ModelStages, checkpoint: Checkpoint) -> None:
    each = speaking(checkpoint, TEXTS[0], voice="nobody")

    assert launch(stages, Stage.PREFILL, each)[0].error == "generation_failed"


def test_a_row_that_is_not_finite_fails_alone(checkpoint: Checkpoint) -> None:
    bench = Bench(checkpoint)
    pair = [speaking(checkpoint, TEXTS[0], slot=slot) for slot in (0, 1)]
    bench.speak(pair, 1)
    bench.state.cache.values[0, 0, 0, 0, 0] = torch.nan

    outcomes = bench.run(Stage.TALKER, pair)

    assert [outcome.error for outcome in outcomes] == ["generation_failed", ""]
    assert bench.state.cache.values.isfinite().all()


def test_a_prompt_longer_than_the_cache_fails_alone(
    stages: ModelStages, checkpoint: Checkpoint
) -> None:
    each, other = speaking(checkpoint, TEXTS[0]), speaking(checkpoint, TEXTS[0], slot=1)
    assert each.segment is not None
    each.segment.tokens *= 500

    assert [o.error for o in launch(stages, Stage.PREFILL, each, other)] == [
        "generation_failed",
        "",
    ]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({}, ""),
        ({"voice": ""}, ""),
        ({"voice": "RYAN", "language": "English"}, ""),
        ({"voice": "nobody"}, "unsupported_voice"),
        ({"language": "klingon"}, "unsupported_language"),
        ({"language": "sichuan_dialect"}, "unsupported_language"),
        ({"instructions": "Whisper."}, ""),
        ({"instructions": "Whisper. " * 300}, "unsupported_instructions"),
    ],
)
def test_what_the_checkpoint_cannot_do_is_refused(
    stages: ModelStages, checkpoint: Checkpoint, options: dict[str, object], code: str
) -> None:
    assert stages.check(speaking(checkpoint, TEXTS[0], **options)) == code


def test_instructions_are_refused_where_the_model_was_not_trained_for_them(
    tmp_path: Path,
) -> None:
    small = load(make(tmp_path / "small", size="0b6"), device=CPU, dtype=torch.float32)
    stages = ModelStages(small, slots=1, rows=1, segment_seconds=4.0, normalise=False)

    assert not stages.info.instructions
    assert stages.check(speaking(small, "a", instructions="b")) == "unsupported_instructions"


def test_text_is_tokenised_as_the_checkpoint_does(
    stages: ModelStages, checkpoint: Checkpoint
) -> None:
    feed = stages.text()
    feed.append(TEXTS[1])
    feed.finish()

    segment = feed.next_segment()

    assert segment is not None
    assert segment.tokens == checkpoint.tokenizer.body(TEXTS[1])


def test_instructions_stand_before_the_text(stages: ModelStages, checkpoint: Checkpoint) -> None:
    bench = Bench(checkpoint)

    plain: Prompt = bench.talker.prompt(speaking(checkpoint, TEXTS[0]))
    told = bench.talker.prompt(speaking(checkpoint, TEXTS[0], instructions="Whisper."))

    assert list(told.text) == [*checkpoint.tokenizer.instruct("Whisper."), *plain.text]


# --------------------------------------------------------- configuration


def test_the_embedded_voice_is_built_from_defaults() -> None:
    stages = build(ModelConfig(slots=2, rows=3, threads=1, device="cpu"))

    assert stages.info.default_voice == "rms"
    assert stages.info.languages == ("english",)
    assert stages.info.slots == 2
    assert stages.rows(Stage.TALKER) == 3
    assert (EMBEDDED / "NOTICE").exists()


@pytest.mark.parametrize(
    ("key", "value"),
    [("device", "toaster"), ("dtype", "float16"), ("normalise", "perhaps")],
)
def test_a_wrong_setting_is_named(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"`model.{key}`.*{value}"):
        build(ModelConfig(threads=1, **{"device": "cpu", key: value}))  # type: ignore[arg-type]
