"""A client's clock against ours, learnt from what it stamps. Pure; `now` is always an argument.

A message stamped `stamp` that arrives at `now` gives one sample, `now - stamp`: what must be added
to the client's clock to have ours, the least time on the way, and what this message waited in
queues. Only the last is never negative, so the samples lie above a straight line: its height is
*how late* the others are measured from, its slope is how fast the clocks drift apart. It is found
as the lower convex hull of the samples, by Moon, Skelly and Towsley, "Estimation and removal of
clock skew from network delay measurements" (INFOCOM 1999), and Zhang, Liu and Xia, "Clock
synchronization algorithms for network measurements" (INFOCOM 2002). Of queues that hold the
quickest messages of a window for at most `q` seconds, the slope is wrong by at most `2 q / window`.

All times are seconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import NamedTuple

PERIOD = 4.0  # s in which only the quickest message counts: few points, a constant cost
WINDOW = 120.0  # s: routes and queues of longer ago say nothing
LEAST_SPAN = 10.0  # s: over less, jitter looks like drift
MOST_DRIFT = 500e-6  # what clocks are disciplined by at most (RFC 5905); more than that is jitter
JUMP = 0.25  # s: a clock that is this much ahead of the line was set
ROUNDING = 0.005  # s: stamps are rounded, and the line drifts a little while a chunk is held


class Sample(NamedTuple):
    """One message."""

    at: float  # its arrival, our clock
    excess: float  # arrival less stamp


@dataclass(slots=True)
class ClientClock:
    """Says when a stamp was made, and how late its message is."""

    drift: float | None = None  # how much too fast it runs: 1e-6 is one ppm; None: not known yet
    _floor: float = inf  # of the samples, at `_floor_at`
    _floor_at: float = 0.0
    _quickest: Sample | None = None  # of this period
    _period_at: float = 0.0  # when it began
    _samples: deque[Sample] = field(default_factory=deque)  # the quickest of earlier periods

    def floor(self, now: float) -> float:
        """The least that has to be added to a stamp to have the arrival; `inf`: not known yet."""
        return self._floor - (self.drift or 0.0) * (now - self._floor_at)

    def arrived(self, stamp: float, now: float) -> float:
        """Learn from a message; return how much longer than the quickest it was on its way."""
        if self._quickest and now - self._period_at >= PERIOD:
            self._next_period(now)
        excess = now - stamp
        late = excess - self.floor(now)
        if late < -JUMP:
            self._forget()
        if late < 0:
            self._floor, self._floor_at = excess, now
        if self._quickest is None:
            self._period_at = now
        if self._quickest is None or excess < self._quickest.excess:
            self._quickest = Sample(now, excess)
        return max(late, 0.0)

    def glimpsed(self, stamp: float, now: float) -> None:
        """Learn from a stamp that may be of another clock, if it fits."""
        if abs(now - stamp - self.floor(now)) < JUMP:
            self.arrived(stamp, now)

    def followed(self, sent: float, stamp: float, now: float) -> None:
        """Learn that it read `stamp` when something had come that we sent at `sent`.

        That cannot be if the sending alone lies above the line: the clock stood still meanwhile, as
        in a laptop that sleeps, or was set back. All samples are of another clock then.
        """
        if sent - stamp > self.floor(now) + ROUNDING:
            self._forget()

    def _forget(self) -> None:
        self.drift = self._quickest = None
        self._floor = inf
        self._samples.clear()

    def _next_period(self, now: float) -> None:
        assert self._quickest
        self._samples.append(self._quickest)
        self._quickest = None
        while self._samples and now - self._samples[0].at > WINDOW:
            self._samples.popleft()
        if self._samples:
            self._fit(lower_hull(self._samples), now)
        else:
            self._forget()

    def _fit(self, hull: list[Sample], now: float) -> None:
        """Lay the line under the hull; a slope that no clock has tells nothing about this one."""
        if hull[-1].at - hull[0].at >= LEAST_SPAN:
            slope = _slope_in_the_middle(hull)
            self.drift = -slope if abs(slope) <= MOST_DRIFT else self.drift
        drift = self.drift or 0.0
        self._floor = min(each.excess - drift * (now - each.at) for each in hull)
        self._floor_at = now


def lower_hull(samples: Iterable[Sample]) -> list[Sample]:
    """The samples that a string pulled taut from below would touch (Andrew's monotone chain).

    Args:
        samples: in order of arrival, no two at once.
    """
    hull: list[Sample] = []
    for sample in samples:
        while len(hull) >= 2 and _slope(hull[-2], hull[-1]) >= _slope(hull[-1], sample):
            hull.pop()
        hull.append(sample)
    return hull


def _slope(before: Sample, after: Sample) -> float:
    return (after.excess - before.excess) / (after.at - before.at)


def _slope_in_the_middle(hull: list[Sample]) -> float:
    """Of the edge that leaves the least area between itself and the hull."""
    middle = (hull[0].at + hull[-1].at) / 2
    return next(_slope(*edge) for edge in pairwise(hull) if edge[1].at >= middle)
