"""Clocks for tests: one that is moved by hand, and one that a busy machine cannot make leap."""

from __future__ import annotations

import time

STEP = 0.05  # s, the longest leap of a steady clock


class VirtualClock:
    """Moved by hand."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class SteadyClock:
    """Real time less its stalls: a reading is at most `STEP` after the one before.

    A machine that stands still for a second has not played a second of sound unseen.
    """

    def __init__(self) -> None:
        self._now = time.monotonic()
        self._lost = 0.0  # s of stalls

    def __call__(self) -> float:
        real = time.monotonic()
        self._now = min(real - self._lost, self._now + STEP)
        self._lost = real - self._now
        return self._now
