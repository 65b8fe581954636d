"""How long the device takes: seconds per (stage, rows, frames), learnt from every launch. Pure."""

from __future__ import annotations

from math import log

from engine.work import Stage

ROW_SHARE = 0.2  # what one more row adds to a batch, as a share of the first: until measured
FRAME_SHARE = 0.5  # the same for one more codec frame in a work
LEARNING_RATE = 0.1  # weight of the newest launch in the running mean
SURPRISE = 2.0  # a launch counts as at most so many times the mean: machines hiccup
UNKNOWN = 0.01  # s, before anything was measured


class CostModel:
    """Running means of launch durations, scaled to the neighbours that were never launched."""

    def __init__(self) -> None:
        self._seconds: dict[Stage, dict[tuple[int, int], float]] = {stage: {} for stage in Stage}

    def learn(self, stage: Stage, rows: int, frames: int, seconds: float) -> None:
        """Take one measured launch into account."""
        known = self._seconds[stage]
        key = (rows, frames)
        mean = known.setdefault(key, seconds)
        known[key] = mean + LEARNING_RATE * (min(seconds, SURPRISE * mean) - mean)

    def predict(self, stage: Stage, rows: int = 1, frames: int = 1) -> float:
        """Return the expected duration of a launch, s."""
        known = self._seconds[stage]
        if not known:
            return UNKNOWN * _scale(rows, frames)
        exact = known.get((rows, frames))
        if exact is not None:
            return exact
        nearest = min(known, key=lambda key: (_distance(key, rows, frames), key))
        return known[nearest] * _scale(rows, frames) / _scale(*nearest)

    def until_sound(self, stage: Stage, rows: int = 1, frames: int = 1) -> float:
        """Return the seconds from launching `stage` among `rows` utterances to samples."""
        chain = {
            Stage.PREFILL: (Stage.PREFILL, Stage.PREDICTOR, Stage.CODEC),
            Stage.TALKER: (Stage.TALKER, Stage.PREDICTOR, Stage.CODEC),
            Stage.PREDICTOR: (Stage.PREDICTOR, Stage.CODEC),
            Stage.CODEC: (Stage.CODEC,),
        }[stage]
        return sum(self.predict(each, rows, frames if each is Stage.CODEC else 1) for each in chain)


def _scale(rows: int, frames: int) -> float:
    return (1 + ROW_SHARE * (rows - 1)) * (1 + FRAME_SHARE * (frames - 1))


def _distance(key: tuple[int, int], rows: int, frames: int) -> float:
    return abs(log(key[0] / rows)) + abs(log(key[1] / frames))
