"""Is B different from A? Only if the difference is larger than A's difference from itself. Pure.

Sampling engines and busy machines differ between identical runs. The control is a second run of A
where there is one; without it A's replies are split in two at random, many times, and the spread of
the halves is what chance does.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gateway.bench.figures import percentile
from gateway.bench.take import Reply

SPLITS = 400
CONFIDENCE = 95  # percent of the splits differ less than the bound
Figure = Callable[[Sequence[Reply]], float | None]


@dataclass(frozen=True, slots=True)
class Difference:
    """One figure of both."""

    name: str
    a: float
    b: float
    control: float  # what A differs from itself

    @property
    def change(self) -> float:
        """B − A."""
        return self.b - self.a

    @property
    def real(self) -> bool:
        """Whether chance does not explain it."""
        return abs(self.change) > self.control


def _times(name: str, share: float) -> Figure:
    def figure(replies: Sequence[Reply]) -> float | None:
        known = (getattr(reply, name) for reply in replies)
        return percentile(sorted(value for value in known if value is not None), share)

    return figure


def _underruns(replies: Sequence[Reply]) -> float | None:
    return sum(reply.underruns > 0 for reply in replies) / len(replies) if replies else None


FIGURES: dict[str, Figure] = {
    "audible p50": _times("audible", 50),
    "audible p95": _times("audible", 95),
    "first playable p50": _times("first_playable", 50),
    "first playable p95": _times("first_playable", 95),
    "end p95": _times("end", 95),
    "replies with underruns": _underruns,
}


def compare(
    a: Sequence[Reply], b: Sequence[Reply], control: Sequence[Reply] | None, *, seed: int
) -> list[Difference]:
    """All figures that both have.

    Args:
        control: another run of A.
        seed: of the splits, where there is no control.
    """
    a, b, control = _spoken(a), _spoken(b), _spoken(control or ())
    found = []
    for name, figure in FIGURES.items():
        of_a, of_b = figure(a), figure(b)
        if of_a is None or of_b is None:
            continue
        of_control = figure(control) if control else None
        chance = _chance(a, figure, seed) if of_control is None else abs(of_control - of_a)
        found.append(Difference(name, of_a, of_b, chance))
    return found


def _spoken(replies: Sequence[Reply]) -> list[Reply]:
    return [reply for reply in replies if reply.outcome == "complete"]


def _chance(replies: Sequence[Reply], figure: Figure, seed: int) -> float:
    """How far two random halves differ. Halves spread more than wholes do: a careful bound."""
    draw = random.Random(seed)
    order = list(replies)
    differences = []
    for _ in range(SPLITS):
        draw.shuffle(order)
        half = len(order) // 2
        one, other = figure(order[:half]), figure(order[half:])
        if one is not None and other is not None:
            differences.append(abs(one - other))
    return percentile(sorted(differences), CONFIDENCE) or 0.0
