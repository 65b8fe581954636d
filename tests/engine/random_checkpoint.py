"""A tiny checkpoint in the official layout with random weights: the same seed, the same weights.

Every tensor is random, norms and biases included: the usual defaults (ones, zeros, tiny scales)
would hide a missing term. Sizes that could be confused differ. NumPy's legacy generator is frozen
by its own promise, so golden files need no weights beside them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from tests.engine.random_codec_weights import CONFIG, random_weights

VOICE = Path(__file__).resolve().parents[2] / "engine" / "voices" / "tiny"
TOKENIZER_FILES = ("vocab.json", "merges.txt", "tokenizer_config.json", "preprocessor_config.json")

CODES = 300
GROUPS = 16
VOCABULARY = CODES + 1024
EOS = CODES + 102


def make(folder: Path, *, size: str = "1b7", seed: int = 0, eos_always: bool = False) -> Path:
    """Write a checkpoint and return its folder.

    Args:
        size: "1b7", whose predictor is narrower than its Talker, or "0b6", where they are equal.
        eos_always: every state of the Talker ends speech as soon as it may.
    """
    config = _config(size)
    (folder / "speech_tokenizer").mkdir(parents=True)
    for name in TOKENIZER_FILES:
        shutil.copyfile(VOICE / name, folder / name)
    weights = _fill(_language_shapes(config), np.random.RandomState(seed))
    if eos_always:
        _always_end(weights)
    save_file(weights, folder / "model.safetensors")
    _write(folder / "config.json", config)
    _write(folder / "generation_config.json", GENERATION)
    _write_codec(folder / "speech_tokenizer")
    return folder


Shapes: TypeAlias = Iterator[tuple[str, tuple[int, ...], str]]  # name, shape, kind of tensor

GENERATION = {
    "do_sample": True,
    "repetition_penalty": 1.05,
    "temperature": 0.9,
    "top_p": 1.0,
    "top_k": 50,
    "subtalker_dosample": True,
    "subtalker_temperature": 0.9,
    "subtalker_top_p": 1.0,
    "subtalker_top_k": 50,
    "max_new_tokens": 8192,
}


CODEC_RATES = {
    "encoder_valid_num_quantizers": 16,
    "input_sample_rate": 24000,
    "decode_upsample_rate": 1920,
    "encode_downsample_rate": 1920,
}

# The official package builds an encoder too; speaking never uses it.
CODEC_ENCODER = {
    "hidden_size": 16,
    "num_filters": 4,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 16,
    "codebook_size": 8,
    "codebook_dim": 8,
    "vector_quantization_hidden_dimension": 8,
    "num_quantizers": 16,
    "upsample_groups": 16,
    "sampling_rate": 24000,
    "frame_rate": 12.5,
    "_frame_rate": 12.5,
    "num_semantic_quantizers": 1,
}


def _config(size: str) -> dict[str, Any]:
    predictor = {
        "model_type": "qwen3_tts_talker_code_predictor",
        "vocab_size": CODES,
        "hidden_size": 32 if size == "1b7" else 64,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1_000_000,
        "rope_scaling": None,
        "num_code_groups": GROUPS,
        "max_position_embeddings": 4096,
        "layer_types": ["full_attention"] * 2,
        "max_window_layers": 2,
        **_COMMON,
    }
    talker = {
        "model_type": "qwen3_tts_talker",
        "vocab_size": VOCABULARY,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 24,  # heads * head_dim is not hidden_size
        "rms_norm_eps": 1e-6,
        "rope_theta": 1_000_000,
        "rope_scaling": {
            "rope_type": "default",
            "type": "default",
            "interleaved": True,
            "mrope_section": [4, 4, 4],
        },
        "num_code_groups": GROUPS,
        "text_hidden_size": 48,
        "text_vocab_size": 1024,
        "max_position_embeddings": 4096,
        "codec_pad_id": CODES + 100,
        "codec_bos_id": CODES + 101,
        "codec_eos_token_id": EOS,
        "codec_think_id": CODES + 106,
        "codec_nothink_id": CODES + 107,
        "codec_think_bos_id": CODES + 108,
        "codec_think_eos_id": CODES + 109,
        "codec_language_id": {
            "chinese": CODES + 7,
            "english": CODES + 2,
            "german": CODES + 5,
            "beijing_dialect": CODES + 26,
            "sichuan_dialect": CODES + 14,
        },
        "spk_id": {"ryan": CODES + 1013, "eric": CODES + 827, "dylan": CODES + 830},
        "spk_is_dialect": {"ryan": False, "eric": "sichuan_dialect", "dylan": "beijing_dialect"},
        "code_predictor_config": predictor,
        **_COMMON,
    }
    return {
        "architectures": ["Qwen3TTSForConditionalGeneration"],
        "model_type": "qwen3_tts",
        "transformers_version": "4.57.1",  # otherwise the official package swaps the split regex
        "tokenizer_type": "qwen3_tts_tokenizer_12hz",
        "tts_model_type": "custom_voice",
        "tts_model_size": size,
        "assistant_token_id": 1011,
        "im_start_token_id": 1013,
        "im_end_token_id": 1014,
        "tts_pad_token_id": 1015,
        "tts_bos_token_id": 1016,
        "tts_eos_token_id": 1017,
        "talker_config": talker,
        "speaker_encoder_config": {"enc_dim": 64, "sample_rate": 24000},
    }


_COMMON = {
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "attention_bias": False,
    "attention_dropout": 0,
    "use_cache": True,
    "use_sliding_window": False,
    "sliding_window": None,
    "tie_word_embeddings": False,
}


def _language_shapes(config: dict[str, Any]) -> Shapes:
    talker = config["talker_config"]
    predictor = talker["code_predictor_config"]
    wide, text, narrow = (
        talker["hidden_size"],
        talker["text_hidden_size"],
        predictor["hidden_size"],
    )
    yield "talker.model.text_embedding.weight", (talker["text_vocab_size"], text), "table"
    yield "talker.model.codec_embedding.weight", (VOCABULARY, wide), "table"
    for index, out in ((1, text), (2, wide)):
        yield f"talker.text_projection.linear_fc{index}.weight", (out, text), "linear"
        yield f"talker.text_projection.linear_fc{index}.bias", (out,), "bias"
    yield "talker.codec_head.weight", (VOCABULARY, wide), "linear"
    yield from _decoder_shapes("talker.model", talker)
    yield from _decoder_shapes("talker.code_predictor.model", predictor)
    if wide != narrow:
        name = "talker.code_predictor.small_to_mtp_projection"
        yield f"{name}.weight", (narrow, wide), "linear"
        yield f"{name}.bias", (narrow,), "bias"
    for group in range(GROUPS - 1):
        name = f"talker.code_predictor.model.codec_embedding.{group}.weight"
        yield name, (CODES, wide), "table"
        yield f"talker.code_predictor.lm_head.{group}.weight", (CODES, narrow), "linear"


def _decoder_shapes(prefix: str, config: dict[str, Any]) -> Shapes:
    hidden, inner, width = (
        config["hidden_size"],
        config["intermediate_size"],
        config["head_dim"],
    )
    heads, keys = config["num_attention_heads"] * width, config["num_key_value_heads"] * width
    for index in range(config["num_hidden_layers"]):
        layer = f"{prefix}.layers.{index}"
        for name, out in (("q", heads), ("k", keys), ("v", keys)):
            yield f"{layer}.self_attn.{name}_proj.weight", (out, hidden), "linear"
        yield f"{layer}.self_attn.o_proj.weight", (hidden, heads), "linear"
        yield f"{layer}.self_attn.q_norm.weight", (width,), "norm"
        yield f"{layer}.self_attn.k_norm.weight", (width,), "norm"
        yield f"{layer}.mlp.gate_proj.weight", (inner, hidden), "linear"
        yield f"{layer}.mlp.up_proj.weight", (inner, hidden), "linear"
        yield f"{layer}.mlp.down_proj.weight", (hidden, inner), "linear"
        yield f"{layer}.input_layernorm.weight", (hidden,), "norm"
        yield f"{layer}.post_attention_layernorm.weight", (hidden,), "norm"
    yield f"{prefix}.norm.weight", (hidden,), "norm"


def _fill(shapes: Shapes, random: np.random.RandomState) -> dict[str, Tensor]:
    """Draw every tensor, in order."""
    return {name: _draw(shape, kind, random).bfloat16() for name, shape, kind in shapes}


def _draw(shape: tuple[int, ...], kind: str, random: np.random.RandomState) -> Tensor:
    normal = torch.from_numpy(random.standard_normal(shape).astype(np.float32))
    fan_in = normal[0].numel()
    match kind:
        case "norm":
            return 1 + 0.1 * normal
        case "bias":
            return 0.05 * normal
        case "linear":
            return 1.5 * fan_in**-0.5 * normal
        case "table":
            return normal
    raise AssertionError(kind)


def _write_codec(folder: Path) -> None:
    codec = replace(CONFIG, codebook_size=CODES)
    save_file(random_weights(codec), folder / "model.safetensors")
    decoder = asdict(codec) | {
        "num_key_value_heads": codec.num_attention_heads,
        "num_semantic_quantizers": 1,
        "layer_scale_initial_scale": 0.01,
        "hidden_act": "silu",
        "max_position_embeddings": 8000,
        "attention_bias": False,
        "attention_dropout": 0.0,
    }
    config = {
        "architectures": ["Qwen3TTSTokenizerV2Model"],
        "model_type": "qwen3_tts_tokenizer_12hz",
        "output_sample_rate": decoder.pop("sample_rate"),
        **CODEC_RATES,
        "decoder_config": decoder,
        "encoder_config": CODEC_ENCODER,
    }
    _write(folder / "config.json", config)
    name = "preprocessor_config.json"
    shutil.copyfile(VOICE / "speech_tokenizer" / name, folder / name)


def _always_end(weights: dict[str, Tensor]) -> None:
    """Keep one dimension of the residual stream constant and let only end-of-speech read it."""
    weights["talker.text_projection.linear_fc2.weight"][0] = 0
    weights["talker.text_projection.linear_fc2.bias"][0] = 20
    for name, tensor in weights.items():
        if name.endswith(("codec_embedding.weight",)) or ".codec_embedding." in name:
            tensor[:, 0] = 0
        if name.startswith("talker.model.") and name.endswith(
            ("o_proj.weight", "down_proj.weight")
        ):
            tensor[0] = 0
    head = weights["talker.codec_head.weight"]
    head[EOS] = 0
    head[EOS, 0] = 50


def _write(path: Path, table: dict[str, Any]) -> None:
    path.write_text(json.dumps(table, indent=1), encoding="utf-8")
