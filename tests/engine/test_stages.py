"""Batches on shared slot state: rows never feel their neighbours, and remember nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.api import Sampling
from engine.model.checkpoint import Checkpoint, load
from engine.stages.state import positions_for
from engine.work import Outcome, Stage
from tests.engine.random_checkpoint import make
from tests.engine.staging import CPU, TEXTS, Bench, add_segment, alone, speaking


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    folder: Path = tmp_path_factory.mktemp("stages") / "checkpoint"
    return load(make(folder), device=CPU, dtype=torch.float32)


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


def speak_two_segments(
    checkpoint: Checkpoint, first: str, second: str, **options: object
) -> list[Tensor]:
    """Speak two segments of one utterance, three frames each, the first ended by decree."""
    bench, each = Bench(checkpoint), speaking(checkpoint, first, **options)
    add_segment(checkpoint, each, second)
    bench.speak([each], 3)
    each.advance(Stage.TALKER, 1)
    each.commit(Stage.TALKER, 1, Outcome(end_of_speech=True))
    each.fix_layout()

    bench.speak([each], 3)

    return list(bench.state.codes[0, :6].clone().split(3))


def test_the_next_segment_follows_in_the_same_timeline(checkpoint: Checkpoint) -> None:
    greedy = Sampling(temperature=0.0, predictor_temperature=0.0)

    first, second = speak_two_segments(checkpoint, TEXTS[0], TEXTS[2], sampling=greedy)

    assert torch.equal(first, alone(checkpoint, TEXTS[0], 3, sampling=greedy))
    assert torch.equal(second, alone(checkpoint, TEXTS[2], 3, sampling=greedy))


def test_the_next_segment_draws_other_numbers(checkpoint: Checkpoint) -> None:
    first, second = speak_two_segments(checkpoint, TEXTS[0], TEXTS[0])

    assert not torch.equal(first, second)


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


def test_a_row_that_is_not_finite_fails_alone(checkpoint: Checkpoint) -> None:
    bench = Bench(checkpoint)
    pair = [speaking(checkpoint, TEXTS[0], slot=slot) for slot in (0, 1)]
    bench.speak(pair, 1)
    bench.state.cache.values[0, 0, 0, 0, 0] = torch.nan

    outcomes = bench.run(Stage.TALKER, pair)

    assert [outcome.error for outcome in outcomes] == ["generation_failed", ""]
    assert bench.state.cache.values.isfinite().all()


def test_instructions_stand_before_the_text(checkpoint: Checkpoint) -> None:
    bench = Bench(checkpoint)

    plain = bench.talker.prompt(speaking(checkpoint, TEXTS[0]))
    told = bench.talker.prompt(speaking(checkpoint, TEXTS[0], instructions="Whisper."))

    assert list(told.text) == [*checkpoint.tokenizer.instruct("Whisper."), *plain.text]
