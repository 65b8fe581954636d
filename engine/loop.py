"""One turn of the engine: apply commands, commit finished batches, plan, launch. Pure.

The same loop runs in real time on the engine thread and in virtual time in the simulator: it sees
the device through `Stages` and time as an argument.
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from itertools import groupby
from math import inf

from engine.admission import RETRY_AFTER, Admission, Held
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
from engine.flights import Flights
from engine.playback import PlaybackClock
from engine.register import Register
from engine.scheduler import Scheduler
from engine.utterance import Trim, Utterance, seconds
from engine.work import Observer, Outcome, Policy, Stage, Stages, Ticket, Work

logger = logging.getLogger(__name__)

STATUS_INTERVAL = 0.2  # s between `Status` events of one utterance
FOREVER = 3600.0  # s: how an infinite slack crosses the seam


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
        self._live = Register(stages.info.slots)
        self._admission = Admission(config.scheduler, self.costs, stages.info.slots)
        self._policy = policy(config.scheduler, self.costs, stages)
        self._flights = Flights(stages, self.costs, observer)
        self._status_at: OrderedDict[str, float] = OrderedDict()  # who waited longest comes first
        self._lateness = 0.0
        self._ended: Counter[str] = Counter()

    def step(self, commands: Sequence[Command], now: float) -> bool:
        """Settle and launch; whether a batch was launched."""
        self.settle(commands, now)
        return self.launch(now)

    def settle(self, commands: Sequence[Command], now: float) -> None:
        """Apply commands and take in what the device finished."""
        self._now = now
        self._obey(commands, now)
        self._commit(now)
        self._admit(now)
        self._report(now)

    def launch(self, now: float) -> bool:
        """Launch what must start soonest, if the device has room for it.

        Returns whether a batch was launched: then settle and launch again, with a fresh `now`.
        """
        room = self._flights.room
        batch = self._policy.plan(now, room) if room else None
        if batch is None:
            return False
        self._lateness = max(self._lateness, now - batch.works[0].latest_start)
        for work in batch.works:
            if work.stage is Stage.PREFILL:
                work.utterance.fix_layout()
        self._flights.launch(batch, now)
        for work in batch.works:
            work.utterance.advance(work.stage, work.frames)
        self._policy.launched(batch, now)
        return True

    @property
    def tickets(self) -> list[Ticket]:
        """The launches to wait for: the oldest of every stream."""
        return self._flights.tickets

    @property
    def busy(self) -> bool:
        """Whether any utterance is live or waits to be admitted."""
        return bool(len(self._live)) or self._admission.busy

    def wake_at(self, now: float) -> float:
        """Return when time alone makes something ready, s; `inf`: only a command can."""
        return min(self._policy.wake_at(now), self._admission.wakes_at)

    def load(self, now: float) -> Load:
        """Return the heartbeat; forget clocks that have run out."""
        self._live.prune(now)
        late, self._lateness = self._lateness, 0.0
        return Load(len(self._live), self._live.slots.count, late, dict(self._ended))

    # ------------------------------------------------------------- commands

    def _obey(self, commands: Sequence[Command], now: float, *, observed: bool = False) -> None:
        """Apply commands; text that comes in one go is read in one go, and looked at once.

        Args:
            observed: the observer was told of them when they came.
        """
        for (name, is_text), row in groupby(commands, _addressed):
            for command in row:
                if self._observer and not observed:
                    self._observer.command(command, now)
                self._apply(command, now)
            if is_text and (utterance := self._live.get(name)):
                utterance.text_changed()
                self._settled(utterance, now)

    def _apply(self, command: Command, now: float) -> None:
        name = command.utterance
        if isinstance(command, Open):
            self._open(command, now)
        elif isinstance(command, Playback):
            self._heard(command, now)
        elif utterance := self._live.get(name):
            self._change(utterance, command, now)
        elif held := self._admission.waiting(name):
            self._while_held(held, command)
        elif isinstance(command, Cancel) and (clock := self._live.clock(name)):
            clock.close(now)
            self._moved(name, now)

    def _change(self, utterance: Utterance, command: Command, now: float) -> None:
        match command:
            case Append():
                if utterance.text_is_late(self.costs.until_sound(Stage.TALKER), now):
                    utterance.feed.by_sentence()
                utterance.feed.append(command.text)
            case Flush():
                utterance.feed.flush()
            case Finish():
                utterance.feed.finish()
            case Cancel():
                self._end(utterance, "cancelled", "", now)

    def _heard(self, report: Playback, now: float) -> None:
        name = report.utterance
        clock = self._live.clock(name)
        if clock is None:
            return
        moved = clock.reported(report.rendered, report.state, report.delay, now)
        if not moved:
            return
        if utterance := self._live.get(name):
            self._policy.touch(utterance, now)
        self._moved(name, now)

    # ------------------------------------------------------------ admission

    def _open(self, options: Open, now: float) -> None:
        name = options.utterance
        if self._live.get(name) or self._admission.waiting(name):
            self._emit(Ended(name, "refused", "utterance_exists"))
        elif code := self._stages.check(options):
            self._emit(Ended(name, "refused", code))
        elif not self._admission.busy and self._admission.admits(options, self._live, now):
            self._begin(options, now)
        else:
            self._admission.hold(options, now)

    def _admit(self, now: float) -> None:
        """Let held utterances in as room comes; refuse those that waited too long."""
        if not self._admission.busy:
            return
        while held := self._admission.next_in(self._live, now):
            self._begin(held.options, now)
            self._obey(held.commands, now, observed=True)
        while held := self._admission.expired(now):
            name = held.options.utterance
            self._emit(Ended(name, "refused", "overloaded", retry_after=RETRY_AFTER))

    def _while_held(self, held: Held, command: Command) -> None:
        if isinstance(command, Cancel):
            self._admission.drop(held)
            self._emit(Ended(command.utterance, "cancelled"))
        else:
            held.commands.append(command)

    def _begin(self, options: Open, now: float) -> None:
        slot = self._live.slots.allocate()
        assert slot is not None, "admission counts slots"
        clock = PlaybackClock(
            now,
            patience=self._config.scheduler.patience,
            acks=options.acks,
            after=self._live.clock(options.after),
        )
        utterance = Utterance(
            options,
            slot=slot,
            feed=self._stages.text(),
            clock=clock,
            trim=self._trim(),
            quiet_limit=self._config.trim.runaway,
        )
        self._live.add(utterance)
        if options.status:
            self._status_at[options.utterance] = -inf
            self._status_at.move_to_end(options.utterance, last=False)

    # --------------------------------------------------------------- device

    def _commit(self, now: float) -> None:
        for work, outcome in self._flights.landed(now):
            if work.utterance.ended is None:
                self._settle(work, outcome, now)

    def _settle(self, work: Work, outcome: Outcome, now: float) -> None:
        utterance = work.utterance
        if outcome.error:
            self._end(utterance, "failed", outcome.error, now)
            return
        if work.stage is Stage.PREDICTOR:
            return  # no facts: that the frame exists was counted at launch
        audio = utterance.commit(work.stage, work.frames, outcome)
        if audio:
            self._send(utterance, audio, now)
        if work.stage is Stage.CODEC or not utterance.mid_frame:
            self._settled(utterance, now)

    # --------------------------------------------------------------- events

    def _emit(self, event: Event) -> None:
        if isinstance(event, Ended):
            self._ended[event.reason] += 1
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
            self._policy.touch(utterance, now)

    def _end(self, utterance: Utterance, reason: EndReason, detail: str, now: float) -> None:
        utterance.clock.close(now)
        self._remove(utterance, utterance.end(reason, detail), now)

    def _remove(self, utterance: Utterance, ended: Ended, now: float) -> None:
        name = utterance.options.utterance
        self._policy.forget(utterance)
        self._live.remove(utterance)
        self._status_at.pop(name, None)
        self._stages.release(utterance.slot)
        self._emit(ended)
        self._moved(name, now)

    def _moved(self, name: str, now: float) -> None:
        """The end of an utterance's sound moved: those queued behind it are due at another time."""
        for successor in self._live.behind(name):
            self._policy.touch(successor, now)

    def _report(self, now: float) -> None:
        while self._status_at:
            name, last = next(iter(self._status_at.items()))
            if now - last < STATUS_INTERVAL:
                return
            self._status_at[name] = now
            self._status_at.move_to_end(name)
            self._tell_status(name, now)

    def _tell_status(self, name: str, now: float) -> None:
        utterance = self._live.get(name)
        assert utterance is not None
        clock = utterance.clock
        slack = max(-FOREVER, min(FOREVER, self._policy.slack(utterance, now)))
        self._emit(Status(name, clock.lead(now), slack, clock.model(now)))


def _addressed(command: Command) -> tuple[str, bool]:
    """Whom a command is for, and whether it is about text."""
    return command.utterance, isinstance(command, (Append, Flush, Finish))
