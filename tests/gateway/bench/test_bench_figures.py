"""Figures of a run: exact percentiles, honest voids, money."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.bench.figures import Conditions, Quantiles, Summary, percentile, summarize
from tests.gateway.bench.replies import reply

MEASURED = Conditions(duration=10.0)


@pytest.mark.parametrize(
    ("count", "share", "rank"),
    [(1, 50, 1), (1, 99, 1), (2, 50, 1), (3, 50, 2), (20, 95, 19), (21, 95, 20), (100, 95, 95)],
)
def test_percentile_is_the_nearest_rank(count: int, share: float, rank: int) -> None:
    assert percentile(list(range(1, count + 1)), share) == rank


@given(st.lists(st.integers(0, 50), min_size=1), st.integers(1, 100))
def test_percentile_is_the_least_value_that_enough_do_not_exceed(
    values: list[int], share: int
) -> None:
    found = percentile(sorted(values), share)

    enough = [v for v in values if 100 * sum(x <= v for x in values) >= share * len(values)]
    assert found == min(enough)


def test_replies_without_sound_do_not_improve_the_first_sound() -> None:
    lost = reply(1, outcome="failed", audible=None, first_playable=None, sound=0.0, heard=0.0)

    summary = summarize([reply(0, audible=0.07), lost], MEASURED)

    assert summary.audible.p95 == 0.07
    assert summary.outcomes == {"complete": 1, "failed": 1}


def test_a_reply_that_ran_dry_twice_counts_once_with_all_its_silence() -> None:
    replies = [reply(0, underruns=2, dry=0.3), reply(1)]

    summary = summarize(replies, MEASURED)

    assert (summary.underrun_replies, summary.underrun_seconds) == (1, 0.3)


def test_money_buys_what_was_heard_not_what_was_made() -> None:
    replies = [reply(n, sound=4.0, heard=2.0, heard_characters=50) for n in range(10)]
    conditions = Conditions(duration=10.0, dollars_per_hour=3.6, duty=0.5)

    summary = summarize(replies, conditions)

    # 500 characters in 10 s are 180,000 in an hour, half of which is paid for nothing.
    assert summary.dollars_per_million == pytest.approx(3.6 / (180_000 * 0.5) * 1e6)
    assert summary.device_per_heard == pytest.approx(0.5)
    assert (summary.wasted, summary.device_wasted) == (20.0, 5.0)


@pytest.mark.parametrize(
    ("lag", "loop_lag", "void"),
    [(0.004, 0.001, False), (0.0051, 0.001, True), (None, 0.004, False), (None, 0.006, True)],
)
def test_late_load_generator_makes_a_run_void(
    lag: float | None, loop_lag: float, void: bool
) -> None:
    replies = [reply(n, lag=lag) for n in range(20)]

    summary = summarize(replies, Conditions(duration=10.0, loop_lag=loop_lag))

    assert bool(summary.void) == void


def test_run_without_sound_is_void() -> None:
    assert "no reply with sound" in summarize([reply(outcome="failed", sound=0.0)], MEASURED).void


def test_summary_survives_json() -> None:
    summary = summarize([reply(0), reply(1, audible=None)], MEASURED)

    assert Summary.read(json.loads(json.dumps(summary.fields()))) == summary


def test_unknown_values_are_left_out_of_quantiles() -> None:
    assert Quantiles.of([None, 3.0, None, 1.0]) == Quantiles(1.0, 3.0, 3.0, 3.0)
    assert Quantiles.of([None]).p50 is None
