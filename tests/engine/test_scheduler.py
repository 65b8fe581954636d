"""One rule: what must start soonest runs, and everyone ready for the same stage rides along."""

from collections.abc import Collection
from math import inf

import pytest

from engine.api import FRAME_SECONDS, Info
from engine.config import SchedulerConfig
from engine.costs import CostModel
from engine.scheduler import Scheduler
from engine.segment import Segment
from engine.utterance import Utterance
from engine.work import ONE_STREAM, Batch, Stage, Stream
from tests.engine.speaking import EOS, decode, run, segment, speak, utterance

CONFIG = SchedulerConfig()
SECONDS = {Stage.PREFILL: 0.004, Stage.TALKER: 0.002, Stage.PREDICTOR: 0.003, Stage.CODEC: 0.001}


class Rows:
    """Of a device, the scheduler sees the most rows of a batch."""

    info = Info("none", (), "", (), instructions=False, slots=8)

    def __init__(self, rows: int = 64, streams: Collection[Stream] = ONE_STREAM) -> None:
        self._rows = rows
        self.streams = streams

    def rows(self, stage: Stage, stream: Stream = Stream.MAIN) -> int:
        return self._rows


def scheduler(rows: int = 64) -> Scheduler:
    costs = CostModel()
    for stage, seconds in SECONDS.items():
        for rows_known in (1, 40):  # company is nearly free, as on a GPU
            costs.learn(stage, rows_known, 1, seconds)
    return Scheduler(CONFIG, costs, Rows(rows))  # type: ignore[arg-type]


def playing(*, sent: float, slot: int = 0, **options: object) -> Utterance:
    """One that sent `sent` s of sound at 0 s and whose next step is a talker's."""
    result = utterance(segment(limit=999), slot=slot, **options)
    speak(result, 4)
    decode(result, 4)
    result.largest_chunk = 2
    result.clock.audio_sent(sent, 0.0)
    return result


def plan(plans: Scheduler, *utterances: Utterance, now: float = 0.0) -> Batch | None:
    for each in utterances:
        plans.touch(each, now)
    return plans.plan(now)


def planned(batch: Batch | None) -> tuple[Stage, list[int]]:
    assert batch is not None
    return batch.stage, [work.utterance.slot for work in batch.works]


def test_nothing_ready_is_no_batch() -> None:
    assert plan(scheduler()) is None
    assert scheduler().wake_at(0.0) == inf


def test_new_utterance_outranks_a_listener_with_sound_in_hand() -> None:
    new, rich = utterance(segment(), slot=1), playing(sent=1.0)

    assert planned(plan(scheduler(), rich, new, now=0.0)) == (Stage.PREFILL, [1])


def test_listener_about_to_hear_silence_outranks_a_new_utterance() -> None:
    new, poor = utterance(segment(), slot=1, at=1.0), playing(sent=1.04)

    assert planned(plan(scheduler(), new, poor, now=1.0)) == (Stage.TALKER, [0])


def test_everyone_ready_for_the_stage_rides_along_most_urgent_first() -> None:
    each = [playing(sent=seconds, slot=slot) for slot, seconds in enumerate((0.9, 0.3, 0.6))]

    assert planned(plan(scheduler(), *each, now=0.0)) == (Stage.TALKER, [1, 2, 0])


def test_batch_has_no_more_rows_than_the_device() -> None:
    each = [playing(sent=seconds, slot=slot) for slot, seconds in enumerate((0.9, 0.3, 0.6))]

    assert planned(plan(scheduler(rows=2), *each, now=0.0)) == (Stage.TALKER, [1, 2])


def test_first_frame_is_decoded_before_the_second_is_made() -> None:
    each = utterance(segment())
    speak(each, 1)

    assert planned(plan(scheduler(), each, now=0.0)) == (Stage.CODEC, [0])


def test_frames_gather_into_larger_chunks_while_there_is_time() -> None:
    each = playing(sent=0.5)
    for _ in range(3):
        run(each, Stage.TALKER)
        run(each, Stage.PREDICTOR)

    assert planned(plan(scheduler(), each, now=0.0))[0] is Stage.TALKER
    run(each, Stage.TALKER)
    run(each, Stage.PREDICTOR)
    batch = plan(scheduler(), each, now=0.0)
    assert batch and (batch.stage, batch.frames) == (Stage.CODEC, 4)


def test_chunk_goes_early_when_time_is_up() -> None:
    each = playing(sent=1.0)
    run(each, Stage.TALKER)
    run(each, Stage.PREDICTOR)
    plans = scheduler()

    step = SECONDS[Stage.TALKER] + SECONDS[Stage.PREDICTOR]
    due = 1.0 - CONFIG.margin - SECONDS[Stage.CODEC] - step

    first = plan(plans, each, now=0.5)
    assert first and first.stage is Stage.TALKER
    assert plans.wake_at(0.5) == pytest.approx(due)
    batch = plan(plans, each, now=due)
    assert batch and (batch.stage, batch.frames) == (Stage.CODEC, 1)


def test_tail_is_decoded_at_once() -> None:
    each = playing(sent=1.0)
    run(each, Stage.TALKER)
    run(each, Stage.PREDICTOR)
    run(each, Stage.TALKER, EOS)

    assert planned(plan(scheduler(), each, now=0.0)) == (Stage.CODEC, [0])


def test_what_was_said_is_not_held_back_while_text_is_awaited() -> None:
    each = utterance(Segment(0, 5, [1], closed=False, frames_limit=99), finished=False)
    speak(each, 1)
    decode(each, 1)
    each.largest_chunk = 1
    each.segment.tokens.append(2)  # type: ignore[union-attr]
    run(each, Stage.TALKER)
    run(each, Stage.PREDICTOR)

    assert planned(plan(scheduler(), each, now=0.0)) == (Stage.CODEC, [0])


def test_codec_batch_shares_its_number_of_frames() -> None:
    first, second, third = (playing(sent=1.0, slot=slot) for slot in range(3))
    for each, frames in ((first, 4), (second, 4), (third, 2)):
        for _ in range(frames):
            run(each, Stage.TALKER)
            run(each, Stage.PREDICTOR)

    batch = plan(scheduler(), first, second, third, now=0.0)

    assert planned(batch) == (Stage.CODEC, [0, 1])


def test_generation_rests_while_enough_is_made() -> None:
    each = playing(sent=2.0, max_lead=3.0)
    plans = scheduler()

    assert plan(plans, each, now=0.5) is None
    assert each.resting
    goes_on = 2.0 - CONFIG.stock
    assert plans.wake_at(0.5) == pytest.approx(goes_on)
    assert planned(plans.plan(goes_on + 0.001)) == (Stage.TALKER, [0])


@pytest.mark.parametrize(("lead", "rides"), [(2.9, True), (3.1, False)])
def test_rested_utterance_rides_along_up_to_its_limit(lead: float, rides: bool) -> None:
    rested = playing(sent=lead, max_lead=3.0)
    hungry = playing(sent=0.5, slot=1)

    batch = plan(scheduler(), rested, hungry)

    assert planned(batch) == (Stage.TALKER, [1, 0] if rides else [1])


def test_frame_begun_is_finished_before_a_rest() -> None:
    each = playing(sent=2.0, max_lead=3.0)
    run(each, Stage.TALKER)

    assert planned(plan(scheduler(), each, now=0.5)) == (Stage.PREDICTOR, [0])


def test_resting_utterance_sends_what_it_has_before_comfort_ends() -> None:
    each = playing(sent=2.0, max_lead=3.0)
    each.largest_chunk = 8
    for _ in range(6):
        run(each, Stage.TALKER)
        run(each, Stage.PREDICTOR)
    plans = scheduler()

    assert plan(plans, each, now=0.5) is None
    assert plans.wake_at(0.5) == pytest.approx(2.0 - CONFIG.comfort)
    batch = plans.plan(2.0 - CONFIG.comfort)
    assert batch and (batch.stage, batch.frames) == (Stage.CODEC, 4)


def test_no_limit_never_rests() -> None:
    each = playing(sent=100.0, max_lead=None)

    assert planned(plan(scheduler(), each, now=0.0)) == (Stage.TALKER, [0])


def test_paused_listener_lets_others_go_first_and_rests_at_its_limit() -> None:
    paused = playing(sent=0.6)
    paused.clock.reported(0.1, "paused", 0.0, 0.2)
    other = playing(sent=0.9, slot=1)

    assert planned(plan(scheduler(), paused, other, now=0.3)) == (Stage.TALKER, [1, 0])
    paused.clock.audio_sent(1.2, 0.3)
    assert planned(plan(scheduler(), paused, other, now=0.3)) == (Stage.TALKER, [1])


def test_slack_counts_sound_made_but_not_sent() -> None:
    each = playing(sent=0.5)
    before = scheduler().slack(each, 0.0)
    run(each, Stage.TALKER)
    run(each, Stage.PREDICTOR)
    run(each, Stage.TALKER)

    batch = plan(scheduler(), each, now=0.0)

    assert batch and batch.stage is Stage.PREDICTOR
    gained = batch.works[0].latest_start - before
    assert gained == pytest.approx(FRAME_SECONDS + SECONDS[Stage.TALKER])


def between_steps(rows: int) -> Scheduler:
    """The last step was planned for two listeners, who are ready for the next."""
    plans = scheduler(rows)
    listeners = [playing(sent=0.5, slot=slot) for slot in range(2)]
    assert planned(plan(plans, *listeners)) == (Stage.TALKER, [0, 1])
    for each in listeners:
        run(each, Stage.TALKER)
        run(each, Stage.PREDICTOR)
        plans.touch(each, 0.0)
    return plans


def newcomer(*, at: float) -> Utterance:
    """One whose first frame lacks the predictor."""
    result = utterance(segment(), slot=2, at=at)
    run(result, Stage.PREFILL)
    return result


def test_newcomer_shares_a_launch_with_a_full_crowd() -> None:
    plans, new = between_steps(rows=2), newcomer(at=0.01)

    batch = plan(plans, new)

    assert planned(batch) == (Stage.TALKER, [0, 1])
    for work in batch.works:  # type: ignore[union-attr]
        run(work.utterance, Stage.TALKER)
        plans.touch(work.utterance, 0.0)
    assert planned(plans.plan(0.0)) == (Stage.PREDICTOR, [2, 0])


def test_newcomer_goes_at_once_where_there_is_room() -> None:
    plans = between_steps(rows=3)

    assert planned(plan(plans, newcomer(at=0.01))) == (Stage.PREDICTOR, [2])


def test_newcomer_that_cannot_wait_goes_before_any_crowd() -> None:
    plans = between_steps(rows=2)

    assert planned(plan(plans, newcomer(at=-0.02))) == (Stage.PREDICTOR, [2])


def test_after_a_launched_step_only_the_other_codes_are_left_to_do() -> None:
    plans, each = scheduler(), playing(sent=0.5)
    batch = plan(plans, each)
    assert planned(batch) == (Stage.TALKER, [0])

    each.advance(Stage.TALKER, 1)
    plans.launched(batch, 0.0)  # type: ignore[arg-type]
    follower = plans.plan(0.0)

    assert planned(follower) == (Stage.PREDICTOR, [0])
    assert follower.works[0].latest_start == pytest.approx(  # type: ignore[union-attr]
        batch.works[0].latest_start + SECONDS[Stage.TALKER]  # type: ignore[union-attr]
    )
    each.advance(Stage.PREDICTOR, 1)
    plans.launched(follower, 0.0)  # type: ignore[arg-type]
    assert plans.plan(0.0) is None, "the first code may yet be end of speech"


def test_anchor_is_launched_however_long_its_company_would_take() -> None:
    """Company of seconds, on a slow device, makes late even who has more than half a second."""
    costs = CostModel()
    for stage in Stage:
        costs.learn(stage, 1, 1, 0.01)
        costs.learn(stage, 8, 1, 10.0)
    plans = Scheduler(CONFIG, costs, Rows())  # type: ignore[arg-type]
    listeners = [playing(sent=0.85 + slot / 1000, slot=slot) for slot in range(8)]

    batch = plan(plans, *listeners)

    assert planned(batch) == (Stage.TALKER, [0])
