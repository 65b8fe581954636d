"""The whole of a checkpoint behind `engine.work.Stages`: text in, sound out, failures contained."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import torch

from engine.api import FRAME_SAMPLES, ConfigError
from engine.config import ModelConfig
from engine.model.checkpoint import Checkpoint, load
from engine.stages import ModelStages, build
from engine.utterance import Utterance
from engine.work import Batch, Outcome, Stage
from tests.engine.random_checkpoint import make
from tests.engine.staging import CPU, TEXTS, speaking, work


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    folder: Path = tmp_path_factory.mktemp("stages") / "checkpoint"
    return load(make(folder), device=CPU, dtype=torch.float32)


@pytest.fixture(scope="module")
def stages(checkpoint: Checkpoint) -> ModelStages:
    return ModelStages(
        checkpoint, name="random", slots=4, rows=4, segment_seconds=4.0, normalise=False
    )


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
    well = speaking(checkpoint, TEXTS[0], slot=0)
    ill = speaking(checkpoint, TEXTS[1], slot=1, voice="nobody")

    with caplog.at_level(logging.ERROR):
        outcomes = launch(stages, Stage.PREFILL, ill, well)

    assert [outcome.error for outcome in outcomes] == ["generation_failed", ""]
    assert len(caplog.records) == 1
    assert "launch_failed stage=prefill" in caplog.text


def test_a_failing_batch_of_one_is_reported(stages: ModelStages, checkpoint: Checkpoint) -> None:
    each = speaking(checkpoint, TEXTS[0], voice="nobody")

    assert launch(stages, Stage.PREFILL, each)[0].error == "generation_failed"


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
    assert stages.check(speaking(checkpoint, TEXTS[0], **options).options) == code


def test_instructions_are_refused_where_the_model_was_not_trained_for_them(
    tmp_path: Path,
) -> None:
    small = load(make(tmp_path / "small", size="0b6"), device=CPU, dtype=torch.float32)
    stages = ModelStages(small, name="small", slots=1, rows=1, segment_seconds=4.0, normalise=False)

    assert not stages.info.instructions
    assert (
        stages.check(speaking(small, "a", instructions="b").options) == "unsupported_instructions"
    )


def test_text_is_tokenised_as_the_checkpoint_does(
    stages: ModelStages, checkpoint: Checkpoint
) -> None:
    feed = stages.text()
    feed.append(TEXTS[1])
    feed.finish()

    segment = feed.next_segment()

    assert segment is not None
    assert segment.tokens == checkpoint.tokenizer.body(TEXTS[1])


def test_the_embedded_voice_is_built_from_defaults() -> None:
    stages = build(ModelConfig(slots=2, rows=3, threads=1, device="cpu"))

    assert stages.info.model == "embedded"
    assert stages.info.voices[0] == stages.info.default_voice == "rms"
    assert stages.info.languages == ("english",)
    assert stages.info.slots == 2
    assert stages.rows(Stage.TALKER) == 3


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("device", "toaster"),
        ("dtype", "float16"),
        ("codec_dtype", "float16"),  # there is no device that is faster at it
        ("codec_dtype", "half"),
        ("normalise", "perhaps"),
    ],
)
def test_a_wrong_setting_is_named(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"`model.{key}`.*{value}"):
        build(ModelConfig(threads=1, **{"device": "cpu", key: value}))  # type: ignore[arg-type]
