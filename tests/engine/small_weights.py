"""A checkpoint with random weights that kernels can run: small, with heads of 32."""

from __future__ import annotations

from dataclasses import replace

import torch

from engine.model.checkpoint import Checkpoint, load_random
from engine.model.config import CheckpointConfig
from engine.model.random_weights import full_size

CODES = 200
GROUPS = 4  # of sixteen: the interpreter is slow


def small_config() -> CheckpointConfig:
    """Sizes that differ from each other where they could be confused."""
    config = full_size("random:1.7b")
    sizes = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32}
    sizes |= {"num_code_groups": GROUPS}
    return replace(
        config,
        tts_pad_token_id=1015,
        tts_bos_token_id=1016,
        tts_eos_token_id=1017,
        talker=replace(
            config.talker, **sizes, hidden_size=96, intermediate_size=160, num_hidden_layers=2,
            vocab_size=CODES + 1024, text_hidden_size=48, text_vocab_size=1024,
            codec_eos_token_id=CODES + 102, codec_think_id=CODES + 106,
            codec_nothink_id=CODES + 107, codec_think_bos_id=CODES + 108,
            codec_think_eos_id=CODES + 109, codec_pad_id=CODES + 100, codec_bos_id=CODES + 101,
            spk_id={"ryan": CODES + 1013}, codec_language_id={"english": CODES + 2},
        ),
        predictor=replace(
            config.predictor, **sizes, hidden_size=64, intermediate_size=80, num_hidden_layers=1,
            vocab_size=CODES,
        ),
        codec=replace(
            config.codec, codebook_size=CODES, codebook_dim=32, latent_dim=48, hidden_size=32,
            intermediate_size=40, head_dim=16, num_attention_heads=4, num_hidden_layers=2,
            sliding_window=9, decoder_dim=64, num_quantizers=GROUPS,
        ),
    )  # fmt: skip


def tiled_config() -> CheckpointConfig:
    """Few layers of full size: products that have tiles of ours, which differ by rows."""
    config, small = full_size("random:1.7b"), small_config()
    return replace(
        small,
        talker=replace(
            config.talker, num_hidden_layers=2, text_hidden_size=48, text_vocab_size=1024
        ),
        predictor=replace(config.predictor, num_hidden_layers=2),
    )


def small_checkpoint(device: torch.device) -> Checkpoint:
    """In fp32, where equality of codes can be asked for."""
    return load_random(small_config(), device=device, dtype=torch.float32)
