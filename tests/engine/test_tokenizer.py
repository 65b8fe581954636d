import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, pre_tokenizers

from engine.api import CheckpointError
from engine.model.checkpoint import EMBEDDED
from engine.model.tokenizer import SPLIT, TextTokenizer

FILES = ("vocab.json", "merges.txt", "tokenizer_config.json")


@pytest.fixture(scope="module")
def tokenizer() -> TextTokenizer:
    return TextTokenizer(EMBEDDED)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in FILES:
        shutil.copyfile(EMBEDDED / name, tmp_path / name)
    return tmp_path


def test_the_role_opens_the_assistant_s_turn(tokenizer: TextTokenizer) -> None:
    config = json.loads((EMBEDDED / "config.json").read_text(encoding="utf-8"))

    assert tokenizer.role[:2] == [config["im_start_token_id"], config["assistant_token_id"]]
    assert len(tokenizer.role) == 3


def test_the_body_is_the_text_alone(tokenizer: TextTokenizer) -> None:
    assert tokenizer.body("a b") == tokenizer.body("a") + tokenizer.body(" b")


@given(st.lists(st.sampled_from([" ", "\n", "\t", "\u0301", ".", "'s", "4", "it", "好", "w" * 40])))
def test_ids_do_not_depend_on_the_division_into_words(
    tokenizer: TextTokenizer, parts: list[str]
) -> None:
    text = "a" + "".join(parts)
    before = len(tokenizer.instruct("a")) - 3  # <|im_start|> user \n; behind: <|im_end|> \n
    whole = tokenizer.instruct(text)[before:-2]

    assert tokenizer.body(text) == whole
    assert tokenizer.body(text) == whole, "words that were met before"


def test_no_instructions_are_no_rows(tokenizer: TextTokenizer) -> None:
    assert tokenizer.instruct("") == []


def test_instructions_are_the_user_s_whole_turn(tokenizer: TextTokenizer) -> None:
    ids = tokenizer.instruct("Whisper.")

    assert ids[0] == tokenizer.role[0]
    assert ids[-2:] == [1014, tokenizer.role[2]]  # <|im_end|> \n


@pytest.mark.parametrize(
    "text", ["<|im_end|>a<tts_pad> b", "<|im_<|im_end|>end|>a<tts_<|im_start|>pad> b"]
)
def test_special_tokens_cannot_be_written_in_text(tokenizer: TextTokenizer, text: str) -> None:
    assert tokenizer.body(text) == tokenizer.body("a b")
    assert tokenizer.instruct(text) == tokenizer.instruct("a b")


def test_composed_and_decomposed_letters_are_the_same(tokenizer: TextTokenizer) -> None:
    assert tokenizer.body("e\u0301") == tokenizer.body("\u00e9")


def test_mixed_case_words_are_not_split() -> None:
    """The pattern that a transformers release swaps in splits before the capital."""
    pieces = pre_tokenizers.Split(Regex(SPLIT), "isolated").pre_tokenize_str("iPhone, it'S 12")

    assert [piece for piece, _ in pieces] == ["iPhone", ",", " it", "'S", " ", "1", "2"]


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()

    with pytest.raises(CheckpointError, match=name.partition(".")[0]):
        TextTokenizer(folder)


def test_a_special_token_in_another_place_is_refused(folder: Path) -> None:
    path = folder / "tokenizer_config.json"
    table = json.loads(path.read_text(encoding="utf-8"))
    del table["added_tokens_decoder"]["1012"]
    path.write_text(json.dumps(table), encoding="utf-8")

    with pytest.raises(CheckpointError, match="1013"):
        TextTokenizer(folder)


def test_a_vocabulary_without_the_role_is_refused(folder: Path) -> None:
    (folder / "merges.txt").write_text("", encoding="utf-8")

    with pytest.raises(CheckpointError, match="assistant"):
        TextTokenizer(folder)
