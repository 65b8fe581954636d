"""Deterministic sound for the fake gateway, and what a perfect player makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import opuslib_next as opuslib

Samples = npt.NDArray[np.float32]  # mono, [-1, 1]
RATE = 48_000
OPUS_RATE = 24_000
PACKET = 960  # ticks, 20 ms
PRE_SKIP = 312  # ticks


def speech(seconds: float, *, seed: int = 1) -> Samples:
    """A voice-like hum at 24 kHz: harmonics of a gliding pitch under syllables."""
    time = np.arange(round(seconds * OPUS_RATE)) / OPUS_RATE
    pitch = 110 + 20 * seed % 60 + 25 * np.sin(2 * np.pi * 0.7 * time)
    phase = 2 * np.pi * np.cumsum(pitch) / OPUS_RATE
    voiced = sum(np.sin(k * phase) / k for k in range(1, 12))
    syllables = np.sin(np.pi * 3.5 * time) ** 2
    return (0.2 * voiced * syllables * _swell(len(time), OPUS_RATE)).astype(np.float32)


def tone(seconds: float, *, frequency: float = 440.0, rate: int = RATE) -> Samples:
    """A steady sine that swells and dies in 5 ms."""
    time = np.arange(round(seconds * rate)) / rate
    return (0.5 * np.sin(2 * np.pi * frequency * time) * _swell(len(time), rate)).astype(np.float32)


def coded(seconds: float) -> Samples:
    """Samples that carry their own index, modulo 30 000, at 48 kHz; the last one is silent."""
    index = np.arange(round(seconds * RATE)) % 30_000 + 1
    index[-1] = 0
    return (index / 32_768).astype(np.float32)


def _swell(length: int, rate: int) -> npt.NDArray[np.float64]:
    edge = rate // 200
    distance = np.minimum(np.arange(length), np.arange(length)[::-1])
    return np.minimum(1.0, distance / edge)


@cache
def _encoded(seconds: float, seed: int) -> tuple[bytes, ...]:
    encoder = opuslib.Encoder(OPUS_RATE, 1, opuslib.APPLICATION_AUDIO)
    encoder.bitrate = 32_000
    pcm = (speech(seconds, seed=seed) * 32_767).astype("<i2")
    step = OPUS_RATE // 50
    padded = np.pad(pcm, (0, -(len(pcm) + PRE_SKIP // 2) % step + PRE_SKIP // 2))
    return tuple(
        encoder.encode(padded[at : at + step].tobytes(), step) for at in range(0, len(padded), step)
    )


def opus_packets(seconds: float, *, seed: int = 1) -> list[bytes]:
    """`speech` as 20 ms packets, drained of the encoder's lookahead."""
    return list(_encoded(seconds, seed))


def decoded(packets: Sequence[bytes], ticks: int) -> Samples:
    """What libopus makes of packets, without the lookahead and cut to `ticks`."""
    decoder = opuslib.Decoder(RATE, 1)
    pieces = [np.frombuffer(decoder.decode_float(packet, PACKET), np.float32) for packet in packets]
    return np.concatenate(pieces)[PRE_SKIP : PRE_SKIP + ticks]


def snr(sound: Samples, reference: Samples) -> float:
    """Decibels of `reference` over the difference."""
    noise = float(np.sum((sound - reference) ** 2))
    return 200.0 if noise == 0 else 10 * np.log10(float(np.sum(reference**2)) / noise)


def sounding(recording: Samples, start: int = 0) -> Samples:
    """The recording from its first to its last sample that is not zero."""
    found = np.flatnonzero(recording[start:])
    return recording[start:][found[0] : found[-1] + 1] if len(found) else recording[:0]


def silences(recording: Samples, *, least: int) -> list[tuple[int, int]]:
    """Runs of at least `least` zeros between sounds, as (start, length)."""
    found = np.flatnonzero(recording)
    return [(int(a) + 1, int(b - a - 1)) for a, b in pairwise(found) if b - a - 1 >= least]


def steepest(recording: Samples) -> float:
    """The largest second difference: what a click sounds like."""
    return float(np.max(np.abs(np.diff(recording, 2)))) if len(recording) > 2 else 0.0
