"""Believing acks, rule by rule: what is refused, what is bent, and where that puts the listener."""

from __future__ import annotations

import pytest

from gateway.protocol.requests import Ack
from gateway.sound import TICKS_PER_SECOND
from gateway.voice.acks import AckRefused, Listener
from gateway.voice.link import Link

SECOND = TICKS_PER_SECOND


def link() -> Link:
    return Link(interval=0.1)


def listener(*, chunks: int = 10, first: float = 100.0, length: float = 0.5) -> Listener:
    """Ten chunks of half a second, all sent at once."""
    it = Listener(acks=True)
    for index in range(1, chunks + 1):
        it.carried(round(index * length * SECOND), first, sent_ms=round(first * 1000))
    return it


def ack(seq: int, played_ms: float, t_ms: float, **fields: object) -> Ack:
    known = {"n": 1, "latency_ms": 0.0}
    return Ack(seq=seq, played_ms=played_ms, t_ms=t_ms, **{**known, **fields})  # type: ignore[arg-type]


def refused(it: Listener, bad: Ack, now: float) -> str:
    with pytest.raises(AckRefused) as caught:
        it.accept(bad, link(), now)
    return caught.value.param


def test_rendered_is_played_plus_latency():
    report = listener().accept(ack(9, 200, 5, latency_ms=150), link(), 100.3)

    assert (report.rendered, report.state) == (0.35, "playing")


def test_rendered_never_exceeds_what_was_received():
    report = listener().accept(ack(0, 490, 5, latency_ms=270), link(), 100.9)

    assert report.rendered == 0.5


@pytest.mark.parametrize(
    ("seq", "played_ms", "param"),
    [
        (10, 0, "seq"),  # never sent
        (0, 521, "played_ms"),  # beyond the chunk it says it has
        (-1, 21, "played_ms"),  # nothing received, something heard
        (9, 1_160, "played_ms"),  # faster than our clock: a second since the first chunk
    ],
)
def test_what_cannot_be_is_refused(seq, played_ms, param):
    assert refused(listener(), ack(seq, played_ms, 5), 101.0) == param


@pytest.mark.parametrize(
    ("later", "param"),
    [
        (ack(3, 1_000, 1_100), "seq"),  # un-received a chunk
        (ack(5, 900, 1_100), "played_ms"),  # un-heard something
        (ack(5, 1_031, 900), "t_ms"),  # its clock went back, its playhead did not
        (ack(6, 1_000, 900), "t_ms"),  # nor did what it received
        (ack(5, 1_500, 1_050), "played_ms"),  # faster than its own clock
    ],
)
def test_what_contradicts_the_ack_before_is_refused(later, param):
    it = listener()
    it.accept(ack(5, 1_000, 1_000), link(), 110.0)

    assert refused(it, later, 112.0) == param
    assert it.played_ms == 1_000


def test_small_steps_back_are_clamped():
    it = listener()
    it.accept(ack(5, 1_000, 1_000), link(), 110.0)

    report = it.accept(ack(5, 971, 1_100), link(), 110.1)

    assert report.rendered == 1.0


def test_played_a_little_beyond_the_chunk_is_clamped():
    assert listener().accept(ack(0, 519, 5), link(), 101.0).rendered == 0.5


def test_equal_client_times_are_honest():
    it = listener()
    it.accept(ack(5, 1_000, 1_000), link(), 110.0)

    it.accept(ack(5, 1_000, 1_000, state="paused"), link(), 110.1)

    assert it.state == "paused"


def test_stall_with_sound_at_hand_counts_as_pause():
    facts = link()

    report = listener().accept(ack(5, 1_000, 5, state="stalled"), facts, 110.0)

    assert (report.state, facts.inconsistent) == ("paused", 1)


def test_bluetooth_listener_stalls_while_the_ear_still_lags():
    report = listener().accept(ack(5, 2_730, 5, state="stalled", latency_ms=270), link(), 110.0)

    assert report.state == "stalled"


def test_who_says_it_plays_before_there_is_sound_has_heard_nothing_of_it():
    it, facts = Listener(acks=True), link()
    it.accept(ack(-1, 0, 9_000), facts, 100.0)
    it.accept(ack(-1, 0, 9_100), facts, 104.0)  # as if it were old
    it.carried(SECOND, 105.0, sent_ms=105_000)

    assert it.heard(facts, 105.0) == 0
    assert it.heard(facts, 105.5) == pytest.approx(0.5 * SECOND)


def test_end_is_believed_only_when_all_was_sent_and_heard():
    it = listener(chunks=2)

    early = it.accept(ack(1, 1_000, 5, state="ended"), link(), 110.0)
    it.complete = True
    right = it.accept(ack(1, 1_000, 6, state="ended"), link(), 110.1)

    assert (early.state, right.state) == ("paused", "ended")


def test_nothing_heard_yet_contradicts_a_playhead():
    facts = link()

    report = listener().accept(ack(5, 500, 5, state="waiting"), facts, 110.0)

    assert (report.state, facts.inconsistent) == ("paused", 1)


@pytest.mark.parametrize(
    ("fields", "counted"),
    [
        ({"buffered_ms": 10}, 1),  # two seconds are there
        ({"buffered_ms": 1_650}, 0),  # 20 % may be anywhere
        ({"buffered_ms": 1_400, "dropped_ms": 600}, 0),
        ({"stalls": 0}, 1),  # one was told before
        ({"stalled_ms": 300}, 1),
        ({"dropped_ms": 0, "buffered_ms": 2_000}, 1),
        ({"stalled_ms": 12_000}, 1),  # longer than there has been sound
        ({"stalls": 2, "stalled_ms": 500, "dropped_ms": 90}, 0),
    ],
)
def test_counts_that_do_not_fit_are_counted_only(fields, counted):
    it, facts = listener(), link()
    sums = {"stalls": 1, "stalled_ms": 400, "dropped_ms": 80}
    it.accept(ack(5, 900, 5, **sums), facts, 110.0)

    it.accept(ack(5, 1_000, 105, **{**sums, **fields}), facts, 110.1)

    assert (facts.inconsistent, facts.refused) == (counted, 0)


def test_overtaken_ack_is_neither_believed_nor_refused():
    it, facts = listener(), link()
    it.accept(ack(5, 1_000, 1_000), facts, 110.0)

    assert it.accept(ack(4, 900, 900, state="paused"), facts, 110.1) is None
    assert (it.last.t_ms, it.state, facts.refused) == (1_000, "playing", 0)


def test_late_ack_is_dated_when_it_was_true():
    it, facts = listener(), link()
    it.accept(ack(9, 1_000, 5_000), facts, 105.0)
    facts.round_trip = 0.04

    report = it.accept(ack(9, 1_100, 5_100), facts, 105.5)

    assert it.at == pytest.approx(105.08)
    assert it.heard(facts, 105.5) == pytest.approx(1.52 * SECOND)
    assert 2 * report.delay == pytest.approx(0.42 + 0.02)  # its way here, and the next chunk's


def test_same_ack_once_more_gives_no_time():
    it, facts = listener(), link()
    once = it.accept(ack(9, 1_000, 5_000), facts, 105.0)
    heard = it.heard(facts, 105.3)

    again = it.accept(ack(9, 1_000, 5_000), facts, 105.3)

    assert 105.3 - 2 * again.delay == pytest.approx(105.0 - 2 * once.delay)
    assert it.heard(facts, 105.3) == pytest.approx(heard)


def test_late_word_of_the_end_tells_how_long_ago_that_was():
    it, facts = listener(), link()
    it.complete = True
    it.accept(ack(9, 4_900, 5_000), facts, 105.0)
    facts.round_trip = 0.04

    report = it.accept(ack(9, 5_000, 5_100, state="ended"), facts, 105.5)

    assert report.delay == pytest.approx(0.42)


def test_no_ack_is_older_than_the_chunk_it_knows():
    it, facts = listener(), link()
    it.accept(ack(9, 1_000, 5_000), facts, 105.0)
    it.carried(round(5.5 * SECOND), 106.0, sent_ms=106_000)

    it.accept(ack(10, 1_010, 5_010), facts, 107.0)

    assert it.at >= 106.0


def test_clock_that_slept_dates_acks_right_once_it_has_received_something():
    it, facts = listener(), link()
    it.accept(ack(9, 1_000, 5_000, rx_ms=5_000, echo=100_000), facts, 105.0)
    it.accept(ack(9, 1_010, 5_010), facts, 205.0)  # asleep for 100 s
    believed_slow = it.at
    it.carried(round(5.5 * SECOND), 205.0, sent_ms=205_000)

    it.accept(ack(10, 1_030, 5_030, rx_ms=5_020, echo=205_000), facts, 205.03)

    assert believed_slow < 110.0
    assert it.at == pytest.approx(205.03 - facts.delay)


def test_fast_sound_card_is_honest_even_after_ten_minutes():
    it, facts = listener(chunks=1_201), link()
    it.accept(ack(1_200, 0, 0), facts, 100.0)

    report = it.accept(ack(1_200, 600_120, 600_000), facts, 700.0)  # 200 ppm

    assert report.rendered == 600.12


def test_heard_goes_on_with_the_clock_between_acks():
    it, facts = listener(), link()
    facts.round_trip = 0.0
    it.accept(ack(9, 1_000, 5), facts, 105.0)

    assert it.heard(facts, 105.25) == pytest.approx(1.25 * SECOND)
    assert it.heard(facts, 200.0) == it.sent


def test_heard_stands_still_while_paused_but_not_for_ever():
    it, facts = listener(), link()
    facts.round_trip = 0.0
    it.accept(ack(9, 1_000, 5, state="paused"), facts, 105.0)

    assert it.heard(facts, 110.0) == 1.0 * SECOND
    assert it.heard(facts, 112.0) == it.sent  # silent for seven seconds: as if it never acked


@pytest.mark.parametrize(
    ("state", "played_ms", "heard"),
    [
        ("waiting", 0, 0.0),  # the start has targets of its own
        ("playing", 1_000, 3.5),  # silent or not, it goes on
        ("stalled", 5_000, 5.0),  # stands at its end
        ("ended", 5_000, 5.0),
    ],
)
def test_heard_follows_the_state_told_last(state, played_ms, heard):
    it, facts = listener(), link()
    facts.round_trip = 0.0
    it.complete = True
    it.accept(ack(9, played_ms, 5, state=state), facts, 110.0)

    assert it.heard(facts, 112.5) == pytest.approx(heard * SECOND)


def test_acks_of_a_liar_count_for_nothing_afterwards():
    it, facts = listener(), link()
    it.accept(ack(9, 0, 5, state="paused"), facts, 100.5)

    facts.trusted = False

    assert it.heard(facts, 101.0) == pytest.approx(1.0 * SECOND)


def test_without_acks_playback_is_assumed_to_start_on_arrival():
    it = listener()

    assert it.heard(link(), 100.5) == pytest.approx(0.5 * SECOND)


def test_queued_utterance_begins_where_its_predecessor_ends():
    facts = link()
    before = listener(chunks=4)
    before.complete = True
    it = listener(first=100.5)
    it.after = before

    assert it.heard(facts, 101.5) == 0
    assert it.heard(facts, 102.5) == pytest.approx(0.5 * SECOND)


def test_queued_utterance_does_not_wait_for_a_cancelled_one():
    it = listener(first=100.5)
    it.after = listener(chunks=4)
    it.heard(link(), 100.5)

    it.after.stopped = True

    assert it.heard(link(), 100.5) == 0
    assert it.heard(link(), 101.0) == pytest.approx(0.5 * SECOND)
