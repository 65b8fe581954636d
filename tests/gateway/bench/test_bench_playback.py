"""The simulated player: underruns are exact, and every position has its moment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.bench.playback import Playback

STEP = 1 / 64  # s; binary fractions add up exactly


def played(*pieces: tuple[float, float], start_buffer: float = 0.0) -> Playback:
    playback = Playback(start_buffer)
    for at, duration in pieces:
        playback.arrived(at, duration)
    return playback


@pytest.mark.parametrize(
    ("pieces", "underruns", "dry"),
    [
        ([(1.0, 0.5)], 0, 0.0),
        ([(1.0, 0.5), (1.5, 0.5)], 0, 0.0),  # in the last moment is in time
        ([(1.0, 0.5), (1.75, 0.5)], 1, 0.25),
        ([(1.0, 0.5), (1.75, 0.5), (2.25, 0.5)], 0 + 1, 0.25),
        ([(1.0, 0.5), (1.75, 0.5), (3.0, 0.5)], 2, 1.0),
        ([(1.0, 0.5), (1.25, 0.5), (1.75, 0.5)], 0, 0.0),  # a lead is kept
        ([(1.0, 0.0), (2.0, 0.5)], 0, 0.0),  # no sample: playback has not started
        ([(1.0, 0.5), (1.75, 0.0)], 0, 0.0),  # no sample: nothing was missing
    ],
)
def test_counts_every_late_piece_and_its_silence(
    pieces: list[tuple[float, float]], underruns: int, dry: float
) -> None:
    playback = played(*pieces)

    assert (playback.underruns, playback.dry) == (underruns, dry)


def test_lateness_has_no_tolerance() -> None:
    playback = played((0.0, 0.5), (0.5 + 2**-40, 0.5))

    assert playback.underruns == 1


def test_positions_after_an_underrun_are_heard_later() -> None:
    playback = played((1.0, 0.5), (2.0, 0.5))

    assert [playback.when(position) for position in (0.0, 0.25, 0.75)] == [1.0, 1.25, 2.25]
    assert playback.when(1.25) is None


def test_position_at_which_sound_ran_dry_is_heard_when_it_goes_on() -> None:
    playback = played((1.0, 0.5), (2.0, 0.5))

    assert playback.when(0.5) == 2.0


def test_start_waits_for_the_start_buffer() -> None:
    playback = played((1.0, 0.25), (2.0, 0.25), start_buffer=0.5)

    assert playback.when(0.0) == 2.0
    assert playback.underruns == 0


def test_short_reply_is_played_at_its_end_though_the_start_buffer_never_fills() -> None:
    playback = played((1.0, 0.25), start_buffer=0.5)

    playback.finish(1.5)

    assert playback.when(0.0) == 1.5


def test_pause_moves_everything_after_it() -> None:
    playback = played((1.0, 1.0))

    playback.pause(1.5)
    playback.resume(4.5)

    assert playback.when(0.75) == 4.75
    assert playback.deadline == 5.0


def test_paused_listener_never_runs_dry() -> None:
    playback = played((1.0, 1.0))

    playback.pause(1.5)
    playback.arrived(9.0, 1.0)
    playback.resume(10.0)

    assert playback.underruns == 0
    assert playback.deadline == 11.5


def test_silence_before_a_pause_counts_as_dry() -> None:
    playback = played((1.0, 1.0))

    playback.pause(2.5)

    assert (playback.underruns, playback.dry) == (1, 0.5)


def test_lead_is_what_is_here_and_unplayed() -> None:
    playback = played((1.0, 0.5), (1.25, 1.0))

    leads = [playback.lead(moment) for moment in (1.25, 2.0, 3.0)]
    playback.pause(2.0)

    assert leads == [1.25, 0.5, 0.0]
    assert playback.lead(9.0) == 0.5


def test_heard_stands_still_in_gaps_and_pauses() -> None:
    playback = played((1.0, 0.5), (2.0, 1.0))

    playback.pause(2.25)

    moments = (0.5, 1.25, 1.75, 2.125, 3.0)
    assert [playback.heard(moment) for moment in moments] == [0.0, 0.25, 0.5, 0.625, 0.75]


@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.integers(0, 20)),
        min_size=1,
        max_size=30,
    )
)
def test_agrees_with_a_listener_who_looks_at_every_moment(gaps: list[tuple[int, int]]) -> None:
    """A listener who plays one step of sound per step of time, or notes that there is none."""
    at, arrivals = 0, []
    for gap, steps in gaps:
        at += gap
        arrivals.append((at, steps))
    total = sum(steps for _, steps in arrivals)

    playback = played(*((at * STEP, steps * STEP) for at, steps in arrivals))

    buffered, done, dry, began, was_dry, count = 0, 0, 0, False, False, 0
    for moment in range(at + total + 1):
        buffered += sum(steps for when, steps in arrivals if when == moment)
        began = began or buffered > 0
        if not began or done == total:
            continue
        starving = buffered == 0
        dry += starving
        count += starving and not was_dry
        was_dry = starving
        done += not starving
        buffered -= not starving
    assert (playback.underruns, playback.dry) == (count, dry * STEP)
