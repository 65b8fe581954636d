"""Sound with a known onset."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable

from engine.api import SAMPLE_RATE


def packed(samples: Iterable[float]) -> bytes:
    """int16 samples."""
    values = [round(value) for value in samples]
    return struct.pack(f"<{len(values)}h", *values)


def silence(seconds: float, *, level: float = 0.0) -> bytes:
    """Nothing, or a constant."""
    return packed([level] * round(seconds * SAMPLE_RATE))


def sine(seconds: float, *, amplitude: float = 8_000.0, level: float = 0.0) -> bytes:
    """400 Hz around `level`: eight whole periods in 20 ms."""
    step = 2 * math.pi * 400 / SAMPLE_RATE
    count = round(seconds * SAMPLE_RATE)
    return packed(level + amplitude * math.sin(step * index) for index in range(count))
