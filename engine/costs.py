"""How long the device takes: seconds per (stage, rows, frames), learnt from every launch. Pure.

Sizes are rounded up to quarters of a power of two (…, 8, 10, 12, 14, 16, 20, …), much as a device
that captures graphs pads them: the table stays small, and one size serves its neighbours.
"""

from __future__ import annotations

from functools import lru_cache
from math import log

from engine.work import Stage

ROW_SHARE = 0.2  # what one more row adds to a batch, as a share of the first: until measured
FRAME_SHARE = 0.5  # the same for one more codec frame in a work
LEARNING_RATE = 0.1  # weight of the newest launch in the running mean
SURPRISE = 2.0  # a launch counts as at most so many times the mean: machines hiccup
NOTICEABLE = 0.01  # share of a mean: smaller moves leave predictions as they are
UNKNOWN = 0.01  # s, before anything was measured

PATHS = {
    Stage.PREFILL: (Stage.PREFILL, Stage.PREDICTOR, Stage.CODEC),
    Stage.TALKER: (Stage.TALKER, Stage.PREDICTOR, Stage.CODEC),
    Stage.PREDICTOR: (Stage.PREDICTOR, Stage.CODEC),
    Stage.CODEC: (Stage.CODEC,),
}

Size = tuple[int, int]  # rows, frames
Like = tuple[Size, float]  # the nearest measured size, and how many times as long the other takes


class CostModel:
    """Running means of launch durations, scaled to the neighbours that were never launched."""

    def __init__(self) -> None:
        self.version = 0  # counts the measurements that changed predictions
        self._means: dict[Stage, dict[Size, float]] = {stage: {} for stage in Stage}
        self._predicted: dict[Stage, dict[Size, float]] = {stage: {} for stage in Stage}
        self._likes: dict[Stage, dict[Size, Like]] = {stage: {} for stage in Stage}

    def learn(self, stage: Stage, rows: int, frames: int, seconds: float) -> None:
        """Take one measured launch into account."""
        means = self._means[stage]
        size = _size(rows, frames)
        known = size in means
        mean = means.setdefault(size, seconds)
        moved = means[size] = mean + LEARNING_RATE * (min(seconds, SURPRISE * mean) - mean)
        if known and abs(moved - mean) < NOTICEABLE * mean:
            return
        if not known:
            self._likes[stage].clear()
        self.version += 1
        for predicted in self._predicted.values():
            predicted.clear()  # of every stage: unnoticed moves add up

    def predict(self, stage: Stage, rows: int = 1, frames: int = 1) -> float:
        """Return the expected duration of a launch, s."""
        known, size = self._predicted[stage], (rows, frames)
        seconds = known.get(size)
        if seconds is None:
            seconds = known[size] = self._estimate(stage, _size(rows, frames))
        return seconds

    def until_sound(self, stage: Stage, rows: int = 1) -> float:
        """Return the seconds from launching `stage` among `rows` utterances to samples."""
        return sum(self.predict(each, rows) for each in PATHS[stage])

    def _estimate(self, stage: Stage, size: Size) -> float:
        means = self._means[stage]
        if not means:
            return UNKNOWN * _scale(size)
        mean = means.get(size)
        if mean is not None:
            return mean
        likes = self._likes[stage]
        if size not in likes:
            nearest = min(means, key=lambda known: (_distance(known, size), known))
            likes[size] = nearest, _scale(size) / _scale(nearest)
        nearest, times = likes[size]
        return means[nearest] * times


@lru_cache(maxsize=4096)
def _size(rows: int, frames: int) -> Size:
    return _rounded(rows), _rounded(frames)


def _rounded(count: int) -> int:
    quarter = 1 << max(0, (count - 1).bit_length() - 3)
    return -(-count // quarter) * quarter


def _scale(size: Size) -> float:
    return (1 + ROW_SHARE * (size[0] - 1)) * (1 + FRAME_SHARE * (size[1] - 1))


def _distance(one: Size, other: Size) -> float:
    return abs(log(one[0] / other[0])) + abs(log(one[1] / other[1]))
