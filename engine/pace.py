"""How long before silence work must start, among the present company. Pure.

None of it depends on a single utterance, so it is worked out once for all of them, anew only when
the company or the measured costs have changed.
"""

from __future__ import annotations

from bisect import bisect_right
from math import ceil

from engine.api import FRAME_SECONDS
from engine.config import SchedulerConfig
from engine.costs import CostModel
from engine.work import Stage

LONGEST = 0.04  # s that a launch of chunks may take, as nothing interrupts it


class Pace:
    """Durations from which everyone's latest start is counted.

    Args:
        config: margin and chunk ladder.
        costs: expected durations, as they are now.
        fellows: utterances that generate together.

    `newcomer` and `listener` hold the s before silence at which a stage of generation must start,
    for one that has not spoken yet and for one that plays: a late first sound is late, a late later
    one is silence, so only who listens counts the launch that may be under way.
    """

    __slots__ = ("_costs", "_ladder", "_margin", "_rungs", "_under_way", "fellows",
                 "first_chunk", "listener", "newcomer", "step", "version")  # fmt: skip

    def __init__(self, config: SchedulerConfig, costs: CostModel, fellows: int) -> None:
        self._ladder, self._margin, self._costs = config.chunk_ladder, config.margin, costs
        self.version, self.fellows = costs.version, fellows
        self.step = costs.predict(Stage.TALKER, fellows) + costs.predict(Stage.PREDICTOR, fellows)
        self._under_way = self._launch_under_way()
        self._rungs = [rung for rung in self._ladder if self.chunk(rung) <= LONGEST]
        self.first_chunk = self._frames_of_the_first()
        self.newcomer = self._before(self._margin, 1)
        self.listener = self._before(self._margin + self._under_way, fellows)

    def before_chunk(self, frames: int, *, listening: bool) -> float:
        """Return the s before silence at which a chunk must start."""
        before = self._margin + self.chunk(frames)
        return before + self._under_way if listening else before

    def chunk(self, frames: int) -> float:
        """Return the s that decoding one chunk takes."""
        return self._costs.predict(Stage.CODEC, 1, frames)

    def next_chunk(self, largest: int) -> int:
        """Return the frames of the chunk after one of `largest`: one rung up.

        On a slow device the ladder ends where a launch would take too long.
        """
        rungs = self._rungs
        above = bisect_right(rungs, largest)
        if above < len(rungs):
            return rungs[above]
        return min(max(largest, self._ladder[0]), self._ladder[-1])

    def fitting_chunk(self, ready: int) -> int:
        """Return the largest rung that `ready` frames fill, 0 if none."""
        above = bisect_right(self._ladder, ready)
        return self._ladder[above - 1] if above else 0

    def _before(self, spare: float, rows: int) -> dict[Stage, float]:
        """Return the s before silence at which each stage of generation must start."""
        stages = (Stage.PREFILL, Stage.TALKER, Stage.PREDICTOR)
        return {each: spare + self._costs.until_sound(each, rows) for each in stages}

    def _launch_under_way(self) -> float:
        """Return what a listener may have to wait for, as nothing interrupts it, s."""
        if self.fellows == 1:
            return 0.0
        predictor = self._costs.predict(Stage.PREDICTOR, self.fellows)
        return max(predictor, min(self.chunk(self._ladder[-1]), LONGEST))

    def _frames_of_the_first(self) -> int:
        """The first chunk's sound must cover the making of the second.

        That is a step among the present fellows, a decode, and the launch that may be under way.
        """
        making = self.step + self._costs.predict(Stage.CODEC, self.fellows)
        return ceil((making + self._under_way + self._margin) / FRAME_SECONDS)
