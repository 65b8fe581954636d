"""Where speech begins in a sound: the position that "audible first sound" waits for. Pure.

Definition: RMS of 20 ms windows, one every 10 ms, the mean of each window removed; the onset is the
start of the first of two consecutive windows at or above −45 dBFS.
"""

from __future__ import annotations

import sys
from array import array
from operator import mul

from engine.api import SAMPLE_RATE

HOP = SAMPLE_RATE // 100  # samples: 10 ms
WINDOW = 2 * HOP  # samples: 20 ms
THRESHOLD_DB = -45.0  # of full scale, 32,768
LOUD = (32_768 * 10 ** (THRESHOLD_DB / 20)) ** 2  # mean square of a window at the threshold


class Onset:
    """Listens until it has found the onset, then costs nothing."""

    def __init__(self) -> None:
        self.position: float | None = None  # s
        self._rest = array("h")
        self._hops: list[tuple[int, int]] = []  # sum and sum of squares, the last one kept
        self._windows = 0  # looked at
        self._run = 0  # loud ones in a row

    def add(self, pcm: bytes) -> None:
        """Take int16 samples (little-endian, SAMPLE_RATE, mono, even length) that follow."""
        if self.position is not None:
            return
        samples = array("h", pcm)
        if sys.byteorder == "big":
            samples.byteswap()
        samples = self._rest + samples
        whole = len(samples) - len(samples) % HOP
        self._rest = samples[whole:]
        for start in range(0, whole, HOP):
            self._hop(samples[start : start + HOP])
            if self.position is not None:
                return

    def _hop(self, samples: array[int]) -> None:
        self._hops = [*self._hops[-1:], (sum(samples), sum(map(mul, samples, samples)))]
        if len(self._hops) < 2:
            return
        total = sum(each[0] for each in self._hops)
        squares = sum(each[1] for each in self._hops)
        loud = squares / WINDOW - (total / WINDOW) ** 2 >= LOUD
        self._run = self._run + 1 if loud else 0
        self._windows += 1
        if self._run == 2:
            self.position = (self._windows - 2) * HOP / SAMPLE_RATE
