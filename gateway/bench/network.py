"""What a network does to bytes on their way, one direction of one connection. Pure.

TCP hides loss, so loss is what its users feel of it: everything stands still for a while and then
comes at once.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

BEYOND = 3.0  # jitter's standard deviations are cut here


@dataclass(frozen=True, slots=True)
class Profile:
    """One direction; the same in both."""

    delay: float = 0.0  # s
    jitter: float = 0.0  # s, standard deviation of the delay; order is kept
    rate: float = 0.0  # bytes/s; 0: no limit
    stall_every: float = 0.0  # s between stalls in the mean, like lost segments; 0: none
    stall: float = 0.0  # s
    reset_after: float = 0.0  # s in the mean until the connection is reset; 0: never
    half_open_after: float = 0.0  # s in the mean until bytes vanish without a word; 0: never


PROFILES = {
    "loopback": Profile(),
    "wan40": Profile(delay=0.020, jitter=0.002),
    "wan150": Profile(delay=0.075, jitter=0.008, rate=2_500_000, stall_every=20.0, stall=0.2),
    "mobile": Profile(delay=0.040, jitter=0.015, rate=250_000, stall_every=5.0, stall=0.4),
    "resets": Profile(delay=0.005, reset_after=3.0),
    "half-open": Profile(delay=0.005, half_open_after=3.0),
}


class Path:
    """When each piece of bytes comes out at the other end."""

    def __init__(self, profile: Profile, *, draw: random.Random, now: float) -> None:
        self._profile = profile
        self._draw = draw
        self._free_at = now  # the last piece has left the narrowest link
        self._due = now  # the last piece is out
        self._stall_at = self._after(now, profile.stall_every)
        self.reset_at = self._after(now, profile.reset_after)
        self.half_open_at = self._after(now, profile.half_open_after)

    def due(self, size: int, now: float) -> float:
        """The moment at which `size` bytes that enter now are out."""
        profile = self._profile
        start = max(now, self._free_at)
        if self._stall_at is not None and start >= self._stall_at:
            start += profile.stall
            self._stall_at = self._after(start, profile.stall_every)
        self._free_at = start + (size / profile.rate if profile.rate else 0.0)
        swing = max(-BEYOND, min(BEYOND, self._draw.gauss(0.0, 1.0))) * profile.jitter
        self._due = max(self._due, self._free_at + max(0.0, profile.delay + swing))
        return self._due

    def _after(self, now: float, mean: float) -> float | None:
        return now + self._draw.expovariate(1 / mean) if mean else None
