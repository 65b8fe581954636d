"""Find a checkpoint and load it: configuration, tokenizer, Talker, predictor, codec tensors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.api import CheckpointError
from engine.model.config import CheckpointConfig, read_config, read_json
from engine.model.predictor import Predictor, load_predictor
from engine.model.random_weights import SEED, RandomTensors
from engine.model.talker import Talker, load_talker
from engine.model.tensors import Tensors, TensorSource
from engine.model.tokenizer import TextTokenizer

EMBEDDED = Path(__file__).parent.parent / "voices" / "tiny"
POSITIONS = 4096  # rotary positions: prompt and speech of one segment; minutes more than any needs


@dataclass(frozen=True, slots=True)
class VoiceSettings:
    """What a checkpoint recommends beyond its official files: `voice.json`, if it has one."""

    default_voice: str
    segment_seconds: float = 60.0  # s of speech per prompt that still come out whole
    normalise: bool = False  # numbers must be spelt out for it
    instructions: bool = True  # it was trained to follow style instructions


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A loaded checkpoint."""

    path: Path
    config: CheckpointConfig
    settings: VoiceSettings
    tokenizer: TextTokenizer
    talker: Talker
    predictor: Predictor
    random: RandomTensors | None = None  # weights that no file holds

    def codec_tensors(self) -> dict[str, Tensor]:
        """Load the codec's `decoder.*` tensors in fp32: rounding them is audible."""
        if self.random is not None:
            return self.random.codec()
        folder = self.path / "speech_tokenizer"
        tensors = Tensors(folder, device=self.talker.device, dtype=torch.float32)
        names = tensors.names("decoder.")
        if not names:
            raise CheckpointError(f"{folder / 'model.safetensors'}: lacks any `decoder.` tensor")
        return {name: tensors.take(name) for name in names}


def locate(name: str) -> Path:
    """Return the folder of a checkpoint: "embedded", a directory, or a hub id, then downloaded.

    Raises: CheckpointError if there is no such thing.
    """
    if name == "embedded":
        return EMBEDDED
    path = Path(name).expanduser()
    if path.is_dir():
        return path
    if path.is_absolute() or name.startswith((".", "~")) or name.count("/") != 1:
        raise CheckpointError(
            f"checkpoint: want `embedded`, a directory or a hub id like `owner/name`, got: {name}"
        )
    return _download(name)


def load(path: Path, *, device: torch.device, dtype: torch.dtype) -> Checkpoint:
    """Load all of a checkpoint but the codec.

    Raises: CheckpointError naming file and cause.
    """
    config = read_config(path)
    settings = read_settings(path, config)
    tokenizer = TextTokenizer(path)
    tensors = Tensors(path, device=device, dtype=dtype)
    talker, predictor = _networks(tensors, config)
    tensors.warn_of_rest()
    return Checkpoint(path, config, settings, tokenizer, talker, predictor)


def load_random(
    config: CheckpointConfig, *, device: torch.device, dtype: torch.dtype, seed: int = SEED
) -> Checkpoint:
    """Make a checkpoint of random weights in memory; it reads with the embedded voice's words."""
    tensors = RandomTensors(config, device, dtype, seed)
    talker, predictor = _networks(tensors, config)
    return Checkpoint(
        EMBEDDED,
        config,
        VoiceSettings(next(iter(config.talker.spk_id)), instructions=config.instructions),
        TextTokenizer(EMBEDDED),
        talker,
        predictor,
        tensors,
    )


def _networks(tensors: TensorSource, config: CheckpointConfig) -> tuple[Talker, Predictor]:
    with torch.inference_mode():
        talker = load_talker(tensors, config.talker, positions=POSITIONS)
        tables = talker.code_tables()[:-1]  # the last group never enters the predictor
        predictor = load_predictor(tensors, config.predictor, config.talker, tables)
    return talker, predictor


def read_settings(folder: Path, config: CheckpointConfig) -> VoiceSettings:
    """Read `voice.json`, if the checkpoint has one. Raises: CheckpointError naming the mistake."""
    path = folder / "voice.json"
    table: dict[str, Any] = {
        "default_voice": next(iter(config.talker.spk_id), ""),
        "instructions": config.instructions,
    }
    if path.exists():
        table |= read_json(path)
    if table["default_voice"] not in config.talker.spk_id:
        raise CheckpointError(
            f"{path if path.exists() else folder / 'config.json'}: want a speaker of `spk_id` as "
            f"`default_voice`, got: {table['default_voice']!r}"
        )
    try:
        return VoiceSettings(**table)
    except TypeError as error:
        raise CheckpointError(f"{path}: has an unknown key: {error}") from error


def _download(name: str) -> Path:
    from huggingface_hub import snapshot_download  # lazily: offline use never needs it

    try:
        return Path(snapshot_download(name, allow_patterns=["*.json", "*.txt", "*.safetensors"]))
    except Exception as error:  # the hub client's errors are many: all mean "not available"
        raise CheckpointError(f"checkpoint: {name} cannot be downloaded: {error}") from error
