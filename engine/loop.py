"""One turn of the engine: apply commands, commit finished batches, plan, launch. Pure.

The same loop runs in real time on the engine thread and in virtual time in the simulator: it sees
the device through `Stages` and time as an argument.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf
from typing import Protocol

from engine.admission import retry_after
from engine.api import (
    Append,
    Audio,
    Cancel,
    Command,
    Ended,
    EndReason,
    Event,
    Finish,
    Flush,
    Load,
    Open,
    Playback,
    Status,
)
from engine.config import EngineConfig, SchedulerConfig
from engine.costs import CostModel
from engine.playback import PlaybackClock
from engine.scheduler import Scheduler
from engine.slots import Slots
from engine.utterance import Trim, Utterance, seconds
from engine.work import Batch, Outcome, Stages, Ticket, Work

logger = logging.getLogger(__name__)

IN_FLIGHT = 2  # batches: the device has the next while the host settles the last
STATUS_INTERVAL = 0.2  # s between `Status` events of one utterance
FOREVER = 3600.0  # s: how an infinite slack crosses the seam


@dataclass(frozen=True, slots=True)
class Flight:
    """A launched batch and when it was launched."""

    batch: Batch
    ticket: Ticket
    launched_at: float


class Policy(Protocol):
    """Decides what runs next; `Scheduler` is ours, others exist to be compared with."""

    def touch(self, utterance: Utterance, now: float) -> None:
        """Something happened to the utterance."""

    def forget(self, utterance: Utterance) -> None:
        """The utterance has ended."""

    def plan(self, now: float) -> Batch | None:
        """Return the batch to launch now; every utterance in it is touched afterwards."""

    def wake_at(self, now: float) -> float:
        """Return when time alone may make something ready, s."""

    def slack(self, utterance: Utterance, now: float) -> float:
        """Return the seconds until the utterance's next work must start."""


class Observer(Protocol):
    """Watches a loop: the trace, a recorder, a simulation's bookkeeping."""

    def command(self, command: Command, now: float) -> None:
        """A command is about to be applied."""

    def launched(self, batch: Batch, predicted: float, now: float) -> None:
        """A batch was launched that should take `predicted` s."""

    def finished(self, batch: Batch, began: float, now: float) -> None:
        """The oldest batch in flight is over; it had the device since `began`."""

    def event(self, event: Event, now: float) -> None:
        """An event was emitted."""


class EngineLoop:
    """The engine without threads, sockets or clocks.

    Args:
        stages: the device.
        config: the engine's configuration.
        emit: called with every event, in order.
        trim: makes the leading-silence filter of one utterance.
        policy: what decides.
        observer: told of everything that happens.
    """

    def __init__(
        self,
        stages: Stages,
        config: EngineConfig,
        *,
        emit: Callable[[Event], None],
        trim: Callable[[], Trim],
        policy: Callable[[SchedulerConfig, CostModel, Stages], Policy] = Scheduler,
        observer: Observer | None = None,
    ) -> None:
        self.costs = CostModel()
        self._stages = stages
        self._config = config
        self._deliver = emit
        self._observer = observer
        self._now = 0.0
        self._trim = trim
        self._slots = Slots(stages.info.slots)
        self._scheduler = policy(config.scheduler, self.costs, stages)
        self._utterances: dict[str, Utterance] = {}  # live, in order of opening
        self._clocks: dict[str, PlaybackClock] = {}  # live and those still sounding
        self._successors: dict[str, str] = {}  # utterance → the one queued behind it
        self._flights: deque[Flight] = deque()
        self._device_free_at = -inf
        self._status_at: dict[str, float] = {}
        self._lateness = 0.0

    def step(self, commands: Iterable[Command], now: float) -> bool:
        """Apply commands, settle what the device finished, launch what must start soonest.

        Returns whether a batch was launched: then step again at once, with a fresh `now`.
        """
        self._now = now
        for command in commands:
            if self._observer:
                self._observer.command(command, now)
            self._apply(command, now)
        self._commit(now)
        self._report(now)
        return len(self._flights) < IN_FLIGHT and self._launch(now)

    @property
    def oldest(self) -> Ticket | None:
        """The launch to wait for, if any is in flight."""
        return self._flights[0].ticket if self._flights else None

    @property
    def busy(self) -> bool:
        """Whether any utterance is live."""
        return bool(self._utterances)

    def wake_at(self, now: float) -> float:
        """Return when time alone makes something ready, s; `inf`: only a command can."""
        return self._scheduler.wake_at(now)

    def load(self, now: float) -> Load:
        """Return the heartbeat; forget clocks that have run out."""
        for name, clock in list(self._clocks.items()):
            if name not in self._utterances and clock.ends_at(now) <= now:
                del self._clocks[name]
                self._successors.pop(name, None)
        late, self._lateness = self._lateness, 0.0
        return Load(len(self._utterances), self._slots.count, late)

    # ------------------------------------------------------------- commands

    def _apply(self, command: Command, now: float) -> None:
        if isinstance(command, Open):
            self._open(command, now)
            return
        if isinstance(command, Playback):
            self._heard(command, now)
            return
        utterance = self._utterances.get(command.utterance)
        if utterance is None:
            if isinstance(command, Cancel) and command.utterance in self._clocks:
                self._clocks[command.utterance].close(now)
                self._moved(command.utterance, now)
            return
        match command:
            case Append():
                utterance.feed.append(command.text)
            case Flush():
                utterance.feed.flush()
            case Finish():
                utterance.feed.finish()
            case Cancel():
                self._end(utterance, "cancelled", "", now)
                return
        utterance.text_changed()
        self._settled(utterance, now)

    def _heard(self, report: Playback, now: float) -> None:
        clock = self._clocks.get(report.utterance)
        if clock is None:
            return
        clock.reported(report.rendered, report.state, report.delay, now)
        utterance = self._utterances.get(report.utterance)
        if utterance:
            self._scheduler.touch(utterance, now)
        self._moved(report.utterance, now)

    def _open(self, options: Open, now: float) -> None:
        name = options.utterance
        if name in self._utterances:
            self._emit(Ended(name, "refused", "utterance_exists"))
            return
        wait = retry_after(
            list(self._utterances.values()),
            slots=self._slots.count,
            costs=self.costs,
            config=self._config.scheduler,
        )
        slot = self._slots.allocate() if wait is None else None
        if slot is None:
            self._emit(Ended(name, "refused", "overloaded", retry_after=wait))
            return
        clock = PlaybackClock(
            now,
            patience=self._config.scheduler.patience,
            acks=options.acks,
            after=self._clocks.get(options.after or ""),
        )
        utterance = Utterance(
            options, slot=slot, feed=self._stages.text(), clock=clock, trim=self._trim()
        )
        code = self._stages.check(utterance)
        if code:
            self._slots.free(slot)
            self._emit(Ended(name, "refused", code))
            return
        self._utterances[name] = utterance
        self._clocks[name] = clock
        if options.after:
            self._successors[options.after] = name

    # --------------------------------------------------------------- device

    def _launch(self, now: float) -> bool:
        batch = self._scheduler.plan(now)
        if batch is None:
            return False
        self._lateness = max(self._lateness, now - batch.works[0].latest_start)
        for work in batch.works:
            if work.stage == "prefill":
                work.utterance.fix_layout()
        self._flights.append(Flight(batch, self._stages.launch(batch), now))
        if self._observer:
            predicted = self.costs.predict(batch.stage, len(batch.works), batch.frames)
            self._observer.launched(batch, predicted, now)
        for work in batch.works:
            utterance = work.utterance
            if work.stage == "codec" and work.frames >= self._ladder[utterance.rung]:
                utterance.rung = min(utterance.rung + 1, len(self._ladder) - 1)
            utterance.advance(work.stage, work.frames)
            self._scheduler.touch(utterance, now)
        return True

    @property
    def _ladder(self) -> tuple[int, ...]:
        return self._config.scheduler.chunk_ladder

    def _commit(self, now: float) -> None:
        while self._flights and self._flights[0].ticket.done():
            flight = self._flights.popleft()
            outcomes = flight.ticket.outcomes()
            self._learn(flight, now)
            for work, outcome in zip(flight.batch.works, outcomes, strict=True):
                if work.utterance.ended is None:
                    self._settle(work, outcome, now)

    def _learn(self, flight: Flight, now: float) -> None:
        began = max(flight.launched_at, self._device_free_at)
        self._device_free_at = now
        batch = flight.batch
        self.costs.learn(batch.stage, len(batch.works), batch.frames, now - began)
        if self._observer:
            self._observer.finished(batch, began, now)

    def _settle(self, work: Work, outcome: Outcome, now: float) -> None:
        utterance = work.utterance
        if outcome.error:
            self._end(utterance, "failed", outcome.error, now)
            return
        audio = utterance.commit(work.stage, work.frames, outcome)
        if audio:
            self._send(utterance, audio, now)
        self._settled(utterance, now)

    # --------------------------------------------------------------- events

    def _emit(self, event: Event) -> None:
        if self._observer:
            self._observer.event(event, self._now)
        self._deliver(event)

    def _send(self, utterance: Utterance, audio: Audio, now: float) -> None:
        if audio.pcm:
            utterance.clock.audio_sent(seconds(audio.pcm), now)
            self._moved(audio.utterance, now)
        self._emit(audio)

    def _settled(self, utterance: Utterance, now: float) -> None:
        """Say farewell if that was all; else look at the utterance anew."""
        for event in utterance.farewell():
            if isinstance(event, Audio):
                self._send(utterance, event, now)
            else:
                utterance.clock.complete = True
                self._remove(utterance, event, now)
        if utterance.ended is None:
            self._scheduler.touch(utterance, now)

    def _end(self, utterance: Utterance, reason: EndReason, detail: str, now: float) -> None:
        utterance.clock.close(now)
        self._remove(utterance, utterance.end(reason, detail), now)

    def _remove(self, utterance: Utterance, ended: Ended, now: float) -> None:
        name = utterance.options.utterance
        self._scheduler.forget(utterance)
        del self._utterances[name]
        self._status_at.pop(name, None)
        self._stages.release(utterance.slot)
        self._slots.free(utterance.slot)
        self._emit(ended)
        self._moved(name, now)

    def _moved(self, name: str, now: float) -> None:
        """The end of an utterance's sound moved: those queued behind it are due at another time."""
        while name := self._successors.get(name, ""):
            successor = self._utterances.get(name)
            if successor:
                self._scheduler.touch(successor, now)

    def _report(self, now: float) -> None:
        for name, utterance in self._utterances.items():
            if (
                utterance.options.status
                and now - self._status_at.get(name, -inf) >= STATUS_INTERVAL
            ):
                self._status_at[name] = now
                clock = utterance.clock
                slack = max(-FOREVER, min(FOREVER, self._scheduler.slack(utterance, now)))
                self._emit(Status(name, clock.lead(now), slack, clock.model(now)))
