"""The gateway's part of a configuration file."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from typing import Any

import pytest

from engine.api import ConfigError
from gateway import assets
from gateway.config import GatewayConfig, read


def plain(value: Any) -> Any:
    """A dataclass as TOML would read it back."""
    if dataclasses.is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return list(value) if isinstance(value, tuple) else value


def test_default_toml_shows_every_gateway_key_with_its_default() -> None:
    path = assets.folder("configs") / "default.toml"

    assert tomllib.loads(path.read_text(encoding="utf-8"))["gateway"] == plain(GatewayConfig())


@pytest.mark.parametrize("name", ["default", "fake"])
def test_shipped_files_are_accepted(name: str) -> None:
    config = read(assets.folder("configs") / f"{name}.toml", [])

    assert config.gateway == GatewayConfig()


def test_fake_configuration_needs_no_model() -> None:
    config = read(assets.folder("configs") / "fake.toml", [])

    assert config.engine.model.checkpoint == "silent"


def test_voice_aliases_are_a_table_of_names() -> None:
    config = read(None, ['gateway.openai.aliases={nova = "slt"}'])

    assert config.gateway.openai.aliases == {"nova": "slt"}


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("gateway.port=70000", "--set: `gateway`.`port`: want 0 to 65535, got: 70000"),
        ("gateway.port=-1", "--set: `gateway`.`port`: want 0 to 65535, got: -1"),
        ("gateway.port=http", "`port`: want int, got: 'http'"),
        ("gateway.prot=1", "unknown key `prot`; known keys: host, port"),
        ("gateway.engine=remote", "`engine`: want `local`, `unix:/path` or `tcp://host:port`"),
        ("gateway.tokens=secret", "`tokens`: want a list, got: str"),
        ("gateway.log_format=xml", "`log_format`: want one of text, json, got: 'xml'"),
        ("gateway.opus.bitrate=8000", "`bitrate`: want 16000 to 64000, got: 8000"),
        ("gateway.opus.complexity=11", "`complexity`: want 0 to 10, got: 11"),
        ("gateway.openai.default_format=mp3", "want one of wav, pcm, opus, got: 'mp3'"),
        ("gateway.openai.aliases=nova", "`aliases`: want a table, got: str"),
        ("gateway.openai.aliases.nova=3", "`nova`: want str, got: 3"),
        ("gateway.slow_client=-1.0", "`gateway`.`slow_client`: want 0 or more, got: -1.0"),
        ("gateway.limits.text=-1", "`gateway`.`limits`.`text`: want 0 or more, got: -1"),
        ("gateway.limits.sessions=1000000", "`sessions`: want 0 to 100000, got: 1000000"),
        (
            "gateway.limits.acks_per_second=0",
            "`limits`.`acks_per_second`: want more than 0, got: 0",
        ),
        ("gateway.max_lead=nan", "`max_lead`: want a finite number, got: nan"),
        ("gateway.limits.text=long", "`text`: want int, got: 'long'"),
    ],
)
def test_a_bad_value_is_named(override: str, words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        read(None, [override])


def test_assets_say_where_they_were_searched() -> None:
    with pytest.raises(FileNotFoundError, match="no folder `nothing`; searched"):
        assets.folder("nothing")
