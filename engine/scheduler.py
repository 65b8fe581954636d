"""What runs next: the work that must start soonest, with everyone ready for the same stage.

    latest_start = dry_at + sound already made but not sent - margin - time until this becomes sound

`dry_at` is the moment the listener would hear silence (playback.py). An utterance that has not
spoken yet runs dry at `opened_at + patience`, so start-up needs no rule of its own.

Ready work is kept in order, so that planning costs nothing for those who rest: an utterance is
looked at when something happened to it (`touch`) or when its time has come. Pure and deterministic:
ties are broken by slot; no clock, no randomness.
"""

from __future__ import annotations

import heapq
from math import inf

from engine.api import FRAME_SECONDS
from engine.config import SchedulerConfig
from engine.costs import CostModel
from engine.utterance import Utterance
from engine.work import Batch, Stage, Stages, Work

Entry = tuple[float, int, int, Work]  # latest start, slot, version of the utterance, work
Timer = tuple[float, int, int, Utterance]  # moment, slot, version, utterance

SLACK_ENTRIES = 64  # outdated entries a lane may hold before it is swept


class Scheduler:
    """Chooses batches for one device.

    Args:
        config: margins and the chunk ladder.
        costs: expected durations.
        stages: asked for the most rows per batch.
    """

    def __init__(self, config: SchedulerConfig, costs: CostModel, stages: Stages) -> None:
        self._config = config
        self._costs = costs
        self._stages = stages
        self._lanes: dict[tuple[Stage, int], list[Entry]] = {}  # (stage, frames) → heap
        self._timers: list[Timer] = []
        self._versions: dict[int, int] = {}  # slot → count of touches: older entries are void

    def touch(self, utterance: Utterance, now: float) -> None:
        """Look at an utterance anew: something happened to it."""
        version = self._outdate(utterance.slot)
        resting = self._rests(utterance, now)
        moment = utterance.clock.changes_at(now)
        for work in self._works(utterance, now):
            if work.stage is Stage.CODEC:
                ready = self._chunk_due(work, now)
                moment = moment if ready else min(moment, work.latest_start)
            else:
                ready = not resting
                moment = moment if ready else min(moment, self._rested_at(utterance, now))
            if ready:
                self._add(work, version)
        if moment < inf:
            heapq.heappush(self._timers, (moment, utterance.slot, version, utterance))

    def forget(self, utterance: Utterance) -> None:
        """The utterance has ended."""
        self._outdate(utterance.slot)

    def plan(self, now: float) -> Batch | None:
        """Return the batch to launch now, or None if nothing is ready.

        The caller launches it and touches every utterance in it.
        """
        self._wake(now)
        anchor = min(filter(None, map(self._first, self._lanes.values())), default=None)
        if anchor is None:
            return None
        work = anchor[3]
        return Batch(work.stage, self._take(work.stage, work.frames))

    def wake_at(self, now: float) -> float:
        """Return when time alone may make something ready, s; `inf` if nothing will."""
        timers = self._timers
        while timers and not self._valid(timers[0][1], timers[0][2]):
            heapq.heappop(timers)
        return max(now, timers[0][0]) if timers else inf

    def slack(self, utterance: Utterance, now: float) -> float:
        """Return the seconds until the utterance's next work must start; `inf` if it has none."""
        starts = [work.latest_start for work in self._works(utterance, now)]
        return min(starts, default=inf) - now

    # ---------------------------------------------------------- one utterance

    def _works(self, utterance: Utterance, now: float) -> list[Work]:
        """What the utterance's two lanes could do, rested or not."""
        due = utterance.clock.dry_at(now) - self._config.margin
        works = []
        frames = self._chunk(utterance)
        if frames:
            start = due - self._costs.until_sound(Stage.CODEC, frames)
            works.append(Work(utterance, Stage.CODEC, frames, start))
        stage = utterance.next_stage()
        if stage:
            unsent = (utterance.frame - utterance.delivered) * FRAME_SECONDS
            start = due + unsent - self._costs.until_sound(stage)
            works.append(Work(utterance, stage, 1, start))
        return works

    def _chunk(self, utterance: Utterance) -> int:
        """Return the largest rung of the ladder that the waiting frames fill, up to the current."""
        ready = utterance.ready_frames
        rungs = self._config.chunk_ladder
        rung = utterance.rung
        while rung and rungs[rung] > ready:
            rung -= 1
        return min(ready, rungs[rung])

    def _chunk_due(self, work: Work, now: float) -> bool:
        """A chunk goes when it is full, when no frame will join it, or when time is up."""
        utterance = work.utterance
        full = work.frames >= self._config.chunk_ladder[utterance.rung]
        return full or utterance.stalled or work.latest_start <= now

    def _rests(self, utterance: Utterance, now: float) -> bool:
        """Generation rests while the listener has more than `max_lead` of sound ahead."""
        limit = utterance.options.max_lead
        return limit is not None and utterance.clock.lead(now) >= limit

    def _rested_at(self, utterance: Utterance, now: float) -> float:
        """When the lead will have fallen to the limit; a pause lasts until the listener says so."""
        limit = utterance.options.max_lead
        assert limit is not None
        dry = utterance.clock.dry_at(now)
        return dry - limit if dry < inf else inf

    # ---------------------------------------------------------- ordered work

    def _outdate(self, slot: int) -> int:
        version = self._versions.get(slot, 0) + 1
        self._versions[slot] = version
        return version

    def _valid(self, slot: int, version: int) -> bool:
        return self._versions[slot] == version

    def _add(self, work: Work, version: int) -> None:
        lane = self._lanes.setdefault((work.stage, work.frames), [])
        heapq.heappush(lane, (work.latest_start, work.utterance.slot, version, work))
        if len(lane) > 2 * len(self._versions) + SLACK_ENTRIES:
            lane[:] = [entry for entry in lane if self._valid(entry[1], entry[2])]
            heapq.heapify(lane)

    def _wake(self, now: float) -> None:
        """Touch those whose time has come."""
        while self._timers and self._timers[0][0] <= now:
            _, slot, version, utterance = heapq.heappop(self._timers)
            if self._valid(slot, version):
                self.touch(utterance, now)

    def _first(self, lane: list[Entry]) -> Entry | None:
        while lane and not self._valid(lane[0][1], lane[0][2]):
            heapq.heappop(lane)
        return lane[0] if lane else None

    def _take(self, stage: Stage, frames: int) -> list[Work]:
        lane = self._lanes[stage, frames]
        works: list[Work] = []
        while len(works) < self._stages.rows(stage):
            entry = self._first(lane)
            if entry is None:
                break
            works.append(heapq.heappop(lane)[3])
        return works
