"""The highest load borne, and whether a difference is more than chance."""

from __future__ import annotations

import random

import pytest

from gateway.bench.compare import compare
from gateway.bench.figures import Conditions, Summary, summarize
from gateway.bench.sweep import highest, points
from gateway.bench.take import Reply
from tests.gateway.bench.replies import reply


def summary(p95: float, **fields: object) -> Summary:
    return summarize([reply(n, audible=p95, **fields) for n in range(20)], Conditions(duration=10))


def test_highest_load_is_the_last_before_the_first_that_fails() -> None:
    runs = [(1, summary(0.03)), (2, summary(0.04)), (4, summary(0.2)), (8, summary(0.05))]

    swept = points(runs)

    assert highest(swept, 0.1) == 2
    assert highest(swept, None) == 8
    assert highest(swept, 0.01) is None


@pytest.mark.parametrize(
    "fields", [{"underruns": 1, "dry": 0.01}, {"outcome": "refused"}, {"lag": 0.02}]
)
def test_load_is_not_borne_if_a_reply_runs_dry_is_refused_or_came_late(
    fields: dict[str, object],
) -> None:
    (point,) = points([(1, summary(0.03, **fields))])

    assert not point.bears(None)


def test_headline_is_the_median_over_the_seeds() -> None:
    (point,) = points([(1, summary(p95)) for p95 in (0.05, 0.2, 0.03)])

    assert point.audible_p95 == 0.05


def measured(seed: int, *, later: float = 0.0) -> list[Reply]:
    draw = random.Random(seed)
    return [reply(n, audible=draw.gauss(0.1, 0.01) + later) for n in range(200)]


def test_same_server_twice_is_no_difference() -> None:
    (p50, *_) = compare(measured(1), measured(2), None, seed=0)

    assert p50.name == "audible p50"
    assert not p50.real


def test_slower_server_is_a_difference() -> None:
    (p50, *_) = compare(measured(1), measured(2, later=0.05), None, seed=0)

    assert p50.real
    assert p50.change == pytest.approx(0.05, abs=0.005)


def test_control_run_says_what_chance_does() -> None:
    a, b, control = measured(1), measured(2, later=0.05), measured(3, later=-0.06)

    (p50, *_) = compare(a, b, control, seed=0)

    assert p50.control == pytest.approx(0.06, abs=0.005)
    assert not p50.real


def test_files_without_sound_cannot_be_compared() -> None:
    lost = [reply(outcome="failed")]

    assert compare(lost, measured(1), None, seed=0) == []
