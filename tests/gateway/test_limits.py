"""Buckets and strikes, with the clock in the test's hand."""

import pytest

from gateway.voice.limits import Strikes, TokenBucket


def test_burst_passes_and_then_the_rate():
    bucket = TokenBucket(rate=10, burst=3)

    waits = [bucket.take(now) for now in (0.0, 0.0, 0.0, 0.0, 0.05, 0.1)]

    assert waits == pytest.approx([0, 0, 0, 0.1, 0.05, 0])


def test_rest_refills_no_more_than_the_burst():
    bucket = TokenBucket(rate=10, burst=2)
    bucket.take(0.0)

    waits = [bucket.take(100.0) for _ in range(3)]

    assert waits == pytest.approx([0, 0, 0.1])


@pytest.mark.parametrize(
    ("times", "too_many"), [((0, 1, 2), True), ((0, 30, 61), False), ((0, 1), False)]
)
def test_strikes_count_within_their_time(times, too_many):
    strikes = Strikes(3, 60.0)

    assert [strikes.add(now) for now in times][-1] is too_many
