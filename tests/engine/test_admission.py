"""Who gets in: predicted from costs and leads, fair between keys."""

import pytest

from engine.admission import Admission, predicted_slack
from engine.api import Open
from engine.config import SchedulerConfig
from engine.costs import CostModel
from engine.utterance import Utterance
from engine.work import Stage
from tests.engine.speaking import decode, segment, speak, utterance

CONFIG = SchedulerConfig()


def costs(seconds: float) -> CostModel:
    """A device whose every launch takes the same, whoever is in it."""
    model = CostModel()
    for stage in Stage:
        for rows in (1, 2, 4, 8, 16, 32):
            model.learn(stage, rows, 1, seconds)
            model.learn(stage, rows, 12, seconds)
    return model


def listener(*, lead: float, slot: int = 0, key: str = "") -> Utterance:
    """One that has `lead` s of sound ahead at 0 s."""
    result = utterance(segment(limit=999), slot=slot, key=key)
    speak(result, 1)
    decode(result, 1)
    result.clock.audio_sent(lead, 0.0)
    return result


def admits(live: list[Utterance], *, seconds: float, slots: int = 8, key: str = "") -> bool:
    admission = Admission(CONFIG, costs(seconds), slots)
    return admission.admits(Open("new", "voice", key=key), live, 0.0)


def test_idle_device_admits_however_slow_it_is() -> None:
    assert admits([], seconds=10.0)


def test_full_device_admits_nobody() -> None:
    assert not admits([listener(lead=3.0)], seconds=0.001, slots=1)


def test_device_with_room_admits_at_once() -> None:
    assert admits([listener(lead=1.0, slot=n) for n in range(4)], seconds=0.003)


def test_listener_about_to_run_dry_keeps_newcomers_out_until_it_is_rich() -> None:
    assert not admits([listener(lead=0.05)], seconds=0.022)
    assert admits([listener(lead=1.0)], seconds=0.022)


def test_device_slower_than_real_time_for_two_admits_no_second() -> None:
    assert not admits([listener(lead=3.0)], seconds=0.03)


def test_those_who_are_done_generating_cost_nothing() -> None:
    done = listener(lead=3.0)
    done._finished = "complete"

    assert admits([done], seconds=0.03)


def test_listener_whose_text_has_not_come_yet_keeps_nobody_out() -> None:
    thinking = utterance(finished=False)
    thinking.samples = 1_920
    thinking.clock.audio_sent(0.08, -10.0)

    assert thinking.generating
    assert thinking.clock.dry_at(0.0) < 0.0
    assert admits([thinking], seconds=0.003)


def test_slack_falls_with_company_and_with_poverty() -> None:
    def slack(leads: list[float]) -> float:
        live = [listener(lead=lead, slot=slot) for slot, lead in enumerate(leads)]
        return predicted_slack(live, costs=costs(0.015), config=CONFIG, now=0.0)

    assert slack([1.0]) > slack([0.1])
    assert slack([1.0]) >= slack([1.0, 1.0])


@pytest.mark.parametrize(("key", "expected"), [("greedy", False), ("modest", True)])
def test_nearly_full_device_gives_nobody_more_than_a_share(key: str, expected: bool) -> None:
    live = [listener(lead=0.35, slot=slot, key="greedy") for slot in range(3)]
    live.append(listener(lead=0.35, slot=3, key="modest"))

    assert admits(live, seconds=0.0168, key=key) is expected
