"""What acks tell about a session: its network, its client's clock, its honesty."""

from __future__ import annotations

import pytest

from gateway.protocol.requests import Ack
from gateway.voice.link import Link


def link() -> Link:
    return Link(interval=0.1)


def ack(t_ms: float, **fields: object) -> Ack:
    return Ack(n=1, seq=0, played_ms=0.0, t_ms=t_ms, latency_ms=0.0, **fields)  # type: ignore[arg-type]


def test_three_violations_within_a_minute_end_the_trust():
    facts = link()

    told = [facts.strike(now) for now in (0.0, 30.0, 59.0, 60.0)]

    assert told == [False, False, True, False]
    assert not facts.trusted


def test_rare_violations_are_forgiven():
    facts = link()

    for now in (0.0, 40.0, 80.0, 120.0):
        facts.strike(now)

    assert facts.trusted


def test_round_trip_leaves_out_the_time_the_client_held():
    facts = link()

    facts.timed(ack(5_300, rx_ms=5_000, echo=100_000), 100_000, 100.34)

    assert facts.round_trip == pytest.approx(0.04)
    assert facts.delay == pytest.approx(0.02)


def test_without_echo_the_round_trip_is_bounded_by_the_answer():
    facts = link()

    facts.timed(ack(5), 100_000, 100.05)

    assert facts.round_trip == pytest.approx(0.05)


def test_impossible_hold_teaches_nothing():
    facts = link()

    facts.timed(ack(9_000, rx_ms=5_000, echo=100_000), 100_000, 100.05)

    assert (facts.round_trip, facts.inconsistent) == (None, 1)


def test_jitter_grows_with_uneven_arrival():
    facts = link()
    for late in (0.0, 30.0, 0.0, 30.0):
        facts.timed(ack(50.0 + late, rx_ms=50.0 + late, echo=0), 0, 0.2)

    assert 0.004 < facts.jitter < 0.006


def test_offset_lies_between_what_both_directions_allow():
    facts = link()
    heard = ack(5_300, rx_ms=5_000, echo=100_000)

    facts.timed(heard, 100_000, 100.34)
    dated = facts.dated(heard, 100.34)

    assert dated == pytest.approx(100.32)
    assert facts.offset(100.34) == pytest.approx(95.02)  # 95.00 by the chunk, 95.04 by the ack


def test_offset_is_unknown_before_the_first_ack():
    assert link().offset(100.0) is None
