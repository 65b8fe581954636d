"""Random weights in memory: the same for the same seed, complete, never at the end of speech."""

from __future__ import annotations

import pytest
import torch

from engine.api import FRAME_SAMPLES, CheckpointError
from engine.model.random_weights import RandomTensors, full_size
from engine.stages import ModelStages
from engine.work import Batch, Stage
from tests.engine.small_weights import small_checkpoint, small_config
from tests.engine.staging import CPU, speaking, work


def tensors(seed: int = 1) -> RandomTensors:
    return RandomTensors(small_config(), CPU, torch.float32, seed)


def test_a_tensor_depends_on_its_name_and_the_seed_alone() -> None:
    one, other = tensors(), tensors()
    other.take("some.other.weight", 4, 4)

    assert torch.equal(one.take("a.weight", 8, 8), other.take("a.weight", 8, 8))
    assert not torch.equal(one.take("b.weight", 8, 8), one.take("a.weight", 8, 8))
    assert not torch.equal(tensors(2).take("a.weight", 8, 8), one.take("a.weight", 8, 8))


def test_end_of_speech_has_no_weight() -> None:
    config = small_config().talker

    head = tensors().take("talker.codec_head.weight", config.vocab_size, config.hidden_size)

    assert not head[config.codec_eos_token_id].any()
    assert head[config.codec_eos_token_id - 1].any()


def test_unknown_sizes_are_refused() -> None:
    with pytest.raises(CheckpointError, match=r"random:1\.7b, random:0\.6b, got: random:7b"):
        full_size("random:7b")


def test_the_smaller_model_differs_where_it_should() -> None:
    small = full_size("random:0.6b")

    assert small.talker.hidden_size == small.predictor.hidden_size == 1024
    assert not small.instructions


def test_random_weights_speak() -> None:
    checkpoint = small_checkpoint(CPU)
    stages = ModelStages(
        checkpoint, name="random", slots=1, rows=1, segment_seconds=4.0, normalise=False
    )
    each = speaking(checkpoint, "Hello.", voice="")

    for stage in (Stage.PREFILL, Stage.PREDICTOR, Stage.CODEC):
        outcome = stages.launch(Batch(stage, [work(each, stage)])).outcomes()[0]
        assert outcome.error == ""
        each.advance(stage, 1)

    assert len(outcome.pcm) == 2 * FRAME_SAMPLES
    assert any(outcome.pcm)
