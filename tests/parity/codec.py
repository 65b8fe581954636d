"""Write the codec's golden files from the official package.

In the environment that tests/parity/generate.py describes:

    PYTHONPATH=.:stub python -m tests.parity.codec

The official decoder computes its norms and rotary angles in fp32 whatever its dtype; for the fp64
golden both are replaced by the same formula in fp64, so that fp64 means fp64.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from qwen_tts.core.tokenizer_12hz import modeling_qwen3_tts_tokenizer_v2 as official
from qwen_tts.core.tokenizer_12hz.configuration_qwen3_tts_tokenizer_v2 import (
    Qwen3TTSTokenizerV2DecoderConfig,
)
from safetensors.torch import load_file
from torch import Tensor

from engine.model.config import CodecConfig, read_config
from tests.engine.random_codec_weights import CONFIG, random_codes, random_weights
from tests.parity.codec_cases import EMBEDDED, FRAMES, LONG_FRAMES, digest, fingerprint

GOLDEN = Path(__file__).parent / "golden"


def main() -> None:
    """Decode the same codes as the tests do."""
    torch.set_num_threads(1)
    GOLDEN.mkdir(exist_ok=True)
    _write("codec_random", CONFIG, random_weights(), exact=True)
    tensors = load_file(EMBEDDED / "speech_tokenizer" / "model.safetensors")
    _write("codec_embedded", read_config(EMBEDDED).codec, tensors, exact=False)


@torch.inference_mode()
def _write(name: str, config: CodecConfig, tensors: dict[str, Tensor], *, exact: bool) -> None:
    tensors = {key: tensor.float() for key, tensor in tensors.items()}
    decoder = _decoder(config, tensors)
    codes = random_codes(config, 1, FRAMES)
    arrays = {"weights": fingerprint(tensors), "codes": codes.numpy().astype(np.int16)}
    arrays |= digest(decoder(codes.mT)[:, 0], "fp32")
    if exact:
        long = random_codes(config, 1, LONG_FRAMES)
        arrays |= digest(decoder.chunked_decode(long.mT)[:, 0], "chunked")
        arrays |= digest(_in_fp64(decoder, codes.mT)[:, 0], "fp64")
    np.savez_compressed(GOLDEN / f"{name}.npz", **arrays)
    print(name, {key: value.shape for key, value in arrays.items()})


def _decoder(config: CodecConfig, tensors: dict[str, Tensor]) -> Any:
    table = dataclasses.asdict(config) | {
        "num_key_value_heads": config.num_attention_heads,
        "upsample_rates": list(config.upsample_rates),
        "upsampling_ratios": list(config.upsampling_ratios),
    }
    decoder = official.Qwen3TTSTokenizerV2Decoder._from_config(
        Qwen3TTSTokenizerV2DecoderConfig(**table)
    )
    decoder.load_state_dict(
        {
            name.removeprefix("decoder."): tensor
            for name, tensor in tensors.items()
            if name.startswith("decoder.")
        }
    )
    return decoder.eval()


def _in_fp64(decoder: Any, codes: Tensor) -> Tensor:
    norm = patch.object(official.Qwen3TTSTokenizerV2DecoderRMSNorm, "forward", _norm)
    rotary = patch.object(official.Qwen3TTSTokenizerV2DecoderRotatoryEmbedding, "forward", _angles)
    with norm, rotary:
        return decoder.double()(codes)


def _norm(self: Any, x: Tensor) -> Tensor:
    power = x.pow(2).mean(-1, keepdim=True)
    return self.weight * (x * torch.rsqrt(power + self.variance_epsilon))


def _angles(self: Any, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
    width = self.config.head_dim
    exponents = torch.arange(0, width, 2, dtype=torch.float64) / width
    angle = position_ids[..., None].double() * self.config.rope_theta**-exponents
    angle = torch.cat([angle, angle], -1)
    return angle.cos(), angle.sin()


if __name__ == "__main__":
    main()
