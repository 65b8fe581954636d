"""What a run will do is drawn before it, by seed."""

from __future__ import annotations

import itertools

import pytest

from gateway.bench.arrivals import Habits, plan, poisson, text_for

TEXTS = ["a", "b", "c", "d"]


def test_same_seed_is_the_same_load_and_another_is_not() -> None:
    first, again, other = (list(poisson(5, until=20, seed=seed)) for seed in (1, 1, 2))

    assert first == again != other


def test_gaps_are_exponential() -> None:
    """Of a Poisson process the mean gap is 1/rate, and as wide as it is long."""
    dues = [arrival.due for arrival in poisson(10, until=2_000, seed=3)]
    gaps = [later - earlier for earlier, later in itertools.pairwise(dues)]

    mean = sum(gaps) / len(gaps)
    spread = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5

    assert mean == pytest.approx(0.1, rel=0.03)
    assert spread == pytest.approx(mean, rel=0.03)


def test_no_arrival_after_the_end() -> None:
    assert all(arrival.due < 3 for arrival in poisson(50, until=3, seed=0))


def test_every_text_is_spoken_once_before_one_is_repeated() -> None:
    spoken = [text_for(TEXTS, number=number, seed=7) for number in range(8)]

    assert sorted(spoken[:4]) == sorted(spoken[4:]) == TEXTS


def test_habits_are_as_frequent_as_asked() -> None:
    habits = Habits(pause_probability=0.25, barge_in_probability=0.5)

    plans = [plan(habits, number=number, seed=0) for number in range(4_000)]

    assert sum(p.pause_at is not None for p in plans) == pytest.approx(1_000, rel=0.1)
    assert sum(p.barge_in_at is not None for p in plans) == pytest.approx(2_000, rel=0.1)


def test_plan_of_a_reply_does_not_depend_on_the_others() -> None:
    habits = Habits(barge_in_probability=1.0)

    assert plan(habits, number=5, seed=1) == plan(habits, number=5, seed=1)
    assert plan(habits, number=5, seed=1) != plan(habits, number=6, seed=1)
