"""How much one client may ask for in a time. Pure: `now` is always an argument."""

from __future__ import annotations

from collections import deque


class TokenBucket:
    """Lets `burst` through at once and `rate` a second after that."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = burst
        self._at: float | None = None

    def take(self, now: float) -> float:
        """Take one; return 0, or the seconds until there would be one."""
        if self._at is not None:
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        if self._tokens < 1:
            return (1 - self._tokens) / self._rate
        self._tokens -= 1
        return 0.0


class Strikes:
    """Counts faults and tells when there were `most` within `seconds`."""

    def __init__(self, most: int, seconds: float) -> None:
        self._times: deque[float] = deque(maxlen=most)
        self._seconds = seconds

    def add(self, now: float) -> bool:
        """Count one; True if that is too many."""
        self._times.append(now)
        full = len(self._times) == self._times.maxlen
        return full and now - self._times[0] <= self._seconds
