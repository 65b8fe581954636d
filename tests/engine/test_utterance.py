"""The two lanes of an utterance: what may be launched, and what the facts do to it."""

import pytest

from engine.api import FRAME_SAMPLES, Audio, Ended
from engine.segment import END_OF_TEXT, PADDING, Segment
from engine.utterance import Utterance
from engine.work import Stage
from tests.engine.speaking import EOS, NoTrim, decode, run, segment, speak, utterance


def test_generation_goes_from_prefill_to_predictor_to_talker() -> None:
    each = utterance(segment())

    seen = [each.next_stage()]
    for stage in (Stage.PREFILL, Stage.PREDICTOR, Stage.TALKER):
        run(each, stage)
        seen.append(each.next_stage())

    assert seen == [Stage.PREFILL, Stage.PREDICTOR, Stage.TALKER, Stage.PREDICTOR]


def test_predictor_may_be_launched_before_end_of_speech_is_known() -> None:
    each = utterance(segment())
    each.fix_layout()

    each.advance(Stage.PREFILL, 1)

    assert each.next_stage() is Stage.PREDICTOR
    each.advance(Stage.PREDICTOR, 1)
    assert each.next_stage() is None, "the next step waits for the fact"
    assert each.ready_frames == 0, "nothing is decoded that may not be speech"


def test_frame_drawn_after_end_of_speech_is_dropped() -> None:
    each = utterance(segment())
    speak(each, 3)
    each.advance(Stage.TALKER, 1)
    each.advance(Stage.PREDICTOR, 1)

    each.commit(Stage.TALKER, 1, EOS)

    assert each.ready_frames == 3
    assert not each.generating


def test_last_sound_says_so_and_the_end_follows() -> None:
    each = utterance(segment())
    speak(each, 3)
    run(each, Stage.TALKER, EOS)

    audio = decode(each, 3)

    assert audio.last
    assert audio.text_to == 10
    assert [type(event) for event in each.farewell()] == [Ended]
    assert each.ended and each.ended.reason == "complete"


def test_end_found_after_the_last_sound_is_told_by_an_empty_one() -> None:
    each = utterance(segment())
    speak(each, 3)
    assert not decode(each, 3).last

    told = run(each, Stage.TALKER, EOS)

    assert told == Audio("u", 3 * FRAME_SAMPLES, b"", 10, last=True)
    assert [type(event) for event in each.farewell()] == [Ended]


def test_second_segment_prefills_anew_and_continues_the_timeline() -> None:
    each = utterance(segment(0, 10), segment(10, 20))
    speak(each, 3)
    run(each, Stage.TALKER, EOS)

    assert each.next_stage() is Stage.PREFILL
    assert each.segment_number == 1
    assert (each.step, each.frame) == (0, 3)
    assert decode(each, 3).text_to == 10


def test_text_position_never_goes_back_and_is_exact_at_segment_ends() -> None:
    each = utterance(segment(0, 30), segment(30, 50))
    speak(each, 20)
    positions = [decode(each, 8).text_to, decode(each, 8).text_to]
    run(each, Stage.TALKER, EOS)
    positions.append(decode(each, 4).text_to)
    speak(each, 4)
    positions.append(decode(each, 2).text_to)

    assert positions == sorted(positions)
    assert positions[1] < 30
    assert positions[2] == 30
    assert 30 < positions[3] < 50


def test_starved_utterance_offers_nothing_until_text_comes() -> None:
    streaming = Segment(0, 5, [1, 2], closed=False, frames_limit=99)
    each = utterance(streaming, finished=False)
    speak(each, 2)

    assert each.next_stage() is None
    assert each.stalled
    streaming.tokens.append(3)
    assert each.next_stage() is Stage.TALKER
    assert not each.stalled


def heard(*, tokens: int = 2, sound: bool = True) -> Utterance:
    """An utterance that has spoken two frames of a text still coming, all of it sent at 1 s."""
    streaming = Segment(0, 5, list(range(tokens)), closed=False, frames_limit=99)
    each = utterance(streaming, finished=False)
    speak(each, 2)
    if sound:
        decode(each, 2)
        each.clock.audio_sent(0.16, now=1.0)
    return each


@pytest.mark.parametrize(
    ("each", "now", "late"),
    [
        (heard(), 1.0, False),  # the listener still has sound
        (heard(), 1.14, False),
        (heard(), 1.155, True),  # a frame made now comes after it
        (heard(), 2.0, True),
        (heard(tokens=3), 2.0, False),  # the device is late, not the text
        (heard(sound=False), 2.0, False),  # first sound has no gap before it
    ],
)
def test_text_is_late_when_its_sound_would_come_after_silence(
    each: Utterance, now: float, late: bool
) -> None:
    assert each.text_is_late(0.01, now) == late


def test_text_is_not_late_for_a_listener_who_paused() -> None:
    each = heard()
    each.clock.reported(0.05, "paused", 0.0, 1.1)

    assert not each.text_is_late(0.01, 2.0)


def test_text_is_not_late_between_segments() -> None:
    each = utterance(segment(), finished=False)
    speak(each, 3)
    run(each, Stage.TALKER, EOS)
    decode(each, 3)

    assert not each.text_is_late(0.01, 9.0)


def test_streamed_text_is_fed_a_token_a_step_then_its_end_then_padding() -> None:
    streaming = Segment(0, 5, [7, 8, 9], closed=True)

    assert [streaming.feed(index) for index in range(4)] == [8, 9, END_OF_TEXT, PADDING]
    assert [streaming.eos_allowed(step) for step in range(5)] == [False, False, False, True, True]


def test_whole_text_is_not_fed_again() -> None:
    whole = Segment(0, 5, [7, 8, 9], closed=True, whole=True)

    assert whole.feed(0) == PADDING
    assert [whole.eos_allowed(step) for step in range(3)] == [False, False, True]


@pytest.mark.parametrize(
    ("options", "limit", "reason"),
    [
        ({"max_frames": 3}, 99, "complete"),
        ({"max_audio": 0.24}, 99, "max_audio"),
        ({}, 3, "runaway"),
    ],
)
def test_speech_stops_at_its_limits(options: dict[str, object], limit: int, reason: str) -> None:
    each = utterance(segment(limit=limit), **options)

    speak(each, 3)

    assert each.next_stage() is None
    assert decode(each, 3).last
    each.farewell()
    assert each.ended and each.ended.reason == reason


def test_end_of_speech_at_the_limit_is_a_normal_end() -> None:
    each = utterance(segment(), max_frames=3)
    speak(each, 2)
    each.advance(Stage.TALKER, 1)
    each.advance(Stage.PREDICTOR, 1)

    each.commit(Stage.TALKER, 1, EOS)
    decode(each, 2)
    each.farewell()

    assert each.ended and each.ended.generated == 2 * FRAME_SAMPLES


def test_text_without_anything_to_say_ends_empty() -> None:
    each = utterance()

    assert [event.reason for event in each.farewell() if isinstance(event, Ended)] == ["empty"]


def test_speech_without_sound_is_a_failure() -> None:
    each = utterance(segment())
    run(each, Stage.PREFILL, EOS)

    ended = each.farewell()[-1]

    assert isinstance(ended, Ended)
    assert (ended.reason, ended.detail) == ("failed", "no_audio")


class Quiet(NoTrim):
    quiet = 3.0


def test_speech_that_turned_into_room_tone_is_run_away() -> None:
    each = utterance(segment())
    each._trim, each._quiet_limit = Quiet(), 2.5
    speak(each, 3)

    decode(each, 3)

    assert each.next_stage() is None
    each.farewell()
    assert each.ended and each.ended.reason == "runaway"


def test_frame_half_made_when_speech_ran_away_is_finished() -> None:
    each = utterance(segment())
    each._trim, each._quiet_limit = Quiet(), 2.5
    speak(each, 3)
    run(each, Stage.TALKER)

    decode(each, 3)

    assert each.next_stage() is Stage.PREDICTOR
    run(each, Stage.PREDICTOR)
    assert each.next_stage() is None
    decode(each, 1)
    each.farewell()
    assert each.ended and each.ended.reason == "runaway"
