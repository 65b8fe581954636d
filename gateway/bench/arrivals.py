"""When replies are asked for, and what their listeners will do: drawn before the run. Pure.

The whole schedule is drawn by every load process, which then takes its share: the same seed is the
same load however many processes make it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Habits:
    """How listeners behave; probabilities are per reply."""

    start_buffer: float = 0.0  # s held before playback starts
    latency: float = 0.0  # s from rendering to the ear
    pause_probability: float = 0.0
    pause: float = 2.0  # s
    barge_in_probability: float = 0.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What one listener does with one reply; positions are seconds heard of it."""

    pause_at: float | None = None
    pause: float = 0.0  # s
    barge_in_at: float | None = None


@dataclass(frozen=True, slots=True)
class Arrival:
    """One reply of an open loop."""

    number: int  # of the whole run, over all processes
    due: float  # s after the start


def poisson(rate: float, *, until: float, seed: int) -> Iterator[Arrival]:
    """Arrivals of a Poisson process: independent of how the server does.

    Args:
        rate: replies a second.
        until: s; no arrival at or after it.
    """
    draw = random.Random(f"arrivals {seed}")
    due, number = draw.expovariate(rate), 0
    while due < until:
        yield Arrival(number, due)
        due, number = due + draw.expovariate(rate), number + 1


def plan(habits: Habits, *, number: int, seed: int) -> Plan:
    """What the listener of reply `number` does."""
    draw = random.Random(f"plan {seed} {number}")
    pauses, barges = draw.random(), draw.random()
    pause_at, barge_in_at = draw.uniform(0.2, 2.0), draw.uniform(0.3, 4.0)
    return Plan(
        pause_at=pause_at if pauses < habits.pause_probability else None,
        pause=habits.pause,
        barge_in_at=barge_in_at if barges < habits.barge_in_probability else None,
    )


def text_for(texts: Sequence[str], *, number: int, seed: int) -> str:
    """The text of reply `number`: every text once, in an order of the seed, then again."""
    cycle, place = divmod(number, len(texts))
    return texts[_order(len(texts), seed, cycle)[place]]


@lru_cache(maxsize=4)
def _order(count: int, seed: int, cycle: int) -> list[int]:
    order = list(range(count))
    random.Random(f"texts {seed} {cycle}").shuffle(order)
    return order
