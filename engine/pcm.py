"""Samples as bytes: float → int16, and the silence before an utterance that is never sent.

PCM is int16 little-endian mono at `SAMPLE_RATE`. Trimming moves in packets of 20 ms: what is sent
still starts on a packet's border. Silence after the sound is measured: speech that never ends well
turns into room tone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.api import FRAME_SAMPLES, SAMPLE_RATE
from engine.config import TrimConfig

if TYPE_CHECKING:
    from torch import Tensor

PACKET_SAMPLES = SAMPLE_RATE // 50  # 20 ms
PACKET_BYTES = 2 * PACKET_SAMPLES
FRAME_BYTES = 2 * FRAME_SAMPLES
FULL_SCALE = 32_767  # the int16 of 1.0; -1.0 is -32767, so that both sides are alike


def to_int16(samples: Tensor) -> Tensor:
    """Round float samples to int16; what is outside [-1, 1] is clipped."""
    return samples.clamp(-1, 1).mul_(FULL_SCALE).round_().short()


def to_bytes(samples: Tensor) -> bytes:
    """Copy int16 samples (time,) from their device."""
    return as_bytes(samples.cpu().numpy())


def as_bytes(samples: np.ndarray) -> bytes:
    """Copy int16 samples (time,)."""
    return samples.astype("<i2", copy=False).tobytes()


class LeadingSilence:
    """Drops the silence before one utterance's first sound.

    Nothing is sent before a frame of sound can be sent with its short lead-in, so the listener's
    first packet is not silence and the second one not late. An utterance that is silent from start
    to end leaves nothing, unless it is longer than what may be removed.
    """

    def __init__(self, config: TrimConfig) -> None:
        # compared with mean squares: a power, in int16 steps
        self._threshold = (10 ** (config.threshold_db / 20) * FULL_SCALE) ** 2
        self._keep = _packets(config.keep)
        self._longest = _packets(config.longest)
        self._held = b""
        self._silent = 0  # packets of `_held` known to be silence
        self._found = False  # `_held` begins where the sound shall begin
        self._sending = False
        self._quiet = 0  # packets of silence at the end of what came in

    @property
    def quiet(self) -> float:
        """Seconds of silence at the end of what came in, leading silence included."""
        return self._quiet * PACKET_SAMPLES / SAMPLE_RATE

    def push(self, pcm: bytes, *, last: bool) -> bytes:
        """Add the next samples; return what may be sent now.

        Args:
            last: nothing follows: what remains is sent however short it is.
        """
        self._listen(pcm)
        if self._sending:
            return pcm
        self._held += pcm
        if not self._found:
            self._look()
        if last and not self._found:
            return b""
        self._sending = self._found and (last or len(self._held) >= FRAME_BYTES)
        if not self._sending:
            return b""
        held, self._held = self._held, b""
        return held

    def _listen(self, pcm: bytes) -> None:
        """Count silent packets from the end: the last of most chunks is loud."""
        packets = len(pcm) // PACKET_BYTES
        for quiet in range(packets):
            if _power(pcm, packets - 1 - quiet) >= self._threshold:
                self._quiet = quiet
                return
        self._quiet += packets

    def _look(self) -> None:
        """Count silent packets until the onset or until no more may be removed."""
        packets = len(self._held) // PACKET_BYTES
        powers = _powers(self._held[self._silent * PACKET_BYTES : packets * PACKET_BYTES])
        loud = np.flatnonzero(powers >= self._threshold)
        self._silent += int(loud[0]) if len(loud) else len(powers)
        removable = max(0, self._silent - self._keep)
        if len(loud) or removable >= self._longest:
            self._found = True
            self._held = self._held[min(removable, self._longest) * PACKET_BYTES :]


def _packets(duration: float) -> int:
    return round(duration * SAMPLE_RATE / PACKET_SAMPLES)


def _powers(pcm: bytes) -> np.ndarray:
    """Return the mean square of each packet, in int16 steps squared."""
    samples = np.frombuffer(pcm, "<i2").astype(np.float64).reshape(-1, PACKET_SAMPLES)
    powers: np.ndarray = np.square(samples).mean(1)
    return powers


def _power(pcm: bytes, packet: int) -> float:
    """Return the mean square of one packet, in int16 steps squared."""
    samples = np.frombuffer(pcm, "<i2", PACKET_SAMPLES, packet * PACKET_BYTES).astype(np.float64)
    return float(samples @ samples) / PACKET_SAMPLES
