"""Configuration files: what stands in them is what the dataclasses hold, and mistakes are named."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from engine.api import ConfigError
from engine.config import EngineConfig, load

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
SECTIONS = {"engine": EngineConfig}


def read(text: str, folder: Path) -> EngineConfig:
    path = folder / "test.toml"
    path.write_text(text, encoding="utf-8")
    return load(path, [], SECTIONS)["engine"]


def plain(value: Any) -> Any:
    """A dataclass as TOML would read it back."""
    if dataclasses.is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return list(value) if isinstance(value, tuple) else value


def test_default_toml_shows_every_key_with_its_default() -> None:
    shown = tomllib.loads((CONFIGS / "default.toml").read_text(encoding="utf-8"))

    assert shown["engine"] == plain(EngineConfig())


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.toml")), ids=lambda path: path.name)
def test_every_key_in_configs_has_a_comment(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()

    bare = [
        line
        for before, line in zip(["", *lines], lines, strict=False)
        if re.match(r"[\w.]+ *=", line) and not before.startswith("#")
    ]

    assert not bare


def test_without_file_and_overrides_the_defaults_hold() -> None:
    assert load(None, [], SECTIONS)["engine"] == EngineConfig()


def test_file_and_override_meet_in_one_dataclass(tmp_path: Path) -> None:
    path = tmp_path / "test.toml"
    path.write_text("[engine.model]\nslots = 3\nrows = 5\n", encoding="utf-8")

    model = load(path, ["engine.model.rows=7"], SECTIONS)["engine"].model

    assert (model.slots, model.rows) == (3, 7)


def test_a_whole_number_is_a_good_float(tmp_path: Path) -> None:
    assert read("[engine.trim]\nlongest = 2\n", tmp_path).trim.longest == 2.0


def test_a_bare_word_in_an_override_is_a_string() -> None:
    config = load(None, ["engine.model.checkpoint=silent"], SECTIONS)["engine"]

    assert config.model.checkpoint == "silent"


def test_tables_of_other_processes_are_not_looked_into(tmp_path: Path) -> None:
    path = tmp_path / "test.toml"
    path.write_text("[gateway]\nwhatever = 1\n", encoding="utf-8")

    assert load(path, [], SECTIONS, others=["gateway"])["engine"] == EngineConfig()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[engin]\n", "unknown table `engin`; known tables: engine"),
        ("[engine.model]\nslot = 1\n", "unknown key `slot`; known keys: checkpoint"),
        ("[engine.model]\nslots = '8'\n", "`slots`: want int, got: '8'"),
        ("[engine.model]\nslots = true\n", "`slots`: want int, got: True"),
        ("[engine.model]\nslots = 8.5\n", "`slots`: want int, got: 8.5"),
        ("[engine.model]\ncheckpoint = 7\n", "`checkpoint`: want str, got: 7"),
        ("[engine.model]\nslots = -1\n", "`model`.`slots`: want 0 (by memory) or more, got: -1"),
        ("[engine.model]\nrows = 0\n", "`model`.`rows`: want 1 to 2048, got: 0"),
        ("[engine.model]\nrows = 4096\n", "`model`.`rows`: want 1 to 2048, got: 4096"),
        ("[engine.scheduler]\nchunk_ladder = 4\n", "`chunk_ladder`: want a list, got: int"),
        ("[engine.scheduler]\nchunk_ladder = [1, 'a']\n", "`chunk_ladder`: want int, got: 'a'"),
        ("[engine.scheduler]\nchunk_ladder = []\n", "want rising numbers from 1 on, got: []"),
        ("[engine.scheduler]\nchunk_ladder = [0, 1]\n", "from 1 on, got: [0, 1]"),
        ("[engine.scheduler]\nchunk_ladder = [8, 1]\n", "from 1 on, got: [8, 1]"),
        ("[engine.scheduler]\nmargin = -1\n", "`margin`: want 0 or more, got: -1"),
        ("[engine]\nmodel = 'embedded'\n", "`model`: want a table, got: 'embedded'"),
        ("engine = 1\n", "`engine`: want a table, got: 1"),
        ("[engine\n", "is not valid TOML"),
    ],
)
def test_a_mistake_in_a_file_is_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)) as raised:
        read(text, tmp_path)

    assert str(tmp_path / "test.toml") in str(raised.value)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("engine.model.slots", "want `table.key=value`, got: engine.model.slots"),
        ("slots=3", "want `table.key=value`, got: slots=3"),
        ("engine.model.slots=many", "`slots`: want int, got: 'many'"),
        ("engine.model.slots.x=1", "`slots`: want int, got: {'x': 1}"),
        ("engin.model.slots=1", "unknown table `engin`"),
    ],
)
def test_a_mistake_in_an_override_is_named(override: str, words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        load(None, [override], SECTIONS)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml: cannot be read: No such file"):
        load(Path("nowhere.toml"), [], SECTIONS)
