"""The real loop and scheduler in virtual time, with a pretended device and listeners.

Answers in seconds what would take hours and a GPU: who hears silence, and how long a first sound
takes, at a given load. Pure: time is a number that this module moves.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil, inf

from engine.api import Append, Audio, Command, Ended, Event, Finish, Load, Open, Playback
from engine.config import EngineConfig
from engine.loop import EngineLoop
from engine.silent import Costs, SilentStages, scripted_costs
from engine.utterance import seconds
from engine.work import Stage

ACK_INTERVAL = 0.1  # s
WARM_ROWS = (1, 2, 4, 8, 16, 32, 64)
GIVE_UP = 600.0  # s of virtual time after the last arrival


@dataclass(frozen=True, slots=True)
class Listener:
    """How one client plays and reports."""

    acks: bool = True
    delay: float = 0.02  # s, one way, both ways
    start_buffer: float = 0.0  # s of sound before it starts to play
    max_lead: float | None = 3.0


@dataclass(frozen=True, slots=True)
class Arrival:
    """One reply to speak."""

    at: float
    text: str
    listener: Listener = Listener()


@dataclass(slots=True)
class Reply:
    """What one listener heard."""

    arrival: Arrival
    first_sound: float | None = None  # s from the request to the sound's arrival
    received: float = 0.0  # s of sound
    stalls: int = 0
    silence: float = 0.0  # s of silence inside the reply
    ended: str = ""
    _plays_until: float = -inf  # when the sound received so far will have been played
    _started_at: float | None = None

    def receive(self, length: float, now: float) -> None:
        """Take a chunk off the network."""
        if self.first_sound is None:
            self.first_sound = now - self.arrival.at
        self.received += length
        if self._started_at is None:
            if self.received >= self.arrival.listener.start_buffer:
                self._started_at = now
                self._plays_until = now + self.received
            return
        if now > self._plays_until + 1e-9:
            self.stalls += 1
            self.silence += now - self._plays_until
        self._plays_until = max(self._plays_until, now) + length

    def rendered(self, now: float) -> float:
        """Return the seconds played by `now`."""
        if self._started_at is None:
            return 0.0
        return self.received - max(0.0, self._plays_until - now)


@dataclass(frozen=True, slots=True)
class Report:
    """The replies of one simulation, and what they cost."""

    replies: list[Reply] = field(default_factory=list)
    device_seconds: float = 0.0

    @property
    def underrun_replies(self) -> int:
        """Replies in which the listener heard silence."""
        return sum(1 for reply in self.replies if reply.stalls)

    def first_sound(self, share: float) -> float:
        """Return the nearest-rank percentile of the time to first sound, s; `nan` if none."""
        times = sorted(r.first_sound for r in self.replies if r.first_sound is not None)
        return times[max(0, ceil(share * len(times)) - 1)] if times else float("nan")


class Simulation:
    """One device and its listeners.

    Args:
        arrivals: replies to speak, in any order.
        config: the engine's configuration; `model` gives slots and rows.
        costs: seconds of a launch.
    """

    def __init__(
        self, arrivals: Sequence[Arrival], config: EngineConfig, *, costs: Costs = scripted_costs
    ) -> None:
        self.now = 0.0
        self._arrivals = arrivals
        self._replies: dict[str, Reply] = {}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._commands: list[Command] = []
        self._device_seconds = 0.0
        self._costs = costs
        self._stages = SilentStages(
            slots=config.model.slots,
            rows=config.model.rows,
            clock=lambda: self.now,
            sleep=_never,
            costs=self._launch_costs,
        )
        self._loop = EngineLoop(self._stages, config, emit=self._emit, trim=_NoTrim)
        for stage in Stage:  # a real engine learns these while it warms up
            for rows in WARM_ROWS:
                self._loop.costs.learn(stage, rows, 1, costs(stage, rows, 1))

    def run(self) -> Report:
        """Speak everything and return what was heard."""
        for number, arrival in enumerate(self._arrivals):
            self._at(arrival.at, lambda n=number, a=arrival: self._open(n, a))
        limit = max((a.at for a in self._arrivals), default=0.0) + GIVE_UP
        while self.now < limit and (self._events or self._loop.busy):
            self._advance()
        return Report(list(self._replies.values()), self._device_seconds)

    # ------------------------------------------------------------ internals

    def _advance(self) -> None:
        """Move to the next moment at which anything can happen, and let it happen."""
        moments = [self._events[0][0]] if self._events else []
        oldest = self._loop.oldest
        if oldest is None:
            moments.append(self._loop.wake_at(self.now))
        else:
            moments.append(oldest.ready_at)  # type: ignore[attr-defined]
        self.now = max(self.now, min(moments))
        while self._events and self._events[0][0] <= self.now:
            heapq.heappop(self._events)[2]()
        commands, self._commands = self._commands, []
        while self._loop.step(commands, self.now):
            commands = []

    def _at(self, moment: float, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (moment, self._count, action))

    def _open(self, number: int, arrival: Arrival) -> None:
        name = f"r{number}"
        listener = arrival.listener
        self._replies[name] = Reply(arrival)
        self._commands += [
            Open(name, "tone", seed=number, acks=listener.acks, max_lead=listener.max_lead),
            Append(name, arrival.text),
            Finish(name),
        ]
        if listener.acks:
            self._at(self.now + ACK_INTERVAL, lambda: self._ack(name))

    def _emit(self, event: Event) -> None:
        if isinstance(event, Audio) and event.pcm:
            reply = self._replies[event.utterance]
            length = seconds(event.pcm)
            arrives = self.now + reply.arrival.listener.delay
            self._at(arrives, lambda: reply.receive(length, arrives))
        elif isinstance(event, Ended):
            self._replies[event.utterance].ended = event.detail or event.reason
        else:
            assert not isinstance(event, Load)

    def _ack(self, name: str) -> None:
        reply = self._replies[name]
        rendered = reply.rendered(self.now)
        if reply.received:
            delay = reply.arrival.listener.delay
            report = Playback(name, rendered, "playing", delay)
            self._at(self.now + delay, lambda: self._commands.append(report))
        if not reply.ended or rendered < reply.received:
            self._at(self.now + ACK_INTERVAL, lambda: self._ack(name))

    def _launch_costs(self, stage: Stage, rows: int, frames: int) -> float:
        taken = self._costs(stage, rows, frames)
        self._device_seconds += taken
        return taken


class _NoTrim:
    """Tones have no leading silence."""

    quiet = 0.0

    def push(self, pcm: bytes, *, last: bool) -> bytes:
        return pcm


def _never(_: float) -> None:
    raise AssertionError("nothing sleeps in virtual time")
