import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.api import CheckpointError
from engine.model.checkpoint import EMBEDDED
from engine.model.config import GenerationConfig, read_config
from tests.engine.random_checkpoint import make

Edit = Callable[[dict[str, Any]], None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make(tmp_path / "checkpoint")


def edit(path: Path, change: Edit) -> None:
    table = json.loads(path.read_text(encoding="utf-8"))
    change(table)
    path.write_text(json.dumps(table), encoding="utf-8")


def test_the_embedded_voice_says_what_it_is() -> None:
    config = read_config(EMBEDDED)

    assert config.talker.codes == config.predictor.vocab_size == config.codec.codebook_size == 256
    assert config.talker.head_dim * config.talker.num_attention_heads == config.talker.hidden_size
    assert config.codec.sample_rate == 24_000
    assert not config.generation.do_sample


def test_unknown_keys_are_ignored(folder: Path) -> None:
    expected = read_config(folder)

    edit(folder / "config.json", lambda table: table["talker_config"].update(top_k=50, new=[1]))

    assert read_config(folder) == expected


@pytest.mark.parametrize(
    ("file", "tables", "key"),
    [
        ("config.json", [], "tts_pad_token_id"),
        ("config.json", ["talker_config"], "head_dim"),
        ("config.json", ["talker_config"], "codec_language_id"),
        ("config.json", ["talker_config"], "code_predictor_config"),
        ("config.json", ["talker_config", "code_predictor_config"], "rope_theta"),
        ("speech_tokenizer/config.json", ["decoder_config"], "codebook_dim"),
        ("speech_tokenizer/config.json", [], "decoder_config"),
    ],
)
def test_a_missing_key_is_named_with_its_file(
    folder: Path, file: str, tables: list[str], key: str
) -> None:
    def remove(table: dict[str, Any]) -> None:
        for name in tables:
            table = table[name]
        del table[key]

    edit(folder / file, remove)

    with pytest.raises(CheckpointError, match=key) as caught:
        read_config(folder)
    assert str(folder / file) in str(caught.value)


def test_generation_falls_back_to_the_official_defaults(folder: Path) -> None:
    (folder / "generation_config.json").write_text("{}", encoding="utf-8")

    assert read_config(folder).generation == GenerationConfig()
    assert GenerationConfig().repetition_penalty == 1.05


def test_speaker_ids_may_be_lists_of_one(folder: Path) -> None:
    edit(folder / "config.json", lambda table: table["talker_config"]["spk_id"].update(New=[7]))

    assert read_config(folder).talker.spk_id["new"] == 7


def test_a_speaker_id_that_is_no_row_is_refused(folder: Path) -> None:
    edit(folder / "config.json", lambda table: table["talker_config"]["spk_id"].update(x=[7, 8]))

    with pytest.raises(CheckpointError, match="spk_id"):
        read_config(folder)


def test_only_speakers_with_a_dialect_have_one(folder: Path) -> None:
    dialects = read_config(folder).talker.spk_is_dialect

    assert dialects == {"eric": "sichuan_dialect", "dylan": "beijing_dialect"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.update(tts_model_type="base"), "custom_voice"),
        (lambda table: table["talker_config"].update(vocab_size=1325), "codebook size"),
        (lambda table: table["talker_config"].update(num_code_groups=8), "code groups"),
        (lambda table: table["talker_config"].update(hidden_size="64"), "hidden_size"),
        (
            lambda table: table["talker_config"]["spk_is_dialect"].update(ryan="martian_dialect"),
            "martian_dialect",
        ),
    ],
)
def test_what_cannot_work_is_refused(folder: Path, change: Edit, message: str) -> None:
    edit(folder / "config.json", change)

    with pytest.raises(CheckpointError, match=message):
        read_config(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "\ufeffnull"])
def test_a_broken_file_is_named(folder: Path, text: str) -> None:
    (folder / "config.json").write_text(text, encoding="utf-8")

    with pytest.raises(CheckpointError, match=r"config\.json"):
        read_config(folder)


def test_only_the_small_model_ignores_instructions(tmp_path: Path) -> None:
    large = read_config(make(tmp_path / "large", size="1b7"))
    small = read_config(make(tmp_path / "small", size="0b6"))

    assert large.instructions
    assert not small.instructions
