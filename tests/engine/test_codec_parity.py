"""The codec equals the official decoder, whose output is in tests/parity/golden."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from engine.api import FRAME_SAMPLES
from engine.model.codec import Codec
from engine.model.config import read_config
from tests.engine.random_codec_weights import CONFIG, random_codes, random_weights
from tests.parity.codec_cases import EMBEDDED, LONG_FRAMES, digest, fingerprint

GOLDEN = Path(__file__).parents[1] / "parity" / "golden"
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}  # of samples in [-1, 1]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)  # tiny matrices: more threads are slower


@cache
def codec(dtype: torch.dtype = torch.float32) -> Codec:
    return Codec.load(CONFIG, random_weights(), dtype=dtype)


@cache
def embedded() -> Codec:
    tensors = load_file(EMBEDDED / "speech_tokenizer" / "model.safetensors")
    return Codec.load(read_config(EMBEDDED).codec, tensors)


@cache
def golden(name: str) -> dict[str, np.ndarray]:
    with np.load(GOLDEN / f"codec_{name}.npz") as arrays:
        return dict(arrays)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=["fp32", "fp64"])
def test_whole_decode_equals_the_official_decoder(dtype: torch.dtype) -> None:
    expected, name = golden("random"), "fp64" if dtype is torch.float64 else "fp32"
    np.testing.assert_array_equal(fingerprint(random_weights()), expected["weights"])

    samples = codec(dtype).decode(torch.from_numpy(expected["codes"]).long())

    found = digest(samples, name)
    assert found[f"{name}_samples"].std() > 0.05
    for key, values in found.items():
        np.testing.assert_allclose(values, expected[key], rtol=0, atol=TOLERANCE[dtype])


def test_embedded_voice_equals_the_official_decoder() -> None:
    expected = golden("embedded")

    samples = embedded().decode(torch.from_numpy(expected["codes"]).long())

    for key, values in digest(samples, "fp32").items():
        np.testing.assert_allclose(values, expected[key], rtol=0, atol=1e-5)


def test_official_decoder_forgets_all_but_25_frames_after_300() -> None:
    expected = golden("random")
    codes = random_codes(CONFIG, 1, LONG_FRAMES)
    cut = 300 * FRAME_SAMPLES

    exact = codec().decode(codes)
    restarted = codec().decode(codes[:, 300 - 25 :])[:, 25 * FRAME_SAMPLES :]
    official = torch.cat([exact[:, :cut], restarted], 1)

    for key, values in digest(official, "chunked").items():
        np.testing.assert_allclose(values, expected[key], rtol=0, atol=1e-5)
    assert (exact[:, cut:] - restarted).abs().max() > 1e-3  # which is why we do not do it


def test_embedded_voice_in_chunks_equals_the_official_decoder() -> None:
    expected, model = golden("embedded"), embedded()
    codes = torch.from_numpy(expected["codes"]).long()
    state, slots = model.new_state(2), torch.tensor([1])

    first, *others = codes.split([1, 2, 4, 8, 12, 1, 12, 12, 8], 1)  # past the window of 32
    parts = [model.start(first, state, slots)]
    parts += [model.step(chunk, state, slots) for chunk in others]

    for key, values in digest(torch.cat(parts, 1), "fp32").items():
        np.testing.assert_allclose(values, expected[key], rtol=0, atol=1e-5)
