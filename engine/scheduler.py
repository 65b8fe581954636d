"""What runs next: the work that must start soonest, with everyone ready for the same stage.

    latest_start = dry_at + sound already made but not sent - margin - time until this becomes sound

`dry_at` is the moment the listener would hear silence (playback.py). An utterance that has not
spoken yet runs dry at `opened_at + patience`, so start-up needs no rule of its own. Pure and
deterministic: ties are broken by slot; no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from engine.api import FRAME_SECONDS
from engine.config import SchedulerConfig
from engine.costs import CostModel
from engine.utterance import Utterance
from engine.work import Batch, Stage, Stages, Work


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

    def plan(self, utterances: Iterable[Utterance], now: float) -> Batch | None:
        """Return the batch to launch now, or None if nothing is ready."""
        ready = [work for each in utterances for work in self._ready(each, now)]
        if not ready:
            return None
        ready.sort(key=_urgency)
        anchor = ready[0]
        fellows = [work for work in ready if self._rides_along(work, anchor)]
        return Batch(anchor.stage, fellows[: self._stages.rows(anchor.stage)])

    def wake_at(self, utterances: Iterable[Utterance], now: float) -> float:
        """Return when something becomes ready by time alone, s; `inf` if nothing will."""
        return min((self._wakes(each, now) for each in utterances), default=inf)

    def slack(self, utterance: Utterance, now: float) -> float:
        """Return the seconds until the utterance's next work must start; `inf` if it has none."""
        starts = [work.latest_start for work in self._works(utterance, now)]
        return min(starts, default=inf) - now

    # ------------------------------------------------------------ internals

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

    def _ready(self, utterance: Utterance, now: float) -> list[Work]:
        resting = self._rests(utterance, now)
        return [
            work
            for work in self._works(utterance, now)
            if (self._chunk_due(work, now) if work.stage is Stage.CODEC else not resting)
        ]

    def _chunk(self, utterance: Utterance) -> int:
        """Return the largest rung of the ladder that the waiting frames fill, up to the current."""
        ready = utterance.ready_frames
        rungs = self._config.chunk_ladder[: utterance.rung + 1]
        return max((rung for rung in rungs if rung <= ready), default=min(ready, rungs[0]))

    def _chunk_due(self, work: Work, now: float) -> bool:
        """A chunk goes when it is full, when no frame will join it, or when time is up."""
        utterance = work.utterance
        full = work.frames >= self._config.chunk_ladder[utterance.rung]
        return full or utterance.stalled or work.latest_start <= now

    def _rests(self, utterance: Utterance, now: float) -> bool:
        """Generation rests while the listener has more than `max_lead` of sound ahead."""
        limit = utterance.options.max_lead
        return limit is not None and utterance.clock.lead(now) >= limit

    def _rides_along(self, work: Work, anchor: Work) -> bool:
        return work.stage is anchor.stage and work.frames == anchor.frames

    def _wakes(self, utterance: Utterance, now: float) -> float:
        """When a chunk that is not full must go, or a rested utterance goes on."""
        chunks = (w for w in self._works(utterance, now) if w.stage is Stage.CODEC)
        wakes = min((work.latest_start for work in chunks), default=inf)
        limit = utterance.options.max_lead
        if limit is not None and utterance.next_stage() and self._rests(utterance, now):
            dry = utterance.clock.dry_at(now)
            wakes = min(wakes, dry - limit if dry < inf else inf)
        return wakes


def _urgency(work: Work) -> tuple[float, int, Stage]:
    return work.latest_start, work.utterance.slot, work.stage
