"""Pretended networks: delay, jitter and stalls, in order like TCP. Pure.

A link keeps the order of what it carries: a packet held up holds up those behind it, which is what
a lost segment does to a stream.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Network:
    """How one way between gateway and listener behaves."""

    delay: float = 0.0005  # s, one way, the least
    jitter: float = 0.0  # s, mean of the exponential time on top
    stalls: float = 0.0  # a second: nothing passes for a while
    stall: float = 0.0  # s, mean length of a stall


NETWORKS = {
    "loopback": Network(),
    "wan40": Network(delay=0.02, jitter=0.002),
    "wan150": Network(delay=0.075, jitter=0.008),
    "mobile": Network(delay=0.035, jitter=0.012, stalls=0.05, stall=0.25),
}


class Link:
    """One direction of one connection.

    Args:
        network: how it behaves.
        random: its chance, a generator of its own so that replies do not disturb each other.
    """

    __slots__ = ("_free_at", "_network", "_random", "_stall_at")

    def __init__(self, network: Network, random: Random) -> None:
        self._network = network
        self._random = random
        self._free_at = 0.0
        self._stall_at: float | None = None

    def arrives(self, sent_at: float) -> float:
        """Return when something sent now arrives; call in the order of sending."""
        network = self._network
        arrives = sent_at + network.delay
        if network.jitter:
            arrives += self._random.expovariate(1 / network.jitter)
        if network.stalls:
            arrives = max(arrives, self._stalled_until(sent_at))
        self._free_at = max(self._free_at, arrives)
        return self._free_at

    def _stalled_until(self, now: float) -> float:
        """Return when the last stall that began by `now` is over."""
        chance, network = self._random, self._network
        until = 0.0
        if self._stall_at is None:
            self._stall_at = now + chance.expovariate(network.stalls)
        while self._stall_at <= now:
            until = self._stall_at + chance.expovariate(1 / network.stall)
            self._stall_at = until + chance.expovariate(network.stalls)
        return until
