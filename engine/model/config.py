"""A checkpoint's JSON files → frozen dataclasses with the JSON's own names.

Unknown keys are ignored, a missing one is a `CheckpointError` naming file and key. Architecture
numbers have no defaults: the official package's own are wrong for every released checkpoint.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from engine.api import CheckpointError

T = TypeVar("T")

RESERVED_CODES = (
    1024  # ids at the end of the Talker's vocabulary that are never frames (all but eos)
)


@dataclass(frozen=True, slots=True)
class CodecConfig:
    """The codec's decoder: 16 codes → 1920 samples."""

    codebook_size: int  # entries per codebook
    codebook_dim: int  # width of the quantizer's output; entries are half as wide
    latent_dim: int  # width between transformer and upsampling
    hidden_size: int  # transformer width
    intermediate_size: int
    head_dim: int
    num_attention_heads: int  # as many for keys and values
    num_hidden_layers: int
    num_quantizers: int
    rms_norm_eps: float
    rope_theta: float
    sliding_window: int  # frames a query sees, itself included
    upsample_rates: tuple[int, ...]  # SnakeBeta blocks
    upsampling_ratios: tuple[int, ...]  # ConvNeXt stages before them
    decoder_dim: int  # channels of the first convolution
    sample_rate: int  # Hz


@dataclass(frozen=True, slots=True)
class DecoderConfig:
    """What the Talker and the Code Predictor have in common: a Qwen3 decoder."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int  # not hidden_size / num_attention_heads
    rms_norm_eps: float
    rope_theta: float
    num_code_groups: int


@dataclass(frozen=True, slots=True)
class PredictorConfig(DecoderConfig):
    """The Code Predictor: codes 1 to 15 of a frame."""


@dataclass(frozen=True, slots=True)
class TalkerConfig(DecoderConfig):
    """The Talker: text → code 0 of each frame."""

    text_hidden_size: int
    text_vocab_size: int
    codec_eos_token_id: int
    codec_think_id: int
    codec_nothink_id: int
    codec_think_bos_id: int
    codec_think_eos_id: int
    codec_pad_id: int
    codec_bos_id: int
    spk_id: Mapping[str, int]  # speaker → row of the codec embedding
    spk_is_dialect: Mapping[str, str]  # speakers with a dialect → its name in codec_language_id
    codec_language_id: Mapping[str, int]

    @property
    def codes(self) -> int:
        """How many ids are frames; the rest of the vocabulary is reserved."""
        return self.vocab_size - RESERVED_CODES


@dataclass(frozen=True, slots=True)
class GenerationConfig:
    """How the checkpoint wants its codes drawn; defaults are the official wrapper's."""

    do_sample: bool = True
    repetition_penalty: float = 1.05
    temperature: float = 0.9
    top_p: float = 1.0
    top_k: int = 50
    subtalker_dosample: bool = True
    subtalker_temperature: float = 0.9
    subtalker_top_p: float = 1.0
    subtalker_top_k: int = 50


@dataclass(frozen=True, slots=True)
class CheckpointConfig:
    """Everything a checkpoint's JSON files say that is needed to speak."""

    tts_model_size: str  # "1b7", "0b6"
    tts_model_type: str
    tts_pad_token_id: int
    tts_bos_token_id: int
    tts_eos_token_id: int
    talker: TalkerConfig
    predictor: PredictorConfig
    codec: CodecConfig
    generation: GenerationConfig

    @property
    def instructions(self) -> bool:
        """Whether a style instruction means anything: the 0.6B was not trained for it."""
        return self.tts_model_size != "0b6"


def read_config(folder: Path) -> CheckpointConfig:
    """Read the JSON files of the checkpoint in `folder`.

    Raises: CheckpointError naming file and key.
    """
    root = read_json(folder / "config.json")
    codec = read_json(folder / "speech_tokenizer" / "config.json")
    generation = read_json(folder / "generation_config.json")
    where = str(folder / "config.json")
    talker = _table(root, "talker_config", where)
    predictor = _table(talker, "code_predictor_config", f"{where}: `talker_config`")
    decoder = _table(codec, "decoder_config", str(folder / "speech_tokenizer" / "config.json"))
    parts = {
        "talker": _build(TalkerConfig, talker, f"{where}: `talker_config`"),
        "predictor": _build(PredictorConfig, predictor, f"{where}: `code_predictor_config`"),
        "codec": _build(
            CodecConfig,
            {**decoder, "sample_rate": codec.get("output_sample_rate")},
            f"{folder / 'speech_tokenizer' / 'config.json'}: `decoder_config`",
        ),
        "generation": _build(GenerationConfig, generation, str(folder / "generation_config.json")),
    }
    config = _build(CheckpointConfig, {**root, **parts}, where)
    _agree(config, where)
    return config


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object. Raises: CheckpointError naming the file and the cause."""
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise CheckpointError(f"{path}: is not valid JSON: {error}") from error
    if not isinstance(table, dict):
        raise CheckpointError(f"{path}: want a JSON object, got: {type(table).__name__}")
    return table


def _agree(config: CheckpointConfig, where: str) -> None:
    """Refuse what would fail later, far from its cause."""
    if config.tts_model_type != "custom_voice":
        raise CheckpointError(
            f"{where}: want `tts_model_type` custom_voice, got: {config.tts_model_type}"
        )
    talker, predictor, codec = config.talker, config.predictor, config.codec
    sizes = {talker.codes, predictor.vocab_size, codec.codebook_size}
    if len(sizes) > 1:
        raise CheckpointError(
            f"{where}: Talker, Code Predictor and codec differ in codebook size: {sorted(sizes)}"
        )
    groups = {talker.num_code_groups, predictor.num_code_groups, codec.num_quantizers}
    if len(groups) > 1:
        raise CheckpointError(
            f"{where}: Talker, Code Predictor and codec differ in code groups: {sorted(groups)}"
        )
    for speaker, dialect in talker.spk_is_dialect.items():
        if dialect not in talker.codec_language_id:
            raise CheckpointError(
                f"{where}: `codec_language_id` lacks the dialect of {speaker}: {dialect}"
            )


def _table(parent: Mapping[str, Any], key: str, where: str) -> dict[str, Any]:
    if not isinstance(parent.get(key), dict):
        raise CheckpointError(f"{where}: want an object under `{key}`, got: {parent.get(key)!r}")
    return typing.cast(dict[str, Any], parent[key])


def _build(kind: type[T], table: Mapping[str, Any], where: str) -> T:
    hints = typing.get_type_hints(kind)
    values = {}
    for field in dataclasses.fields(typing.cast(Any, kind)):
        value = table.get(field.name)
        if value is not None:
            values[field.name] = _value(field.name, hints[field.name], value, where)
        elif field.default is dataclasses.MISSING:
            raise CheckpointError(f"{where}: lacks `{field.name}`")
    return kind(**values)


def _value(key: str, hint: Any, value: Any, where: str) -> Any:
    if key == "spk_id":
        return _names(value, where)
    if key == "spk_is_dialect":
        # Booleans and dialect names stand side by side in the published file.
        return {name.lower(): dialect for name, dialect in value.items() if dialect}
    if typing.get_origin(hint) is tuple and isinstance(value, list):
        return tuple(value)
    if typing.get_origin(hint) is Mapping or dataclasses.is_dataclass(value):
        return value
    accepted = (int, float) if hint is float else (typing.get_origin(hint) or hint)
    if not isinstance(value, typing.cast(types.UnionType, accepted)):
        raise CheckpointError(f"{where}: want {hint} for `{key}`, got: {value!r}")
    return value


def _names(speakers: Mapping[str, Any], where: str) -> dict[str, int]:
    """Lower-case names → rows; derived checkpoints write a row as a one-element list."""
    rows = {
        name.lower(): row[0] if isinstance(row, list) and len(row) == 1 else row
        for name, row in speakers.items()
    }
    for name, row in rows.items():
        if not isinstance(row, int):
            raise CheckpointError(f"{where}: want an id under `spk_id`.`{name}`, got: {row!r}")
    return rows
