"""What a client says it has heard, checked against what was sent. Pure: `now` is an argument.

An ack can only give time back: the engine never believes a deadline earlier than that of playback
which started on arrival and never paused. These rules bound the rest: nobody has played what was
not sent, nor what he says he did not receive. Times are seconds and positions 48 kHz ticks, unless
the name ends in `_ms`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.api import PlaybackState
from gateway.protocol.requests import Ack
from gateway.sound import TICKS_PER_MS, TICKS_PER_SECOND
from gateway.voice.limits import Strikes

AHEAD_MS = 20.0  # `played_ms` may exceed the end of the chunk by this: rounding and resampling
BACK_MS = 30.0  # `played_ms` may go back by this: browsers' output latency jitters
CLOCK_MS = 150.0  # play-out may be this much faster than a clock says: start-up and bursts
CLOCK_RATE = 1.05  # sound cards drift, 5 % is far beyond any
DRAINED_MS = 60.0  # a player is dry with no more than this left
STRIKES = 3  # hard violations …
STRIKE_SECONDS = 60.0  # … within this time end the trust
LONGEST_DELAY = 0.5  # s one way: beyond a satellite's, a guess from late acks
PAUSED_STALE = 5.0  # s a pause is believed without news


class AckRefused(Exception):
    """An ack states what cannot be; `param` is the field."""

    def __init__(self, param: str, message: str) -> None:
        super().__init__(message)
        self.param = param
        self.message = message


@dataclass(frozen=True, slots=True)
class Report:
    """The arguments of the engine's `Playback`."""

    rendered: float  # s of this utterance that left the client's buffer
    state: PlaybackState
    delay: float  # s since that was true


@dataclass(slots=True)
class Link:
    """What a session's acks tell about its network and its honesty."""

    interval: float  # s between acks asked of the client
    round_trip: float | None = None  # s, the least seen
    jitter: float = 0.0  # s, RFC 3550's running estimate
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

    def strike(self, now: float) -> bool:
        """Count a hard violation; True if it is the one that ends the trust."""
        self.refused += 1
        if not self.trusted or not self._strikes.add(now):
            return False
        self.trusted = False
        return True

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

    def _jittered(self, transit_ms: float) -> None:
        if self._transit_ms is not None:
            change = abs(transit_ms - self._transit_ms) / 1000
            self.jitter += (change - self.jitter) / 16
        self._transit_ms = transit_ms


@dataclass(slots=True)
class Listener:
    """One utterance on the wire and in one pair of ears."""

    acks: bool  # the client promised to ack
    after: Listener | None = None  # heard before this one, in the same queue
    first: float | None = None  # when the first chunk was sent
    ends: list[int] = field(default_factory=list)  # ticks, per chunk sent
    sent_ms: list[int] = field(default_factory=list)  # our clock, per chunk sent
    complete: bool = False  # nothing more will be sent
    stopped: bool = False  # cancelled: what was not heard never will be
    last: Ack | None = None  # accepted
    played_ms: float = 0.0  # accepted and clamped; never goes back
    state: PlaybackState = "waiting"  # believed
    at: float = 0.0  # when `played_ms` was true, our clock
    paused_since: float | None = None
    _begins: float | None = None

    @property
    def sent(self) -> int:
        """Ticks sent."""
        return self.ends[-1] if self.ends else 0

    @property
    def last_seq(self) -> int:
        """Number of the last chunk sent; -1 before the first."""
        return len(self.ends) - 1

    def carried(self, end: int, now: float, *, sent_ms: int) -> None:
        """Note that the next chunk went out and ends at `end` ticks."""
        self.first = now if self.first is None else self.first
        self.ends.append(end)
        self.sent_ms.append(sent_ms)

    def accept(self, ack: Ack, link: Link, now: float) -> Report:
        """Believe an ack, as far as it can be true.

        Raises: AckRefused for a hard violation; nothing of the ack is kept then.
        """
        self._check(ack, now)
        played_ms = max(self.played_ms, min(ack.played_ms, self._end_ms(ack.seq)))
        state = self._believable(ack, played_ms, link)
        if ack.seq >= 0 and (
            self.last is None or ack.seq > self.last.seq or link.round_trip is None
        ):
            link.timed(ack, self.sent_ms[ack.seq], now)
        self.last, self.played_ms, self.state = ack, played_ms, state
        self.at = now - link.delay
        if state != "paused":
            self.paused_since = None
        elif self.paused_since is None:
            self.paused_since = now
        rendered_ms = min(played_ms + ack.latency_ms, self._end_ms(ack.seq))
        return Report(rendered_ms / 1000, state, link.delay)

    def plausible(self, played_ms: float, now: float) -> bool:
        """Whether a playhead told outside an ack, in a `cancel`, can be true."""
        return (
            self.played_ms - BACK_MS <= played_ms <= self.sent / TICKS_PER_MS + AHEAD_MS
            and played_ms <= self._elapsed_ms(now) + CLOCK_MS
        )

    def heard(self, link: Link, now: float) -> float:
        """Ticks at the ear now: the last ack advanced by the clock, or the most there can be."""
        if not self._acked(link, now):
            return min(self.sent, max(0.0, now - self.begins(link, now)) * TICKS_PER_SECOND)
        if self.state == "ended":
            return self.sent
        played = self.played_ms * TICKS_PER_MS
        if self.state == "playing":
            played += max(0.0, now - self.at) * TICKS_PER_SECOND
        return min(self.sent, played)

    def dry(self, link: Link, now: float) -> float:
        """When what was sent will have been heard, if the playhead moves on."""
        unheard = 0.0 if self.stopped else self.sent - self.heard(link, now)
        return now + unheard / TICKS_PER_SECOND

    def begins(self, link: Link, now: float) -> float:
        """When playback starts without acks: on arrival, but not before its turn in the queue."""
        if self.first is None:
            return now
        if self._begins is None or self.after:
            self._begins = max(self.first, self.after.dry(link, now)) if self.after else self.first
            if self.after and (self.after.complete or self.after.stopped):
                self.after = None
        return self._begins

    def _acked(self, link: Link, now: float) -> bool:
        if self.last is None or not link.trusted:
            return False
        silent = now - self.at - link.stale_after
        return self.state in ("playing", "ended") or silent < PAUSED_STALE

    def _end_ms(self, seq: int) -> float:
        return self.ends[seq] / TICKS_PER_MS if seq >= 0 else 0.0

    def _elapsed_ms(self, now: float) -> float:
        return 0.0 if self.first is None else (now - self.first) * 1000

    def _check(self, ack: Ack, now: float) -> None:
        """The hard rules."""
        if ack.seq > self.last_seq:
            raise AckRefused("seq", f"want at most {self.last_seq}, the last sent, got: {ack.seq}")
        if ack.played_ms > self._end_ms(ack.seq) + AHEAD_MS:
            limit = self._end_ms(ack.seq)
            raise AckRefused(
                "played_ms", f"want at most {limit:g}, the end of `seq`, got: {ack.played_ms:g}"
            )
        if ack.played_ms < self.played_ms - BACK_MS:
            raise AckRefused(
                "played_ms", f"want at least {self.played_ms:g}, as before, got: {ack.played_ms:g}"
            )
        if ack.played_ms > self._elapsed_ms(now) + CLOCK_MS:
            limit = self._elapsed_ms(now)
            raise AckRefused(
                "played_ms", f"want at most {limit:.0f}, the time since, got: {ack.played_ms:g}"
            )
        if self.last:
            self._check_progress(ack, self.last)

    def _check_progress(self, ack: Ack, last: Ack) -> None:
        if ack.seq < last.seq:
            raise AckRefused("seq", f"want at least {last.seq}, as before, got: {ack.seq}")
        if ack.t_ms < last.t_ms:  # equal is fine: browsers round their clocks
            raise AckRefused("t_ms", f"want at least {last.t_ms:g}, as before, got: {ack.t_ms:g}")
        if ack.played_ms - last.played_ms > (ack.t_ms - last.t_ms) * CLOCK_RATE + CLOCK_MS:
            raise AckRefused(
                "played_ms",
                f"moved {ack.played_ms - last.played_ms:g} in {ack.t_ms - last.t_ms:g} of `t_ms`",
            )

    def _believable(self, ack: Ack, played_ms: float, link: Link) -> PlaybackState:
        """The soft rules: count what does not fit, and take the state that can be true.

        A player is dry when all is *rendered*: the ear lags by the output latency, over Bluetooth
        by 270 ms.
        """
        left_ms = self._end_ms(ack.seq) - played_ms - ack.latency_ms - ack.dropped_ms
        if ack.buffered_ms is not None:
            tolerance_ms = max(100.0, 0.2 * left_ms) + ack.latency_ms
            link.inconsistent += abs(ack.buffered_ms - max(left_ms, 0.0)) > tolerance_ms
        if self.last and (
            ack.stalls < self.last.stalls
            or ack.stalled_ms < self.last.stalled_ms
            or ack.dropped_ms < self.last.dropped_ms
        ):
            link.inconsistent += 1
        false_state = (
            (ack.state == "stalled" and left_ms > DRAINED_MS)
            or (ack.state == "ended" and not self._over(ack, left_ms))
            or (ack.state == "waiting" and played_ms > AHEAD_MS)
        )
        if not false_state:
            return ack.state
        link.inconsistent += 1
        return "paused"  # a player that does not move with sound at hand

    def _over(self, ack: Ack, left_ms: float) -> bool:
        return self.complete and ack.seq == self.last_seq and left_ms <= DRAINED_MS
