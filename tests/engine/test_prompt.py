from pathlib import Path

import pytest

from engine.model.config import CheckpointConfig, read_config
from engine.prompt import Prompt, assemble, header, languages, step_text
from engine.segment import Segment
from tests.engine.random_checkpoint import CODES, make

PAD, BOS, EOS = 1015, 1016, 1017
CODEC_PAD, CODEC_BOS = CODES + 100, CODES + 101
THINK, NOTHINK, OPEN, CLOSE = CODES + 106, CODES + 107, CODES + 108, CODES + 109
ROLE = [1, 2, 3]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> CheckpointConfig:
    folder: Path = tmp_path_factory.mktemp("prompt") / "checkpoint"
    return read_config(make(folder))


def lay_out(
    config: CheckpointConfig, *, whole: bool, instructions: list[int] | None = None
) -> Prompt:
    return assemble(
        config,
        instructions=instructions or [],
        role=ROLE,
        header=[91, 92, 93],
        body=[11, 12],
        whole=whole,
    )


@pytest.mark.parametrize(
    ("voice", "language", "spoken"),
    [
        ("ryan", "auto", None),
        ("ryan", "english", "english"),
        ("ryan", "chinese", "chinese"),
        ("eric", "auto", "sichuan_dialect"),
        ("eric", "chinese", "sichuan_dialect"),
        ("dylan", "german", "german"),
    ],
)
def test_a_dialect_speaker_speaks_it_unless_another_language_is_asked_for(
    config: CheckpointConfig, voice: str, language: str, spoken: str | None
) -> None:
    talker = config.talker

    ids = header(talker, voice, language)

    if spoken:
        assert ids[:4] == [THINK, OPEN, talker.codec_language_id[spoken], CLOSE]
    else:
        assert ids[:3] == [NOTHINK, OPEN, CLOSE]
    assert ids[-2:] == [talker.spk_id[voice], CODEC_PAD]
    assert len(ids) == (6 if spoken else 5)


def test_dialects_are_not_languages_to_ask_for(config: CheckpointConfig) -> None:
    assert languages(config.talker) == ("chinese", "english", "german")


def test_whole_text_stands_before_the_first_frame(config: CheckpointConfig) -> None:
    prompt = lay_out(config, whole=True)

    assert list(prompt.text) == [*ROLE, PAD, PAD, BOS, 11, 12, EOS, PAD]
    assert list(prompt.codes) == [91, 92, 93, CODEC_PAD, CODEC_PAD, CODEC_PAD, CODEC_BOS]


def test_streamed_text_begins_with_its_first_token(config: CheckpointConfig) -> None:
    prompt = lay_out(config, whole=False)

    assert list(prompt.text) == [*ROLE, PAD, PAD, BOS, 11]
    assert list(prompt.codes) == [91, 92, 93, CODEC_BOS]


def test_instructions_come_first_and_have_no_codes(config: CheckpointConfig) -> None:
    plain, instructed = (
        lay_out(config, whole=True),
        lay_out(config, whole=True, instructions=[7, 8]),
    )

    assert list(instructed.text) == [7, 8, *plain.text]
    assert list(instructed.codes) == list(plain.codes)


def test_whole_text_is_followed_by_padding_alone(config: CheckpointConfig) -> None:
    segment = Segment(0, 2, [11, 12], closed=True, whole=True)

    assert [step_text(config, segment, step) for step in range(1, 5)] == [PAD] * 4


def test_streamed_text_is_followed_by_its_end_and_padding(config: CheckpointConfig) -> None:
    segment = Segment(0, 3, [11, 12, 13], closed=True)

    assert [step_text(config, segment, step) for step in range(1, 6)] == [12, 13, EOS, PAD, PAD]


def test_a_starved_segment_is_never_fed_its_end(config: CheckpointConfig) -> None:
    segment = Segment(0, 2, [11, 12])

    assert step_text(config, segment, 1) == 12
    with pytest.raises(AssertionError, match="starved"):
        step_text(config, segment, 2)
