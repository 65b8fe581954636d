"""The real loops in virtual time, with pretended devices, networks and listeners. Pure.

Answers in seconds what would take hours and a GPU: who hears silence, and how long a first sound
takes, at a given load. Time is a number that this module moves.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from math import inf
from random import Random
from typing import Any

from engine.api import Audio, Command, Ended, Event, Load, Open
from engine.config import EngineConfig
from engine.flights import Flight
from engine.loop import EngineLoop
from engine.placement import place
from engine.scheduler import Scheduler
from engine.silent import VOICES, Costs, SilentStages, scripted_costs
from engine.simulation.arrivals import Arrival
from engine.simulation.conversation import Conversation
from engine.simulation.replay import Witness
from engine.simulation.report import DeviceUse, Report, pooled
from engine.work import ONE_STREAM, Observer, Policy, Stage, Stream

HEARTBEAT = 0.1  # s between `Load` events
WARM_ROWS = (1, 2, 4, 8, 16, 32, 64)
GIVE_UP = 600.0  # s of virtual time after the last arrival
SAMPLE_EVERY = 0.25  # s between looks at every live reply's lead and slack


class Engine:
    """One loop on one pretended device, and what the simulation knows about it."""

    def __init__(self, loop: EngineLoop) -> None:
        self.loop = loop
        self.commands: list[Command] = []
        self.load: Load | None = None
        self.opened = 0  # since that load
        self.next_at = inf  # s: when the device or time alone will make something happen
        self._in_flight = False

    def step(self, now: float) -> None:
        """Take a turn if there is reason to.

        While a launch is in flight, commands and whoever's time has come wait until one is over.
        The engine's thread looks at both meanwhile, so that it is sooner by less than a launch.
        """
        if self.next_at > now and (self._in_flight or not self.commands):
            return
        commands, self.commands = self.commands, []
        while self.loop.step(commands, now):
            commands = []
        tickets = self.loop.tickets
        self._in_flight = bool(tickets)
        if tickets:
            self.next_at = min(
                each.ready_at  # type: ignore[attr-defined]  # they are SilentTickets
                for each in tickets
            )
        else:
            self.next_at = self.loop.wake_at(now)


class Simulation:
    """Devices and their listeners.

    Args:
        arrivals: replies to speak, in any order.
        config: the engine's configuration; `model` gives slots and rows.
        costs: seconds of a launch.
        engines: devices, each with a loop of its own.
        policy: what decides.
        max_lead: s of unheard sound before generation rests, for those who report and for those
            who do not; None: no limit.
        listens: whether reports of playback reach the engine.
        watch_slack: sample the slack of every honest listener, five times a second.
        hiccups: spread of the launch times, as a share of them.
        streams: what a device runs side by side.
        seed: of networks and hiccups.
        observers: watch the first engine's loop.
    """

    def __init__(
        self,
        arrivals: Sequence[Arrival],
        config: EngineConfig,
        *,
        costs: Costs = scripted_costs,
        engines: int = 1,
        policy: Callable[..., Policy] = Scheduler,
        max_lead: tuple[float | None, float | None] = (3.0, 2.0),
        listens: bool = True,
        watch_slack: bool = False,
        hiccups: float = 0.0,
        streams: Collection[Stream] = ONE_STREAM,
        seed: int = 0,
        observers: Sequence[Observer] = (),
    ) -> None:
        self.now = 0.0
        self.max_lead = max_lead
        self.listens = listens
        self.watch_slack = watch_slack
        self.seed = seed
        self._arrivals = arrivals
        self._config = config
        self._costs = costs
        self._policy = policy
        self._hiccups = hiccups
        self._streams = streams
        self._chance = Random(f"{seed}/device")
        self._conversations: dict[str, Conversation | Witness] = {}
        self._talking: dict[str, Conversation | Witness] = {}
        self._recorded = 0  # commands of a log still to come
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = 0
        self._devices = [DeviceUse() for _ in range(engines)]
        self._leads: list[float] = []
        self._slacks: list[float] = []
        self._observers = observers
        self._engines = [self._engine(number) for number in range(engines)]

    def run(self) -> Report:
        """Speak everything and return what was heard."""
        for number, arrival in enumerate(self._arrivals):
            self.at(arrival.at, self._open, number, arrival)
        return self._through(max((a.at for a in self._arrivals), default=0.0))

    def replay(self, commands: Sequence[tuple[float, Command]]) -> Report:
        """Apply recorded commands at their moments and return what was to be heard."""
        self._recorded = len(commands)
        moments = [at for at, _ in commands]
        self.now = min(moments, default=0.0)  # a real engine's clock began with the machine
        for at, command in commands:
            self.at(at, self._replay, command)
        return self._through(max(moments, default=0.0))

    def _through(self, last: float) -> Report:
        began = self.now
        self.at(began, self._beat)
        self.at(began + SAMPLE_EVERY, self._sample)
        while self.now < last + GIVE_UP and self._unfinished:
            self._advance()
        replies = [each.report(self.now) for each in self._conversations.values()]
        duration = self.now - began
        for device in self._devices:
            device.lived = duration
        return Report(replies, pooled(self._devices), self._leads, self._slacks, duration)

    # ------------------------------------------- what a conversation may ask

    def at(self, moment: float, action: Callable[..., None], *arguments: Any) -> None:
        """Let something happen at a moment."""
        self._count += 1
        heapq.heappush(self._events, (moment, self._count, action, arguments))

    def send(self, engine: int, command: Command) -> None:
        """A command reaches an engine."""
        self._engines[engine].commands.append(command)

    def over(self, name: str) -> None:
        """A reply's last sound was heard."""
        self._talking.pop(name, None)

    # ------------------------------------------------------------- internals

    @property
    def _unfinished(self) -> bool:
        if self._talking or self._recorded or len(self._conversations) < len(self._arrivals):
            return True
        return any(each.loop.busy for each in self._engines)

    def _advance(self) -> None:
        """Move to the next moment at which anything can happen, and let it happen."""
        events = self._events
        upcoming = events[0][0] if events else inf
        self.now = now = max(self.now, min(upcoming, *(each.next_at for each in self._engines)))
        while events and events[0][0] <= now:
            _, _, action, arguments = heapq.heappop(events)
            action(*arguments)
        for engine in self._engines:
            engine.step(now)

    def _open(self, number: int, arrival: Arrival) -> None:
        engine = place([e.load for e in self._engines], [e.opened for e in self._engines]) or 0
        name = f"r{number}"
        conversation = Conversation(name, number, arrival, self, engine=engine)
        self._conversations[name] = self._talking[name] = conversation
        self._engines[engine].opened += 1
        conversation.begin()

    def _replay(self, command: Command) -> None:
        self._recorded -= 1
        name = command.utterance
        if isinstance(command, Open):
            self._conversations[name] = Witness(command, self.now)
            command = replace(command, voice=VOICES[0])  # recorded ones are not known here
        elif isinstance(witness := self._conversations.get(name), Witness):
            witness.told(command, self.now)
        self.send(0, command)

    def _beat(self) -> None:
        for engine in self._engines:
            engine.load, engine.opened = engine.loop.load(self.now), 0
        self.at(self.now + HEARTBEAT, self._beat)

    def _sample(self) -> None:
        for conversation in self._talking.values():
            lead = conversation.lead(self.now)
            if lead is not None:
                self._leads.append(lead)
        self.at(self.now + SAMPLE_EVERY, self._sample)

    # --------------------------------------------------------------- engines

    def _engine(self, number: int) -> Engine:
        stages = SilentStages(
            slots=self._config.model.slots_without_card,
            rows=self._config.model.rows,
            clock=lambda: self.now,
            sleep=_never,
            costs=self._taken,
            streams=self._streams,
        )
        loop = EngineLoop(
            stages,
            self._config,
            emit=self._emit,
            trim=_NoTrim,
            policy=self._policy,
            observer=_Watch(self._devices[number], () if number else self._observers),
        )
        self._warm_up(loop)
        return Engine(loop)

    def _warm_up(self, loop: EngineLoop) -> None:
        """A real engine learns these before it is ready."""
        ladder = self._config.scheduler.chunk_ladder
        for stage in Stage:
            for rows in WARM_ROWS:
                for frames in ladder if stage is Stage.CODEC else (1,):
                    loop.costs.learn(stage, rows, frames, self._costs(stage, rows, frames))

    def _taken(self, stage: Stage, rows: int, frames: int) -> float:
        taken = self._costs(stage, rows, frames)
        if self._hiccups:
            taken *= max(0.5, self._chance.gauss(1.0, self._hiccups))
        return taken

    def _emit(self, event: Event) -> None:
        if isinstance(event, Audio):
            self._conversations[event.utterance].sound(event, self.now)
        elif isinstance(event, Ended):
            self._conversations[event.utterance].end(event, self.now)
        elif not isinstance(event, Load) and self._conversations[event.utterance].honest:
            self._slacks.append(event.slack)


class _Watch:
    """Counts what the device does, and passes everything on."""

    def __init__(self, device: DeviceUse, further: Sequence[Observer]) -> None:
        self._device = device
        self._further = further

    def command(self, command: Command, now: float) -> None:
        for each in self._further:
            each.command(command, now)

    def finished(self, flight: Flight, now: float) -> None:
        batch, times = flight.batch, {"predicted": flight.predicted, "began": flight.began}
        self._device.add(batch.stage, len(batch.works), **times, ended=now)
        for each in self._further:
            each.finished(flight, now)

    def event(self, event: Event, now: float) -> None:
        for each in self._further:
            each.event(event, now)


class _NoTrim:
    """Tones have no leading silence."""

    quiet = 0.0

    def push(self, pcm: bytes, *, last: bool) -> bytes:
        return pcm


def _never(_: float) -> None:
    raise AssertionError("nothing sleeps in virtual time")
