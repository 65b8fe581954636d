"""The playback clock: when would this listener hear silence?"""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.playback import CLIENT_WORK, PAUSE_BELIEVED, PlaybackClock


def clock(*, acks: bool = True, after: PlaybackClock | None = None) -> PlaybackClock:
    return PlaybackClock(10.0, patience=0.06, acks=acks, after=after)


def playing(*, sent: float = 2.0) -> PlaybackClock:
    """A clock whose sound was all sent at 10.0 s."""
    result = clock()
    result.audio_sent(sent, 10.0)
    return result


def test_unspoken_utterance_is_due_after_its_patience() -> None:
    assert clock().dry_at(10.0) == pytest.approx(10.06)


def test_open_loop_runs_dry_when_the_sound_sent_is_over() -> None:
    listener = playing(sent=0.5)

    assert listener.dry_at(10.2) == pytest.approx(10.5)
    assert listener.lead(10.2) == pytest.approx(0.3)
    assert listener.model(10.2) == "open_loop"


def test_sound_sent_after_silence_starts_a_new_count() -> None:
    listener = playing(sent=0.5)

    listener.audio_sent(0.5, 11.0)

    assert listener.dry_at(11.0) == pytest.approx(11.5)


def test_listener_who_started_late_has_more_time() -> None:
    listener = playing()

    listener.reported(0.05, "playing", 0.02, 10.3)

    expected = 10.28 + (2.0 - 0.05) - 0.02 - CLIENT_WORK
    assert listener.dry_at(10.3) == pytest.approx(expected)
    assert listener.model(10.3) == "acked"


def test_understating_the_buffer_gains_nothing() -> None:
    honest, greedy = playing(), playing()

    greedy.reported(2.0, "playing", 0.0, 10.1)

    assert greedy.dry_at(10.1) == honest.dry_at(10.1)


def test_paused_listener_has_no_deadline() -> None:
    listener = playing()

    listener.reported(0.5, "paused", 0.0, 10.5)

    assert listener.dry_at(10.6) == inf
    assert listener.lead(10.6) == pytest.approx(1.5)


def test_pause_without_further_reports_is_believed_only_for_a_while() -> None:
    listener = playing()

    listener.reported(0.5, "paused", 0.0, 10.5)

    assert listener.changes_at(10.5) == 10.5 + PAUSE_BELIEVED
    later = 10.5 + PAUSE_BELIEVED
    assert listener.dry_at(later) == pytest.approx(12.0)
    assert listener.model(later) == "stale"


def test_waiting_listener_keeps_all_its_sound() -> None:
    listener = playing()

    listener.reported(0.0, "waiting", 0.0, 11.0)

    assert listener.dry_at(11.5) == pytest.approx(13.5)


def test_resumed_listener_has_a_deadline_again() -> None:
    listener = playing()
    listener.reported(0.5, "paused", 0.0, 10.5)

    listener.reported(0.5, "playing", 0.0, 20.0)

    assert listener.dry_at(20.0) == pytest.approx(20.0 + 1.5 - CLIENT_WORK)


def test_report_moves_the_estimate_only_if_it_tells_something_new() -> None:
    listener = playing()

    assert listener.reported(0.5, "playing", 0.0, 10.6)
    assert not listener.reported(0.6, "playing", 0.0, 10.7)
    assert listener.reported(0.6, "playing", 0.0, 10.9)


def test_report_after_sound_counts_though_it_tells_the_estimate_of_the_one_before() -> None:
    listener = playing()
    listener.reported(0.3, "playing", 0.0, 10.6)
    told = listener.dry_at(10.6)

    listener.audio_sent(0.16, 10.7)

    assert listener.reported(0.3, "playing", 0.13, 10.7), "late by as much as was sent since"
    assert listener.dry_at(10.7) == pytest.approx(told)


def test_end_after_a_pause_counts_for_those_queued_behind() -> None:
    listener = playing()
    listener.reported(0.5, "paused", 0.0, 10.5)
    assert not listener.reported(0.5, "paused", 0.0, 11.0)

    assert listener.reported(2.0, "ended", 0.0, 14.0)
    assert listener.ends_at(14.0) == 14.0


def test_queued_utterance_is_due_when_its_predecessor_ends() -> None:
    first = playing()
    second = clock(after=first)

    assert second.dry_at(10.1) == pytest.approx(12.0)
    second.audio_sent(0.5, 10.2)
    assert second.dry_at(10.3) == pytest.approx(12.5)


@pytest.mark.parametrize("sent", [0.0, 1.5])
def test_sound_of_a_queued_utterance_counts_from_the_end_of_its_predecessor(sent: float) -> None:
    first = playing()
    second = clock(after=first)
    if sent:
        second.audio_sent(sent, 10.2)

    first.complete = True

    for now in (12.1, 12.2, 20.0):
        assert second.dry_at(now) == pytest.approx(12.0 + sent)


def test_queued_utterance_waits_while_its_predecessor_is_paused() -> None:
    first = playing()
    second = clock(after=first)

    first.reported(0.5, "paused", 0.0, 10.5)

    assert second.dry_at(10.6) == inf


def test_pause_of_a_predecessor_runs_out_for_those_behind_too() -> None:
    first = playing()
    second = clock(after=first)

    first.reported(0.5, "paused", 0.0, 10.5)

    assert second.changes_at(10.6) == 10.5 + PAUSE_BELIEVED
    assert second.dry_at(10.5 + PAUSE_BELIEVED) < inf


def test_queued_utterance_is_due_at_once_when_its_predecessor_is_stopped() -> None:
    first = playing()
    second = clock(after=first)

    first.close(10.4)

    assert second.dry_at(10.4) == pytest.approx(10.4)


def test_playhead_never_goes_back() -> None:
    listener = playing()
    listener.reported(1.0, "playing", 0.0, 11.0)

    listener.reported(0.2, "paused", 0.0, 11.1)

    assert listener.lead(11.1) == pytest.approx(1.0)


reports = st.tuples(
    st.floats(0, 30), st.sampled_from(["waiting", "playing", "stalled", "paused", "ended"])
)


@given(
    sent=st.lists(st.floats(0.02, 1.0), min_size=1, max_size=6),
    told=st.lists(st.tuples(st.floats(0, 3), st.floats(0, 0.5), reports), max_size=8),
)
def test_no_report_makes_a_deadline_earlier_than_open_loop(
    sent: list[float], told: list[tuple[float, float, tuple[float, str]]]
) -> None:
    liar, silent = clock(), clock(acks=False)
    for seconds in sent:
        liar.audio_sent(seconds, 10.0)
        silent.audio_sent(seconds, 10.0)
    now = 10.0

    for wait, delay, (rendered, state) in told:
        now += wait
        liar.reported(rendered, state, delay, now)  # type: ignore[arg-type]

        assert liar.dry_at(now) >= silent.dry_at(now)


def test_an_end_is_believed_only_of_what_is_complete() -> None:
    clock = PlaybackClock(0.0, patience=0.06, acks=True)
    clock.audio_sent(1.0, 1.0)

    clock.reported(1.0, "ended", 0.0, 2.0)
    assert clock.dry_at(2.0) == pytest.approx(2.0), "more was to come: as if nothing was said"

    clock.complete = True
    assert clock.dry_at(2.0) == inf
