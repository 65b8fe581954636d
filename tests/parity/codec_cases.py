"""What the codec's golden files hold, for their writer and for the test."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from torch import Tensor

EMBEDDED = Path(__file__).parents[2] / "engine" / "voices" / "tiny"
FRAME_SAMPLES = 1920
FRAMES = 60
LONG_FRAMES = 330  # the official chunks are of 300 frames: from there on its sound is another
EVERY = 101  # samples from one that is kept to the next: shares no factor with any rate


def digest(samples: Tensor, name: str) -> dict[str, np.ndarray]:
    """Keep the mean square of every frame and every 101st of the samples (1, time)."""
    values = samples[0].numpy()
    powers = np.square(values.astype(np.float64)).reshape(-1, FRAME_SAMPLES).mean(1)
    return {f"{name}_powers": powers, f"{name}_samples": values[::EVERY]}


def fingerprint(tensors: Mapping[str, Tensor]) -> np.ndarray:
    """Tell whether the same random weights were drawn."""
    return np.array([float(tensor.double().abs().sum()) for tensor in tensors.values()])
