"""Pretended listeners: how each plays, reports and interrupts, and what it truly hears. Pure.

`Listener` is a habit, `Player` one reply being played. The player is the judge of a simulation: it
knows when sound was there and when it was not, whatever the scheduler believed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from random import Random
from typing import Literal, TypeAlias

from engine.api import PlaybackState
from engine.simulation.network import NETWORKS, Network

Habit: TypeAlias = Literal["honest", "none", "greedy"]

TINY = 1e-9  # s: rounding, not silence


@dataclass(frozen=True, slots=True)
class Listener:
    """How one client plays and reports."""

    network: Network = field(default=NETWORKS["loopback"])
    reports: Habit = "honest"  # "none": open loop; "greedy": claims to have played everything
    interval: float = 0.1  # s between reports
    loss: float = 0.0  # share of reports that never arrive
    start_buffer: float = 0.0  # s of sound before it starts to play
    output_latency: float = 0.02  # s from the client's buffer to the ear
    pause_after: float | None = None  # share of the reply after which it pauses …
    pause: float = 0.0  # … for so many s
    barge_in_after: float | None = None  # share of the reply after which it interrupts
    words_per_second: float | None = None  # pace of the text; None: whole at once
    sentences: int = 1  # that it is told

    @property
    def acks(self) -> bool:
        """Whether it promises reports."""
        return self.reports != "none"


@dataclass(frozen=True, slots=True)
class Population:
    """A mixture of listeners: shares of those who differ from `base` in some way."""

    base: Listener = field(default_factory=Listener)
    pauses: float = 0.0  # share that pauses once, for half a second to four
    barges_in: float = 0.0  # share that interrupts, anywhere in the reply
    hidden: float = 0.0  # share in hidden tabs: a report a second
    greedy: float = 0.0  # share that always claims an empty buffer
    silent: float = 0.0  # share that never reports

    def draw(self, random: Random) -> Listener:
        """Return one listener; the same numbers are drawn for every population."""
        pauses, barges_in, hidden, habit = (random.random() for _ in range(4))
        moment, length = random.random(), random.uniform(0.5, 4.0)
        listener = self.base
        if pauses < self.pauses:
            listener = replace(listener, pause_after=moment, pause=length)
        if barges_in < self.barges_in:
            listener = replace(listener, barge_in_after=moment)
        if hidden < self.hidden:
            listener = replace(listener, interval=1.0)
        if habit < self.greedy:
            listener = replace(listener, reports="greedy")
        elif habit < self.greedy + self.silent:
            listener = replace(listener, reports="none")
        return listener


def _over(network: str, start_buffer: float) -> Listener:
    return Listener(network=NETWORKS[network], start_buffer=start_buffer)


POPULATIONS = {
    "plain": Population(),
    "buffered": Population(Listener(start_buffer=0.12)),
    "pausing": Population(pauses=0.1),
    "barging": Population(barges_in=0.25),
    "wan40": Population(_over("wan40", 0.08)),
    "wan150": Population(_over("wan150", 0.12)),
    "mobile": Population(_over("mobile", 0.4), hidden=0.1),
    "open": Population(silent=1.0),
    "hidden": Population(hidden=1.0),
    "greedy": Population(greedy=0.1),
    "lossy": Population(Listener(loss=0.2)),
    "paced": Population(Listener(words_per_second=20.0)),
    "slow": Population(Listener(words_per_second=6.0, sentences=4)),
    "mixed": Population(
        _over("wan40", 0.08), pauses=0.1, barges_in=0.25, hidden=0.05, silent=0.2, greedy=0.02
    ),
}


class Player:
    """One reply at the listener's: takes sound off the network and plays it.

    Args:
        start_buffer: s of sound before it starts to play, unless the reply is shorter.
    """

    __slots__ = (
        "_dry_at",
        "_left",
        "_start_buffer",
        "complete",
        "first_at",
        "received",
        "silence",
        "stalls",
        "started_at",
        "stopped_at",
    )

    def __init__(self, start_buffer: float) -> None:
        self._start_buffer = start_buffer
        self._dry_at = -inf  # when the sound received will have been played
        self._left: float | None = None  # s of sound ahead while it stands still
        self.received = 0.0  # s of sound
        self.first_at: float | None = None
        self.started_at: float | None = None
        self.stopped_at: float | None = None  # interrupted: hears nothing more
        self.stalls = 0
        self.silence = 0.0  # s of silence inside the reply
        self.complete = False

    def receive(self, length: float, now: float) -> None:
        """Take a chunk off the network."""
        if self.stopped_at is not None:
            return
        if self.first_at is None:
            self.first_at = now
        self.received += length
        if self.started_at is None:
            if self.received >= self._start_buffer - TINY:
                self._start(now)
        elif self._left is not None:
            self._left += length
        else:
            if now > self._dry_at + TINY:
                self.stalls += 1
                self.silence += now - self._dry_at
            self._dry_at = max(self._dry_at, now) + length

    def finish(self, now: float) -> None:
        """Everything was received; a reply shorter than the start buffer begins now."""
        self.complete = True
        if self.started_at is None and self.received and self.stopped_at is None:
            self._start(now)

    def pause(self, now: float) -> None:
        """Stand still."""
        if self.started_at is not None and self._left is None:
            self._left = max(0.0, self._dry_at - now)

    def resume(self, now: float) -> None:
        """Go on."""
        if self._left is not None:
            self._dry_at, self._left = now + self._left, None

    def stop(self, now: float) -> None:
        """Interrupt: what lies ahead will not be heard."""
        self.received = self.rendered(now)
        self._dry_at, self._left, self.stopped_at = now, None, now

    def rendered(self, now: float) -> float:
        """Return the seconds that left the client's buffer by `now`."""
        if self.started_at is None:
            return 0.0
        ahead = self._dry_at - now if self._left is None else self._left
        return self.received - max(0.0, ahead)

    def state(self, now: float) -> PlaybackState:
        """Return the word for what it does."""
        if self.started_at is None:
            return "waiting"
        if self._left is not None:
            return "paused"
        if now < self._dry_at - TINY:
            return "playing"
        return "ended" if self.complete else "stalled"

    @property
    def dry_at(self) -> float:
        """When silence starts if nothing more is received, s; `inf` while it stands still."""
        return self._dry_at if self._left is None else inf

    def _start(self, now: float) -> None:
        self.started_at = now
        self._dry_at = now + self.received
