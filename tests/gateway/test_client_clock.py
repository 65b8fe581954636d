"""A client's clock, learnt from stamps: within what jitter allows, and anew when it jumps."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.voice.client_clock import (
    JUMP,
    LEAST_SPAN,
    MOST_DRIFT,
    PERIOD,
    ROUNDING,
    WINDOW,
    ClientClock,
    Sample,
    lower_hull,
)

STEP = 0.2  # s between messages
ROUNDED = 1e-6  # s: floats of large clocks

offsets = st.floats(-1e9, 1e9)
honest_drifts = st.floats(-200e-6, 200e-6)
delays = st.floats(0, 0.3)


class Client:
    """A clock that is `offset` behind ours when ours is 0, and runs too fast by `drift`."""

    def __init__(self, offset: float, drift: float = 0.0, delay: float = 0.02) -> None:
        self.offset, self.drift, self.delay = offset, drift, delay
        self.clock = ClientClock()

    def stamp(self, at: float) -> float:
        return at * (1 + self.drift) - self.offset

    def floor(self, arrival: float) -> float:
        """The truth: what a message that met no queue has to be corrected by."""
        return arrival - self.stamp(arrival - self.delay)

    def sends(self, at: float, queue: float = 0.0) -> float:
        """A message that waits in queues for so long; returns how late it is thought to be."""
        arrival = at + self.delay + queue
        return self.clock.arrived(self.stamp(at), arrival)

    def talks(self, start: float, end: float) -> None:
        for step in range(round((end - start) / STEP)):
            self.sends(start + step * STEP)


def test_nothing_is_known_before_the_first_message():
    assert ClientClock().floor(5.0) == float("inf")


def test_message_is_late_by_what_it_waited_longer_than_the_quickest():
    client = Client(7_000.0)

    late = [client.sends(1.0, 0.03), client.sends(1.2), client.sends(1.4, 0.4)]

    assert late == pytest.approx([0.0, 0.0, 0.4])


def test_drift_is_unknown_until_there_is_a_slope_to_see():
    client = Client(0.0, 100e-6)

    client.talks(0.0, LEAST_SPAN)
    before = client.clock.drift
    client.talks(LEAST_SPAN, 2 * LEAST_SPAN)

    assert before is None
    assert client.clock.drift == pytest.approx(100e-6, rel=0.01)


def test_known_drift_dates_messages_after_a_silence():
    client = Client(0.0, -200e-6)
    client.talks(0.0, 60.0)

    assert client.sends(150.0, 0.1) == pytest.approx(0.1, abs=0.001)


def test_slope_that_no_clock_has_is_not_believed():
    client = Client(0.0, 3 * MOST_DRIFT)

    client.talks(0.0, 60.0)

    assert client.clock.drift is None
    assert client.clock.floor(60.0) == pytest.approx(client.floor(60.0), abs=0.001)


def test_clock_set_forward_is_learnt_at_once():
    client = Client(0.0, 100e-6)
    client.talks(0.0, 60.0)
    client.offset -= 2 * JUMP

    late = [client.sends(60.0), client.sends(60.2, 0.1)]

    assert late == pytest.approx([0.0, 0.1], abs=0.001)
    assert client.clock.drift is None


def test_clock_that_stood_still_is_learnt_with_the_next_chunk():
    client = Client(0.0)
    client.talks(0.0, 60.0)
    client.offset += 3_600.0  # the laptop slept for an hour

    before = client.sends(60.0)
    client.clock.followed(61.0, client.stamp(61.0 + client.delay), 61.04)
    after = client.sends(61.0 + client.delay)

    assert before == pytest.approx(3_600.0)
    assert after == 0.0


def test_small_step_back_is_forgotten_with_the_window():
    client = Client(0.0)
    client.talks(0.0, 30.0)
    client.offset += 0.1

    client.talks(30.0, 30.0 + WINDOW + 2 * PERIOD)

    assert client.sends(170.0) == pytest.approx(0.0, abs=0.001)


def test_chunk_that_came_before_it_could_is_a_matter_of_rounding():
    client = Client(0.0, delay=0.0)
    client.talks(0.0, 30.0)

    client.clock.followed(29.0 + ROUNDING / 2, client.stamp(29.0), 29.01)

    assert client.clock.drift is not None


def test_silence_longer_than_the_window_starts_anew():
    client = Client(0.0)
    client.talks(0.0, 30.0)

    assert client.sends(31.0 + WINDOW + PERIOD, 0.2) == 0.0


def test_stamps_of_another_clock_are_ignored():
    client = Client(0.0)
    client.clock.glimpsed(5.0, 1_000.0)
    client.sends(0.0)

    client.clock.glimpsed(5.0, 1_000.0)
    client.clock.glimpsed(1e9, 1_000.0)

    assert client.sends(0.4) == pytest.approx(0.0)


def test_fitting_stamps_teach_while_nothing_is_spoken():
    client = Client(0.0, 150e-6)
    client.sends(0.0)

    for at in range(5, 60, 5):
        client.clock.glimpsed(client.stamp(at), at + client.delay)

    assert client.clock.drift == pytest.approx(150e-6, rel=0.01)


def test_hull_touches_from_below():
    samples = [Sample(at, excess) for at, excess in enumerate((3.0, 1.0, 2.0, 0.0, 5.0, 4.0))]

    assert lower_hull(samples) == [(0, 3.0), (1, 1.0), (3, 0.0), (5, 4.0)]


@given(
    offsets,
    honest_drifts,
    delays,
    st.floats(0, 0.005),  # the longest queue
    st.lists(st.floats(0, 1), min_size=50, max_size=50),
    st.integers(200, 600),  # messages: 40 s and more
)
def test_honest_clock_is_learnt_as_well_as_jitter_allows(
    offset, drift, delay, queue, queues, messages
):
    client = Client(offset, drift, delay)
    for step in range(messages):
        client.sends(step * STEP, queue * queues[step * step % 50])

    now = messages * STEP
    span = min(now, WINDOW) - 3 * PERIOD
    assert client.clock.drift == pytest.approx(drift, abs=2 * queue / span + 1e-6)
    assert client.clock.floor(now) == pytest.approx(client.floor(now), abs=2 * queue + ROUNDED * 10)


journeys = st.lists(
    st.tuples(
        st.floats(0, 6) | st.just(0.1),  # s since the one before
        st.floats(0, 3) | st.floats(0, 0.01),  # s in queues
        st.sampled_from(["once", "once", "once", "twice", "lost"]),
    ),
    min_size=1,
    max_size=150,
)


@given(offsets, honest_drifts, delays, journeys)
@example(0.0, 200e-6, 0.02, [(6.0, 0.0, "once")] * 60)
def test_no_message_is_thought_earlier_than_it_was(offset, drift, delay, journeys):
    """Whatever is lost, doubled or overtaken: late by nothing at least, by its wait at most.

    "At most" but for what the clocks drift apart while that is not known yet.
    """
    client = Client(offset, drift, delay)
    arrivals, at = [], 0.0
    for pause, queue, fate in journeys:
        at += pause
        arrivals += [(at + delay + queue, at)] * (fate != "lost")
        arrivals += [(at + delay + queue * 1.5 + 0.1, at)] * (fate == "twice")

    for arrival, stamped in sorted(arrivals):
        late = client.clock.arrived(client.stamp(stamped), arrival)

        strayed = (MOST_DRIFT + abs(drift)) * (WINDOW + 2 * PERIOD + 6)
        assert 0 <= late <= arrival - stamped - delay + strayed + ROUNDED * 10
        assert client.clock.floor(arrival) <= arrival - client.stamp(stamped) + ROUNDED
        assert len(client.clock._samples) <= WINDOW / PERIOD + 1


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(-1e12, 1e12)), max_size=100))
def test_any_stamps_are_survived(messages):
    clock, now = ClientClock(), 0.0
    for pause, stamp in messages:
        now += pause
        clock.followed(now - pause, stamp, now)

        assert clock.arrived(stamp, now) >= 0
        assert clock.drift is None or abs(clock.drift) <= MOST_DRIFT
