"""A full-size checkpoint with random weights, in memory: for measurements where none can be had.

Random weights cost what trained ones cost, and say nothing about quality. Each tensor is drawn from
its own name and the seed, so their order does not matter. The row of end-of-speech is zero: its
logit is never among the best, and every utterance runs to its limit.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from engine.api import CheckpointError
from engine.model.config import (
    CheckpointConfig,
    CodecConfig,
    GenerationConfig,
    PredictorConfig,
    TalkerConfig,
)

PREFIX = "random:"  # of a checkpoint's name
SEED = 20_260_101

_DECODER: dict[str, Any] = {
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1_000_000.0,
    "num_code_groups": 16,
}
_SIZES = {"1.7b": ("1b7", 2048, 6144), "0.6b": ("0b6", 1024, 3072)}  # name, hidden, intermediate


def is_random(name: str) -> bool:
    """Whether a checkpoint's name asks for random weights."""
    return name.startswith(PREFIX)


def full_size(name: str) -> CheckpointConfig:
    """Return the published sizes of "random:1.7b" or "random:0.6b".

    Raises: CheckpointError for another size.
    """
    found = _SIZES.get(name.removeprefix(PREFIX))
    if found is None:
        known = ", ".join(PREFIX + size for size in _SIZES)
        raise CheckpointError(f"checkpoint: want one of {known}, got: {name}")
    size, hidden, inner = found
    return CheckpointConfig(
        tts_model_size=size,
        tts_model_type="custom_voice",
        tts_pad_token_id=151671,
        tts_bos_token_id=151672,
        tts_eos_token_id=151673,
        talker=_talker(hidden, inner),
        predictor=PredictorConfig(
            vocab_size=2048,
            hidden_size=1024,
            intermediate_size=3072,
            num_hidden_layers=5,
            **_DECODER,
        ),
        codec=_CODEC,
        generation=GenerationConfig(),
    )


def _talker(hidden: int, inner: int) -> TalkerConfig:
    return TalkerConfig(
        vocab_size=3072,
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=28,
        text_hidden_size=2048,
        text_vocab_size=151936,
        codec_eos_token_id=2150,
        codec_think_id=2154,
        codec_nothink_id=2155,
        codec_think_bos_id=2156,
        codec_think_eos_id=2157,
        codec_pad_id=2148,
        codec_bos_id=2149,
        spk_id={"ryan": 3061, "serena": 3066, "vivian": 3065, "aiden": 2861},
        spk_is_dialect={},
        codec_language_id={"english": 2050, "chinese": 2055, "german": 2053},
        **_DECODER,
    )


_CODEC = CodecConfig(
    codebook_size=2048,
    codebook_dim=512,
    latent_dim=1024,
    hidden_size=512,
    intermediate_size=1024,
    head_dim=64,
    num_attention_heads=16,
    num_hidden_layers=8,
    num_quantizers=16,
    rms_norm_eps=1e-5,
    rope_theta=10_000.0,
    sliding_window=72,
    upsample_rates=(8, 5, 4, 3),
    upsampling_ratios=(2, 2),
    decoder_dim=1536,
    sample_rate=24_000,
)


@dataclass(frozen=True, slots=True)
class RandomTensors:
    """Has the face of `engine.model.tensors.Tensors`; makes what it is asked for."""

    config: CheckpointConfig
    device: torch.device
    dtype: torch.dtype
    seed: int = SEED

    def take(self, name: str, *shape: int) -> Tensor:
        """Draw one tensor: norms around 1, biases small, embeddings 0.02, the rest by fan-in."""
        normal = self._normal(name, shape)
        if name.endswith("norm.weight"):
            tensor = 1 + 0.1 * normal
        elif name.endswith("bias") or "embedding" in name:
            tensor = 0.02 * normal
        else:
            tensor = normal / math.sqrt(shape[-1])
        if name == "talker.codec_head.weight":
            tensor[self.config.talker.codec_eos_token_id] = 0
        return tensor.to(self.dtype)

    def warn_of_rest(self) -> None:
        """Nothing is left over."""

    def codec(self) -> dict[str, Tensor]:
        """Draw the codec's tensors in fp32, alive and too quiet to clip."""
        from engine.model.random_codec import codec_shapes

        return {
            f"decoder.{name}": drawn.of(self._normal(name, drawn.shape))
            for name, drawn in codec_shapes(self.config.codec)
        }

    def _normal(self, name: str, shape: tuple[int, ...]) -> Tensor:
        generator = torch.Generator(self.device)
        generator.manual_seed(zlib.crc32(name.encode()) ^ self.seed)
        return torch.randn(shape, generator=generator, device=self.device)
