"""A listener without ears: plays chunks against a clock and acks like a browser does. Pure.

`now` is always an argument, so the same player runs in real time beside a socket and in virtual
time in tests and benchmarks. Utterances are heard one after the other, in the order they began.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from engine.api import PlaybackState
from gateway.protocol.chunk import Chunk, Flag
from gateway.sound import TICKS_PER_SECOND

KEPT = 16  # tracks that have ended, for whoever asks how they went
EARLY = 1e-6  # s by which a timer may fire too soon


@dataclass(frozen=True, slots=True)
class Turn:
    """Rendering began to move or to stand."""

    at: float  # s
    rendered: float  # ticks
    moving: bool


@dataclass(slots=True)
class Track:
    """One utterance in the player."""

    n: int
    first_at: float | None = None  # s, arrival of the first chunk
    started_at: float | None = None  # s, first sound rendered
    seq: int = -1  # last chunk received
    received: int = 0  # ticks
    rendered: float = 0.0  # ticks that left the buffer
    state: PlaybackState = "waiting"
    stalls: int = 0
    stalled: float = 0.0  # s
    whole: bool = False  # the last chunk is here
    acked_at: float = 0.0  # s, of the last ack …
    acked_state: PlaybackState | None = None  # … and its state; None: never acked
    rx: float = 0.0  # s, arrival of chunk `seq`
    echo: int = 0  # its `sent_at`
    awaits: set[str] = field(default_factory=set)  # utterances to be heard before, not here yet
    turns: list[Turn] = field(default_factory=list)  # the latest, for what reaches the ear later

    @property
    def buffered(self) -> float:
        """Seconds here but not rendered."""
        return (self.received - self.rendered) / TICKS_PER_SECOND

    def turn(self, state: PlaybackState, at: float) -> None:
        """Change the state."""
        if (state == "playing") != (self.state == "playing"):
            self.turns = [*self.turns[-7:], Turn(at, self.rendered, state == "playing")]
        self.state = state

    def rendered_at(self, moment: float) -> float:
        """Ticks rendered at a moment of the near past."""
        for turn in reversed(self.turns):
            if turn.at <= moment:
                moved = (moment - turn.at) * TICKS_PER_SECOND if turn.moving else 0.0
                return min(self.rendered, turn.rendered + moved)
        return 0.0

    def needs(self, prebuffer: float) -> bool:
        """Whether it must wait for more before it may start or go on."""
        return not self.whole and (self.buffered <= 0 or self.buffered < prebuffer)


@dataclass(slots=True, kw_only=True)
class Player:
    """Plays tracks in order; tells when something changed."""

    prebuffer: float = 0.0  # s held before playback starts
    rebuffer: float = 0.0  # s held before playback goes on after a stall
    latency: float = 0.02  # s from rendering to the ear
    interval: float = 0.1  # s between acks
    paused: bool = False
    tracks: dict[int, Track] = field(default_factory=dict)
    _now: float = 0.0  # s: everything before has been played

    @property
    def current(self) -> Track | None:
        """The track whose turn it is: the lowest number that has not ended."""
        waiting = [track for track in self.tracks.values() if track.state != "ended"]
        first = min(waiting, key=lambda track: track.n, default=None)
        return None if first is None or first.awaits else first

    def expect(self, n: int, awaits: set[str], now: float) -> None:
        """An utterance begins to arrive that must wait for others that have not."""
        self.advance(now)
        self.tracks[n] = Track(n, awaits=awaits)

    def release(self, utterance: str, now: float) -> None:
        """Nobody has to wait for this utterance any more: it arrives, or never will."""
        self.advance(now)
        for track in self.tracks.values():
            track.awaits.discard(utterance)
        self.advance(now)

    def received(self, chunk: Chunk, now: float) -> None:
        """A chunk has arrived."""
        self.advance(now)
        track = self.tracks.setdefault(chunk.n, Track(chunk.n))
        track.first_at = now if track.first_at is None else track.first_at
        track.seq, track.received = chunk.seq, chunk.end
        track.rx, track.echo = now, chunk.sent_at
        track.whole = Flag.LAST in chunk.flags
        self.advance(now)

    def pause(self, now: float) -> None:
        """Stand still, keep what is there."""
        self.advance(now)
        self.paused = True
        self.advance(now)

    def resume(self, now: float) -> None:
        """Go on."""
        self.advance(now)
        self.paused = False
        self.advance(now)

    def drop(self, n: int, now: float) -> None:
        """Forget an utterance: it was cancelled, or failed."""
        self.advance(now)
        self.tracks.pop(n, None)
        self.advance(now)

    def close(self, n: int, now: float) -> None:
        """No more of an utterance comes, whether its last chunk said so or not."""
        if n in self.tracks:
            self.tracks[n].whole = True
            self.advance(now)

    def advance(self, now: float) -> None:
        """Play everything up to `now`."""
        now = max(now, self._now)
        while (track := self.current) and self._play(track, now):
            pass
        self._now = now

    def heard(self, n: int) -> float:
        """Seconds of an utterance at the ear: what was rendered one output latency ago."""
        return self.tracks[n].rendered_at(self._now - self.latency) / TICKS_PER_SECOND

    def next_change(self) -> float | None:
        """When the state changes by itself, if nothing arrives; None if it does not."""
        fading = filter(self._fades, self.tracks.values())
        ends = [track.turns[-1].at + self.latency for track in fading]
        track = self.current
        if track and track.state == "playing":
            ends.append(self._now + track.buffered)
        return min(ends, default=None)

    def next_ack(self) -> float:
        """When an ack will be due if nothing arrives; infinite if none will be."""
        change = self.next_change()
        moments = (self._due_at(track) for track in self.tracks.values())
        return min(math.inf if change is None else change, *moments, math.inf)

    def acks(self, now: float) -> list[dict[str, Any]]:
        """The acks that are due: of a new state at once, else every `interval` while unheard."""
        self.advance(now)
        due = [track for track in self.tracks.values() if self._due_at(track) <= now + EARLY]
        return [self._ack(track, now) for track in due]

    def forget_ended(self) -> None:
        """Drop all but the latest tracks whose end has been acked."""
        ended = [n for n, track in self.tracks.items() if track.acked_state == "ended"]
        for n in ended[:-KEPT]:
            del self.tracks[n]

    def _play(self, track: Track, now: float) -> bool:
        """Play one track on, at most to `now`; True if there is time left to play."""
        if self.paused:
            track.turn("waiting" if track.started_at is None else "paused", self._now)
            self._now = now
            return False
        if track.state != "playing":
            return self._try_start(track, now)
        played = min(now - self._now, track.buffered)
        self._now += played
        if played < track.buffered:
            track.rendered += played * TICKS_PER_SECOND
            return False
        track.rendered = track.received
        if track.whole:
            track.turn("ended", self._now)
            return True
        if now > self._now:
            track.turn("stalled", self._now)
            track.stalls += 1
        return now > self._now

    def _try_start(self, track: Track, now: float) -> bool:
        """Start or go on where time stands, if enough is here; else let time pass."""
        hold = self.prebuffer if track.started_at is None else self.rebuffer
        if track.state != "paused" and track.needs(hold):
            track.stalled += now - self._now if track.state == "stalled" else 0.0
            self._now = now
            return False
        if track.started_at is None:
            track.started_at = self._now
        track.turn("playing", self._now)
        return True

    def _fades(self, track: Track) -> bool:
        """Whether it is rendered to its end, but not all at the ear yet."""
        if track.state != "ended" or track.acked_state == "ended":
            return False
        return track.rendered_at(self._now - self.latency) < track.received

    def _told(self, track: Track) -> PlaybackState:
        """The state as the ear has it: it ends when the last sound was heard."""
        return "playing" if self._fades(track) else track.state

    def _due_at(self, track: Track) -> float:
        """When it is to be acked, unless its state changes before."""
        if self._told(track) != track.acked_state:
            return self._now
        return math.inf if track.acked_state == "ended" else track.acked_at + self.interval

    def _ack(self, track: Track, now: float) -> dict[str, Any]:
        track.acked_at, track.acked_state = now, self._told(track)
        heard = self.heard(track.n)
        latency = track.rendered / TICKS_PER_SECOND - heard
        return {
            "n": track.n,
            "seq": track.seq,
            "played_ms": round(heard * 1000, 3),
            "t_ms": round(now * 1000, 3),
            "latency_ms": round(latency * 1000, 3),
            "state": track.acked_state,
            "buffered_ms": round(track.buffered * 1000, 3),
            "stalls": track.stalls,
            "stalled_ms": round(track.stalled * 1000, 3),
            "rx_ms": round(track.rx * 1000, 3),
            "echo": track.echo,
        }
