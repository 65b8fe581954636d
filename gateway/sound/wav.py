"""The WAV header of 24 kHz mono int16 sound, written once before the samples."""

from __future__ import annotations

import struct

from engine.api import SAMPLE_RATE

CONTENT_TYPE = "audio/wav"
_UNKNOWN = 0xFFFFFFFF  # what players read as "until the end"
_HEADER = struct.Struct("<4sI4s4sIHHIIHH4sI")


def header(samples: int | None) -> bytes:
    """44 bytes to put before the samples; None: the length is not known yet."""
    size = _UNKNOWN if samples is None else 2 * samples
    riff = _UNKNOWN if samples is None else size + _HEADER.size - 8
    return _HEADER.pack(
        *(b"RIFF", riff, b"WAVE"),
        *(b"fmt ", 16, 1, 1, SAMPLE_RATE, 2 * SAMPLE_RATE, 2, 16),
        *(b"data", size),
    )
