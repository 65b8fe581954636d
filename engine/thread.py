"""The thread that owns the device: feeds `EngineLoop` with commands and real time.

It never spins: it waits for the device, for a command, or for the moment when time alone makes
something ready.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.api import Append, Command, EngineError, Event, Finish, Info, Open
from engine.config import EngineConfig
from engine.loop import EngineLoop
from engine.trace import Trace
from engine.turnaround import TimedStages, Turnaround
from engine.watch import Watch
from engine.work import Stages, Ticket

logger = logging.getLogger(__name__)

HEARTBEAT = 0.1  # s between `Load` events
GLANCE = 0.001  # s of waiting for the device between looks at the inbox …
SIDE_GLANCE = 0.00005  # … and at the other streams
WARM_UP_TEXT = "This sentence warms up every stage, so that the first listener need not wait."
WARM_UP_SECONDS = 1.2  # s of sound of each warm-up utterance
WARM_UP_TOGETHER = (1, 3)  # utterances at once: the cost model learns what company costs


class EngineThread:
    """Runs one engine until `stop`.

    Args:
        config: the engine's configuration.
        deliver: called on the engine thread with the events of one turn, in order.
        died: called on the engine thread if it ends by itself, with the cause.
        stages: what speaks; by default it is built from the configuration, on the engine thread.
    """

    def __init__(
        self,
        config: EngineConfig,
        *,
        deliver: Callable[[list[Event]], None],
        died: Callable[[BaseException], None],
        stages: Stages | None = None,
    ) -> None:
        self.turnaround = Turnaround()
        self._config = config
        self._deliver = deliver
        self._died = died
        self._stages = stages
        self._inbox: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self._ready = threading.Event()
        self._info: Info | None = None
        self._error: BaseException | None = None
        self._stopping = False
        self._watch: Watch | None = None
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    @property
    def trace(self) -> Trace | None:
        """What was launched lately, if the configuration asks for it to be kept."""
        return self._watch.trace if self._watch else None

    def start(self) -> None:
        """Begin loading the model; returns at once."""
        self._thread.start()

    def wait_ready(self) -> Info:
        """Block until the engine can speak. Raises what loading raised."""
        self._ready.wait()
        if self._error is not None:
            raise self._error
        assert self._info is not None
        return self._info

    def send(self, command: Command) -> None:
        """Pass a command on; callable from any thread."""
        self._inbox.put(command)

    def stop(self) -> None:
        """End after the current turn and wait for it."""
        self._stopping = True
        self._inbox.put(None)
        if self._thread.is_alive():
            self._thread.join()

    # ------------------------------------------------------------ internals

    def _run(self) -> None:
        try:
            if self._config.trace:
                self._watch = Watch(Path(self._config.trace))
            stages = TimedStages(self._stages or build(self._config), time.monotonic)
            loop, outbox = self._prepare(stages)
            self._info = stages.info
            self._ready.set()
            self._turn_forever(loop, stages, outbox)
        except BaseException as error:  # whatever ends this thread ends the engine: say so once
            if self._ready.is_set() or not isinstance(error, EngineError):
                logger.exception("engine_died")
            self._error = error
            self._ready.set()
            self._died(error)
        finally:
            if self._watch:
                self._watch.write()

    def _prepare(self, stages: Stages) -> tuple[EngineLoop, list[Event]]:
        """Speak once, unheard: stages warm up, and the cost model learns its first values."""
        from engine.pcm import LeadingSilence

        outbox: list[Event] = []
        loop = EngineLoop(
            stages,
            self._config,
            emit=outbox.append,
            trim=lambda: LeadingSilence(self._config.trim),
            observer=self._watch,
        )
        for together in WARM_UP_TOGETHER:
            loop.step(_warm_up(stages.info, min(together, stages.info.slots)), time.monotonic())
            while loop.busy:
                if not loop.step([], time.monotonic()):
                    _wait_for(loop.tickets, 1.0)
        outbox.clear()
        if self._watch:
            self._watch.clear()
        gc.collect()
        gc.freeze()  # the model lives as long as the process: keep it out of every later collection
        return loop, outbox

    def _turn_forever(self, loop: EngineLoop, stages: TimedStages, outbox: list[Event]) -> None:
        beat_at = time.monotonic()
        commands: list[Command] = []
        while not self._stopping:
            now = time.monotonic()
            settles = _any_done(loop.tickets)
            loop.settle(commands, now)
            if now >= beat_at:
                outbox.append(loop.load(now))
                beat_at = now + HEARTBEAT
            if outbox:  # before the next launch: on a CPU, launching runs the model
                self._deliver(list(outbox))
                outbox.clear()
            launched = loop.launch(now)
            if settles and launched:
                self._turned(time.monotonic() - now, stages.launching, now)
            commands = self._wait(loop, launched, beat_at)

    def _turned(self, between: float, launching: float, now: float) -> None:
        """Note a turn that settled one batch and launched the next."""
        self.turnaround.add(between, launching)
        if self._watch:
            self._watch.turned(between, now)

    def _wait(self, loop: EngineLoop, launched: bool, beat_at: float) -> list[Command]:
        """Wait for whatever comes first and return the commands that have arrived."""
        if launched:
            return self._drain()
        now = time.monotonic()
        if tickets := loop.tickets:
            # Those whose time has come wait for room, which a launch that ends gives them. Whoever
            # is to be refused soon waits with them, for no longer than until the next heartbeat.
            wake_at = loop.wake_at(now)
            until = min(beat_at, wake_at) if wake_at > now else beat_at
            while time.monotonic() < until and self._inbox.empty() and not _any_done(tickets):
                _wait_for(tickets, GLANCE)
            return self._drain()
        if self._watch and not loop.busy and self._watch.write_some(now):
            return self._drain()  # idle for long enough to write a little: look, then write on
        timeout = max(0.0, min(beat_at, loop.wake_at(now)) - now)
        try:
            first = self._inbox.get(timeout=timeout) if timeout else self._inbox.get_nowait()
        except queue.Empty:
            return []
        return ([] if first is None else [first]) + self._drain()

    def _drain(self) -> list[Command]:
        commands = []
        while not self._inbox.empty():
            command = self._inbox.get_nowait()
            if command is not None:
                commands.append(command)
        return commands


def _any_done(tickets: Sequence[Ticket]) -> bool:
    return any(ticket.done() for ticket in tickets)


def _wait_for(tickets: Sequence[Ticket], timeout: float) -> None:
    """Block until the only launch is over or for `timeout` s; of several, for a short while."""
    if tickets:
        tickets[0].wait(timeout if len(tickets) == 1 else SIDE_GLANCE)


def call_in(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *args: object) -> None:
    """Call on an event loop from another thread; a loop that is gone has nobody to tell."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *args)


def _warm_up(info: Info, together: int) -> list[Command]:
    commands: list[Command] = []
    for name in (f"warm-up-{number}" for number in range(together)):
        voice, limit = info.default_voice, WARM_UP_SECONDS
        commands += [
            Open(name, voice, max_lead=None, max_audio=limit),
            Append(name, WARM_UP_TEXT),
            Finish(name),
        ]
    return commands


def build(config: EngineConfig) -> Stages:
    """Return the stages that `config.model` names. Raises ConfigError, CheckpointError."""
    if config.model.checkpoint == "silent":
        from engine.silent import SilentStages

        return SilentStages(
            slots=config.model.slots_without_card,
            rows=config.model.rows,
            clock=time.monotonic,
            sleep=time.sleep,
        )
    from engine.stages import build as build_stages

    return build_stages(config.model)
