"""From runs at several loads to the highest one that a server bears. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median_low

from gateway.bench.figures import Summary


@dataclass(frozen=True, slots=True)
class Point:
    """All runs at one load."""

    load: float  # replies/s, or listeners
    summaries: tuple[Summary, ...]  # a run for each seed

    @property
    def void(self) -> bool:
        """Whether a run of it says nothing."""
        return any(summary.void for summary in self.summaries)

    @property
    def audible_p50(self) -> float | None:
        """The median over the seeds, s."""
        return _median(summary.audible.p50 for summary in self.summaries)

    @property
    def audible_p95(self) -> float | None:
        """The headline: the median over the seeds, s."""
        return _median(summary.audible.p95 for summary in self.summaries)

    @property
    def underruns(self) -> int:
        """Replies that ran dry, in all runs."""
        return sum(summary.underrun_replies for summary in self.summaries)

    @property
    def lost(self) -> int:
        """Replies that were refused or failed, in all runs."""
        return sum(
            summary.outcomes.get(outcome, 0)
            for summary in self.summaries
            for outcome in ("refused", "failed")
        )

    def bears(self, bound: float | None) -> bool:
        """No reply ran dry or was lost, and the p95 of the audible first sound is in bounds."""
        p95 = self.audible_p95
        quick = p95 is not None and (bound is None or p95 <= bound)
        return quick and not (self.void or self.underruns or self.lost)


def points(runs: Iterable[tuple[float, Summary]]) -> list[Point]:
    """Runs by load, ascending."""
    by_load = defaultdict(list)
    for load, summary in runs:
        by_load[load].append(summary)
    return [Point(load, tuple(by_load[load])) for load in sorted(by_load)]


def highest(swept: Sequence[Point], bound: float | None) -> float | None:
    """The highest load borne, all lower ones borne as well; None if not even the first.

    Args:
        bound: s, of the p95 of the audible first sound.
    """
    best = None
    for point in swept:
        if not point.bears(bound):
            break
        best = point.load
    return best


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median_low(known) if known else None
