"""TOML → frozen dataclasses. Unknown keys and wrong types are refused with what is known.

Defaults stand here, once; `configs/default.toml` shows each with a comment, and a test keeps the
two equal.
"""

from __future__ import annotations

import dataclasses
import math
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from engine.api import ConfigError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")

MOST_ROWS = 2048  # graphs are captured for powers of two up to this
NO_CARD_SLOTS = 8  # utterances at once, where no card's memory says how many


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """What speaks, and on what."""

    checkpoint: str = "embedded"  # "embedded", "silent" (tones, no model), a directory or a hub id
    device: str = "auto"  # "auto", "cpu", "cuda", "cuda:1"
    dtype: str = (
        "auto"  # Talker and Predictor: "auto" (fp32 on CPU, bf16 on CUDA), "float32", "bfloat16"
    )
    codec_dtype: str = "auto"  # "auto" (fp32 on CPU, fp16 on CUDA), "float32", "float16"
    threads: int = 0  # CPU threads of the model; 0: 1 if it is tiny, else one per core, at most 4
    slots: int = NO_CARD_SLOTS  # utterances at once; 0: as many as the card's memory holds
    rows: int = 32  # most works in one batch
    overlap: bool = True  # on CUDA: first sounds and chunks run beside the steps of the others
    deterministic: bool = False  # company changes no code that is drawn; costs throughput
    normalise: str = "auto"  # numbers to words: "auto" (embedded voice only), "on", "off"
    segment_seconds: float = 0.0  # s of speech per prompt; 0: the checkpoint's own limit (12 or 60)

    def __post_init__(self) -> None:
        """Refuse what the device could not be laid out for. Raises ConfigError."""
        if self.slots < 0:
            raise ConfigError(f"`slots`: want 0 (by memory) or more, got: {self.slots}")
        within("rows", self.rows, 1, MOST_ROWS)

    @property
    def slots_without_card(self) -> int:
        """`slots` on a CPU, for tones and in the simulator: there is no card to be asked."""
        return self.slots or NO_CARD_SLOTS


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """When work must start; all in seconds."""

    patience: float = (
        0.06  # start-up urgency: an unspoken utterance is due this long after it opened
    )
    margin: float = 0.025  # start this much before the latest moment: jitter of host and network
    chunk_ladder: tuple[int, ...] = (1, 2, 4, 8, 12)  # frames per chunk, growing with the lead
    stock: float = 0.9  # s of sound made ahead up to which an utterance is worth a launch
    comfort: float = 0.5  # s of sound sent ahead below which a resting utterance sends what it has
    load_limit: float = 0.9  # share of the device's time that admission counts on
    reserve: float = 0.08  # s of sound that every listener keeps ahead, as admission predicts
    hold: float = 0.15  # s a newcomer waits for room before it is refused

    def __post_init__(self) -> None:
        """Refuse what nothing can be planned by. Raises ConfigError."""
        ladder = list(self.chunk_ladder)
        if not ladder or ladder[0] < 1 or ladder != sorted(set(ladder)):
            raise ConfigError(f"`chunk_ladder`: want rising numbers from 1 on, got: {ladder}")
        not_negative(self)


@dataclass(frozen=True, slots=True)
class TrimConfig:
    """Silence: what is never sent before the sound, and how much of it ends an utterance."""

    threshold_db: float = -45.0  # dBFS: quieter 20 ms windows are silence
    keep: float = 0.02  # s kept before the onset
    longest: float = 1.0  # s removed at most
    runaway: float = 2.5  # s of silence inside speech after which it counts as run away


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Everything one engine process needs."""

    model: ModelConfig = field(default_factory=ModelConfig)
    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)
    trim: TrimConfig = field(default_factory=TrimConfig)
    trace: str = ""  # folder for what the engine did lately; "": keep nothing


def within(key: str, value: int, least: int, most: int) -> None:
    """Refuse a number outside its bounds. Raises ConfigError."""
    if not least <= value <= most:
        raise ConfigError(f"`{key}`: want {least} to {most}, got: {value}")


def not_negative(config: DataclassInstance) -> None:
    """Refuse a table with a number below 0. Raises ConfigError."""
    for each in dataclasses.fields(config):
        value = getattr(config, each.name)
        if isinstance(value, int | float) and value < 0:
            raise ConfigError(f"`{each.name}`: want 0 or more, got: {value}")


def load(
    path: Path | None,
    overrides: Sequence[str],
    sections: Mapping[str, type[T]],
    *,
    others: Sequence[str] = (),
) -> dict[str, T]:
    """Read `path` and `--set` overrides into one dataclass per top-level table.

    Args:
        path: a TOML file, or None for defaults alone.
        overrides: `table.key=value` with a TOML value; a bare word counts as a string.
        sections: the dataclass of each top-level table that may appear.
        others: tables for other processes that share the file; not looked into.

    Raises: ConfigError naming file, key and what would be right.
    """
    where = str(path) if path else "--set"
    tables = _read(path) if path else {}
    for override in overrides:
        _override(tables, override)
    unknown = sorted(set(tables) - set(sections) - set(others))
    if unknown:
        raise ConfigError(
            f"{where}: unknown table `{unknown[0]}`; known tables: {', '.join(sections)}"
        )
    return {
        name: _build(kind, tables.get(name, {}), f"{where}: `{name}`")
        for name, kind in sections.items()
    }


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: is not valid TOML: {error}") from error


def _override(tables: dict[str, Any], override: str) -> None:
    name, equals, text = override.partition("=")
    keys = name.strip().split(".")
    if not equals or len(keys) < 2:
        raise ConfigError(f"--set: want `table.key=value`, got: {override}")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    table = tables
    for key in keys[:-1]:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise ConfigError(f"--set: `{key}` in `{name}` is a value, not a table")
    table[keys[-1]] = value


def _build(kind: type[T], table: Any, where: str) -> T:
    if not isinstance(table, dict):
        raise ConfigError(f"{where}: want a table, got: {table!r}")
    hints = typing.get_type_hints(kind)
    unknown = sorted(set(table) - set(hints))
    if unknown:
        raise ConfigError(f"{where}: unknown key `{unknown[0]}`; known keys: {', '.join(hints)}")
    values = {key: _value(hints[key], value, f"{where}.`{key}`") for key, value in table.items()}
    try:
        return kind(**values)
    except ConfigError as error:  # what the dataclass itself refuses
        raise ConfigError(f"{where}.{error}") from error


def _value(hint: Any, value: Any, where: str) -> Any:
    if dataclasses.is_dataclass(hint):
        return _build(typing.cast(type[Any], hint), value, where)
    if typing.get_origin(hint) is tuple:
        if not isinstance(value, list):
            raise ConfigError(f"{where}: want a list, got: {_kind(value)}")
        item = typing.get_args(hint)[0]
        return tuple(_value(item, each, where) for each in value)
    if typing.get_origin(hint) is dict:
        if not isinstance(value, dict):
            raise ConfigError(f"{where}: want a table, got: {_kind(value)}")
        item = typing.get_args(hint)[1]
        return {key: _value(item, each, f"{where}.`{key}`") for key, each in value.items()}
    if typing.get_origin(hint) is types.UnionType:
        hint = next(each for each in typing.get_args(hint) if each is not type(None))
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise ConfigError(f"{where}: want {hint.__name__}, got: {value!r}")
    if hint is float and not math.isfinite(value):
        raise ConfigError(f"{where}: want a finite number, got: {value!r}")
    return value


def _kind(value: object) -> str:
    """Name a value's type and not the value: lists hold secrets."""
    return type(value).__name__
