"""What a client says it has heard, checked against what was sent. Pure: `now` is an argument.

An ack can only give time back: the engine never believes a deadline earlier than that of playback
which started on arrival and never paused. These rules bound the rest: nobody has played what was
not sent, nor what he says he did not receive. Times are seconds and positions 48 kHz ticks, unless
the name ends in `_ms`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from engine.api import PlaybackState
from gateway.protocol.requests import Ack
from gateway.sound import TICKS_PER_MS, TICKS_PER_SECOND
from gateway.voice.link import Link

AHEAD_MS = 20.0  # `played_ms` may exceed the end of the chunk by this: rounding and resampling
BACK_MS = 30.0  # `played_ms` may go back by this: browsers' output latency jitters
CLOCK_MS = 150.0  # play-out may be this much faster than a clock says: start-up and bursts
CLOCK_RATE = 1.05  # sound cards drift, 5 % is far beyond any
DRAINED_MS = 60.0  # a player is dry with no more than this left
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
    delay: float  # s one way, between this ack's and a chunk's


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
    acked_at: float = 0.0  # when that came
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

    def accept(self, ack: Ack, link: Link, now: float) -> Report | None:
        """Believe an ack, as far as it can be true; None if a later one has overtaken it.

        Raises: AckRefused for a hard violation; nothing of the ack is kept then.
        """
        if self._overtaken(ack):
            return None
        self._check(ack, now)
        end_ms = self._end_ms(ack.seq)
        played_ms = max(self.played_ms, min(ack.played_ms, end_ms))
        state = self._believable(ack, played_ms, link, now)
        self._date(ack, link, now)
        self.last, self.played_ms, self.state = ack, played_ms, state
        if state != "paused":
            self.paused_since = None
        elif self.paused_since is None:
            self.paused_since = now
        rendered_ms = min(played_ms + ack.latency_ms, end_ms)
        return Report(rendered_ms / 1000, state, self._delay(link, now))

    def plausible(self, played_ms: float, now: float) -> bool:
        """Whether a playhead told outside an ack, in a `cancel`, can be true."""
        return (
            self.played_ms - BACK_MS <= played_ms <= self.sent / TICKS_PER_MS + AHEAD_MS
            and played_ms <= self._elapsed_ms(now) + CLOCK_MS
        )

    def heard(self, link: Link, now: float) -> float:
        """Ticks at the ear now: the last ack advanced by the clock, or the most there can be.

        By our clock: a sound card that is 200 ppm off strays 0.2 ms in a second without an ack.
        """
        if not self._acked(link, now):
            return min(self.sent, max(0.0, now - self.begins(link, now)) * TICKS_PER_SECOND)
        if self.state == "ended":
            return self.sent
        played = self.played_ms * TICKS_PER_MS
        if self.state == "playing" and self.first is not None:  # nothing plays before that
            played += max(0.0, now - max(self.at, self.first)) * TICKS_PER_SECOND
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
        silent = now - self.acked_at - link.stale_after
        return self.state in ("playing", "ended") or silent < PAUSED_STALE

    def _end_ms(self, seq: int) -> float:
        return self.ends[seq] / TICKS_PER_MS if seq >= 0 else 0.0

    def _date(self, ack: Ack, link: Link, now: float) -> None:
        """Place the ack in our time."""
        new = self.last is None or ack.seq > self.last.seq
        self.acked_at, self.at = now, -inf
        if ack.seq >= 0:  # it was made after that chunk had left, whatever its clock says
            self.at = self.sent_ms[ack.seq] / 1000
            if new or link.round_trip is None:
                link.timed(ack, self.sent_ms[ack.seq], now)
        self.at = max(self.at, link.dated(ack, now))

    def _delay(self, link: Link, now: float) -> float:
        """What the engine shall take for one way.

        It subtracts that twice: an ack is as old, and the next chunk takes as long. A late ack says
        nothing about the chunk, so it gets the mean of both; who has ended waits for none.
        """
        age = now - self.at
        return age if self.state == "ended" else (age + link.delay) / 2

    def _elapsed_ms(self, now: float) -> float:
        return 0.0 if self.first is None else (now - self.first) * 1000

    def _overtaken(self, ack: Ack) -> bool:
        """Whether it is older than the last one and says nothing that contradicts it."""
        last = self.last
        return (
            last is not None
            and ack.t_ms < last.t_ms
            and ack.seq <= last.seq
            and ack.played_ms <= last.played_ms + BACK_MS
        )

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

    def _believable(self, ack: Ack, played_ms: float, link: Link, now: float) -> PlaybackState:
        """The soft rules: count what does not fit, and take the state that can be true.

        A player is dry when all is *rendered*: the ear lags by the output latency, over Bluetooth
        by 270 ms.
        """
        left_ms = self._end_ms(ack.seq) - played_ms - ack.latency_ms - ack.dropped_ms
        if ack.buffered_ms is not None:
            tolerance_ms = max(100.0, 0.2 * left_ms) + ack.latency_ms
            link.inconsistent += abs(ack.buffered_ms - max(left_ms, 0.0)) > tolerance_ms
        link.inconsistent += self._sums_wrong(ack, now)
        false_state = (
            (ack.state == "stalled" and left_ms > DRAINED_MS)
            or (ack.state == "ended" and not self._over(ack, left_ms))
            or (ack.state == "waiting" and played_ms > AHEAD_MS)
        )
        if not false_state:
            return ack.state
        link.inconsistent += 1
        return "paused"  # a player that does not move with sound at hand

    def _sums_wrong(self, ack: Ack, now: float) -> bool:
        """Whether a cumulative count fell, or it stalled for longer than there was sound."""
        last = self.last
        return ack.stalled_ms > self._elapsed_ms(now) + CLOCK_MS or (
            last is not None
            and (
                ack.stalls < last.stalls
                or ack.stalled_ms < last.stalled_ms
                or ack.dropped_ms < last.dropped_ms
            )
        )

    def _over(self, ack: Ack, left_ms: float) -> bool:
        return self.complete and ack.seq == self.last_seq and left_ms <= DRAINED_MS
