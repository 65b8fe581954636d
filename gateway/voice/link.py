"""What a session's acks tell about its network, its client's clock and its honesty.

Pure; `now` is always an argument. Times are seconds unless the name ends in `_ms`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite

from gateway.protocol.requests import Ack
from gateway.voice.client_clock import ClientClock
from gateway.voice.limits import Strikes

STRIKES = 3  # hard violations …
STRIKE_SECONDS = 60.0  # … within this time end the trust
LONGEST_DELAY = 0.5  # s one way: beyond a satellite's, a guess from late acks


@dataclass(slots=True)
class Link:
    """One session's network and its client."""

    interval: float  # s between acks asked of the client
    round_trip: float | None = None  # s, the least seen
    jitter: float = 0.0  # s, RFC 3550's running estimate
    clock: ClientClock = field(default_factory=ClientClock)
    trusted: bool = True
    inconsistent: int = 0  # soft violations
    refused: int = 0  # hard violations
    _strikes: Strikes = field(default_factory=lambda: Strikes(STRIKES, STRIKE_SECONDS))
    _transit_ms: float | None = None

    @property
    def delay(self) -> float:
        """One way, seconds: half the least round trip; 0 before there is one."""
        return min((self.round_trip or 0.0) / 2, LONGEST_DELAY)

    @property
    def stale_after(self) -> float:
        """Seconds without an ack after which the last one is no longer fresh."""
        return max(1.0, 5 * self.interval)

    def offset(self, now: float) -> float | None:
        """Seconds to add to the client's clock to have ours; wrong by at most `delay`."""
        floor = self.clock.floor(now)
        return floor - self.delay if isfinite(floor) else None

    def strike(self, now: float) -> bool:
        """Count a hard violation; True if it is the one that ends the trust."""
        self.refused += 1
        if not self.trusted or not self._strikes.add(now):
            return False
        self.trusted = False
        return True

    def dated(self, ack: Ack, now: float) -> float:
        """When an ack was true, on our clock: the least delay ago, and what it came late."""
        return now - self.delay - self.clock.arrived(ack.t_ms / 1000, now)

    def timed(self, ack: Ack, sent_ms: int, now: float) -> None:
        """Learn from an ack of a chunk sent at `sent_ms` on our clock.

        Without `echo` and `rx_ms` the time since sending still bounds the round trip from above.
        """
        held_ms = 0.0
        if ack.rx_ms is not None and ack.echo == sent_ms & 0xFFFF_FFFF:
            held_ms = ack.t_ms - ack.rx_ms
            self._jittered(ack.rx_ms - sent_ms)
        sample = now - (sent_ms + held_ms) / 1000
        if held_ms < 0 or sample < -0.001:  # `sent_ms` is rounded to 1 ms
            self.inconsistent += 1
            return
        sample = max(sample, 0.0)
        self.round_trip = sample if self.round_trip is None else min(sample, self.round_trip)
        self.clock.followed(sent_ms / 1000, (ack.t_ms - held_ms) / 1000, now)

    def _jittered(self, transit_ms: float) -> None:
        if self._transit_ms is not None:
            change = abs(transit_ms - self._transit_ms) / 1000
            self.jitter += (change - self.jitter) / 16
        self._transit_ms = transit_ms
