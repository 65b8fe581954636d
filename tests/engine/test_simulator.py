"""Virtual time: what listeners hear on a device that is fast enough, and on one that is not."""

from itertools import count

import pytest

from engine.config import EngineConfig, ModelConfig
from engine.silent import scripted_costs
from engine.simulator import Arrival, Listener, Report, Simulation
from engine.work import Stage

TEXT = "This sentence is spoken to a listener who must never hear silence."
CONFIG = EngineConfig(model=ModelConfig(slots=64, rows=64))


def slower(factor: float) -> object:
    return lambda stage, rows, frames: factor * scripted_costs(stage, rows, frames)


def simulate(
    *, replies: int, every: float, slow: float = 1.0, text: str = TEXT, **listener: object
) -> Report:
    who = Listener(**listener)  # type: ignore[arg-type]
    arrivals = [Arrival(number * every, text, who) for number in range(replies)]
    return Simulation(arrivals, CONFIG, costs=slower(slow)).run()  # type: ignore[arg-type]


@pytest.mark.parametrize("acks", [True, False])
def test_nobody_hears_silence_on_a_device_with_room(acks: bool) -> None:
    report = simulate(replies=20, every=0.3, acks=acks)

    assert [reply.ended for reply in report.replies] == ["complete"] * 20
    assert report.underrun_replies == 0
    assert report.first_sound(0.95) < 0.05


def test_second_chunk_arrives_before_the_first_is_over_at_half_of_real_time() -> None:
    report = simulate(replies=1, every=1.0, slow=12.0, acks=False)

    assert report.underrun_replies == 0


def test_burst_shares_the_device_without_silence() -> None:
    report = simulate(replies=12, every=0.0)

    assert report.underrun_replies == 0
    assert {reply.ended for reply in report.replies} == {"complete"}


def test_listeners_beyond_the_device_are_refused_not_starved() -> None:
    report = simulate(replies=80, every=0.2, slow=8.0, text=TEXT * 5)

    ended = [reply.ended for reply in report.replies]
    assert ended.count("overloaded") > 0
    assert ended.count("complete") > 40
    assert report.underrun_replies == 0


def test_same_arrivals_give_the_same_report() -> None:
    first, second = (simulate(replies=10, every=0.1) for _ in range(2))

    assert first == second


def test_listener_that_plays_dry_is_counted() -> None:
    numbers = count()

    def stuck_once(stage: Stage, rows: int, frames: int) -> float:
        return 3.0 if next(numbers) == 60 else scripted_costs(stage, rows, frames)

    report = Simulation([Arrival(0.0, TEXT)], CONFIG, costs=stuck_once).run()

    assert report.underrun_replies == 1
    assert report.replies[0].silence > 1.0
