"""What others do, to be compared with: four ways to choose the next launch. For the simulator only.

All four decode chunks by the same fixed ladder, let everyone ready for the same stage ride along,
have the same most rows per batch and meet the same admission. They differ in whose work goes first.
None has a lead limit (`UNLIMITED`), as none of the systems they are modelled on has one, and none
looks at what listeners report.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from math import inf
from typing import Any, TypeAlias

from engine.config import SchedulerConfig
from engine.costs import CostModel
from engine.scheduler import Scheduler
from engine.utterance import Utterance
from engine.work import ONE_STREAM, Batch, Policy, Stage, Stages, Stream, Work

Key: TypeAlias = tuple[Any, ...]

RESERVE = 0.025  # s before a chunk's deadline at which the tiers call it urgent
NEAR = 1.0  # s of lead below which the tiers look at deadlines at all
ROUND = (Stage.CODEC, Stage.PREFILL, Stage.PREDICTOR, Stage.TALKER)
LIMITED = (3.0, 2.0)  # s of lead, with reports and without
UNLIMITED = (None, None)


@dataclass(slots=True)
class Known:
    """What a server knows of an utterance without being told: when sound left, and how much."""

    utterance: Utterance
    opened_at: float
    order: int  # of opening
    served_at: float  # last launch
    ready_at: dict[Stage, float]  # since when it waits for a stage
    sent_at: float | None = None  # first sound

    @property
    def dry_at(self) -> float:
        """When sound would run out had it played from the first chunk on, s."""
        return inf if self.sent_at is None else self.sent_at + self.utterance.clock.sent


class Baseline:
    """What the four share: who is live, what each could do, and who rides along.

    Args:
        config: the chunk ladder and the patience of a start.
        costs: not looked at.
        stages: asked for the most rows per batch.
    """

    def __init__(self, config: SchedulerConfig, costs: CostModel, stages: Stages) -> None:
        self.config = config
        self._stages = stages
        self._known: dict[int, Known] = {}  # by slot
        self._works: dict[Stage, dict[int, Work]] = {stage: {} for stage in Stage}
        self._count = 0

    # ---------------------------------------------------------- the one choice

    def key(self, work: Work, known: Known, now: float) -> Key:
        """Return what orders ready work: the least goes first."""
        raise NotImplementedError

    def served(self, stage: Stage) -> None:
        """A batch of that stage was chosen."""

    # ------------------------------------------------------------------ policy

    def touch(self, utterance: Utterance, now: float) -> None:
        """Look at an utterance anew: something happened to it."""
        slot = utterance.slot
        known = self._known.get(slot)
        if known is None:
            self._count += 1
            known = self._known[slot] = Known(utterance, now, self._count, now, {})
        if known.sent_at is None and utterance.clock.sent:
            known.sent_at = now
        ready = {work.stage: work for work in self._could(utterance)}
        for stage, works in self._works.items():
            works.pop(slot, None)
            if stage in ready:
                works[slot] = ready[stage]
                known.ready_at.setdefault(stage, now)
            else:
                known.ready_at.pop(stage, None)

    def forget(self, utterance: Utterance) -> None:
        """The utterance has ended."""
        self._known.pop(utterance.slot, None)
        for works in self._works.values():
            works.pop(utterance.slot, None)

    def plan(self, now: float, streams: Collection[Stream] = ONE_STREAM) -> Batch | None:
        """Return the batch of the work with the least key, and those of its stage."""
        ready = [work for works in self._works.values() for work in works.values()]
        if not ready:
            return None
        known = self._known
        keys = {id(work): self.key(work, known[work.utterance.slot], now) for work in ready}
        anchor = min(ready, key=lambda work: keys[id(work)])
        fellows = [
            work
            for work in self._works[anchor.stage].values()
            if work.frames == anchor.frames and work is not anchor
        ]
        fellows.sort(key=lambda work: keys[id(work)])
        works = [anchor, *fellows[: self._stages.rows(anchor.stage) - 1]]
        for work in works:
            known[work.utterance.slot].served_at = now
            known[work.utterance.slot].ready_at.pop(work.stage, None)
        self.served(anchor.stage)
        return Batch(anchor.stage, works)

    def launched(self, batch: Batch, now: float) -> None:
        """Look at everyone in it anew."""
        for work in batch.works:
            self.touch(work.utterance, now)

    def wake_at(self, now: float) -> float:
        """Nothing waits for time alone."""
        return inf

    def slack(self, utterance: Utterance, now: float) -> float:
        """Return the seconds until its sound runs out, as the server counts."""
        known = self._known.get(utterance.slot)
        return known.dry_at - now if known else inf

    # --------------------------------------------------------------- internals

    def _could(self, utterance: Utterance) -> Iterable[Work]:
        frames = self._chunk(utterance)
        if frames:
            yield Work(utterance, Stage.CODEC, frames, inf)
        stage = utterance.next_stage()
        if stage:
            yield Work(utterance, stage, 1, inf)

    def _chunk(self, utterance: Utterance) -> int:
        """Return the rung once it is full; what is left, by rungs, once no frame will join."""
        ready, rungs = utterance.ready_frames, self.config.chunk_ladder
        rung = next((each for each in rungs if each > utterance.largest_chunk), rungs[-1])
        if ready >= rung or not (utterance.stalled or not utterance.generating):
            return rung if ready >= rung else 0
        return max((each for each in rungs if each <= ready), default=0)


class Fifo(Baseline):
    """First ready, first served."""

    def key(self, work: Work, known: Known, now: float) -> Key:
        """Order by how long it waits."""
        return known.ready_at.get(work.stage, now), known.order


class RoundRobin(Baseline):
    """One stage after the other, everyone who is ready; within a stage, who waits longest."""

    _turn = 0

    def key(self, work: Work, known: Known, now: float) -> Key:
        """Order by the distance of its stage from the one whose turn it is."""
        distance = (ROUND.index(work.stage) - self._turn) % len(ROUND)
        return distance, known.served_at, known.order

    def served(self, stage: Stage) -> None:
        """The next stage's turn."""
        self._turn = (ROUND.index(stage) + 1) % len(ROUND)


class OpenLoopDeadlines(Baseline):
    """Earliest deadline first, where the deadline is what the server estimates from sending."""

    def key(self, work: Work, known: Known, now: float) -> Key:
        """Order by when sound runs out; codec before the others of the same listener."""
        due = known.opened_at + self.config.patience if known.sent_at is None else known.dry_at
        return due, ROUND.index(work.stage), known.order


class Tiers(Baseline):
    """Urgent chunks, then all start-up work, then leads below a second, then turns."""

    def key(self, work: Work, known: Known, now: float) -> Key:
        """Order by tier; start-up by stage and age, the near by deadline, the rest by turn."""
        if work.stage is Stage.CODEC and known.dry_at - RESERVE <= now:
            return 0, known.dry_at, known.order
        if known.sent_at is None:
            return 1, ROUND.index(work.stage), known.order
        if known.dry_at - now <= NEAR:
            return 2, known.dry_at, known.order
        return 3, known.served_at, known.order


@dataclass(frozen=True, slots=True)
class Entrant:
    """A policy as it is compared."""

    policy: Callable[..., Policy]
    max_lead: tuple[float | None, float | None]
    listens: bool  # whether reports of playback reach it
    help: str


ENTRANTS = {
    "playhead": Entrant(Scheduler, LIMITED, True, "latest start first, by the listener's playhead"),
    "open": Entrant(Scheduler, UNLIMITED, False, "the same without reports and without lead limit"),
    "tiers": Entrant(Tiers, UNLIMITED, False, "urgent chunks, start-up, leads below 1 s, turns"),
    "edf": Entrant(OpenLoopDeadlines, UNLIMITED, False, "earliest deadline by the server's count"),
    "rounds": Entrant(RoundRobin, UNLIMITED, False, "one stage after the other"),
    "fifo": Entrant(Fifo, UNLIMITED, False, "first ready, first served"),
}
