"""Virtual time: what listeners hear on a device that is fast enough, and on one that is not."""

from dataclasses import replace
from itertools import count

import pytest

from engine.config import EngineConfig, ModelConfig
from engine.silent import scripted_costs
from engine.simulation.arrivals import PATTERNS, Arrival, arrivals
from engine.simulation.listeners import POPULATIONS, Listener, Population
from engine.simulation.network import NETWORKS
from engine.simulation.report import Report
from engine.simulation.simulation import Simulation
from engine.work import Stage

TEXT = "This sentence is spoken to a listener who must never hear silence."
CONFIG = EngineConfig(model=ModelConfig(checkpoint="silent", slots=64, rows=64))


def slower(factor: float) -> object:
    return lambda stage, rows, frames: factor * scripted_costs(stage, rows, frames)


def simulate(
    *, replies: int, every: float, slow: float = 1.0, text: str = TEXT, engines: int = 1, **listener
) -> Report:
    who = Listener(**listener)
    load = [Arrival(number * every, text, who) for number in range(replies)]
    return Simulation(load, CONFIG, costs=slower(slow), engines=engines).run()


@pytest.mark.parametrize("reports", ["honest", "none", "greedy"])
def test_nobody_hears_silence_on_a_device_with_room(reports: str) -> None:
    report = simulate(replies=20, every=0.3, reports=reports)

    assert [reply.ended for reply in report.replies] == ["complete"] * 20
    assert report.underrun_replies == 0
    assert report.first_sound(0.95) < 0.05


def test_everything_that_is_made_for_patient_listeners_is_heard() -> None:
    report = simulate(replies=10, every=0.3)

    assert report.heard == pytest.approx(sum(reply.made for reply in report.replies))
    assert report.wasted == pytest.approx(0.0)


def test_second_chunk_arrives_before_the_first_is_over_at_half_of_real_time() -> None:
    report = simulate(replies=1, every=1.0, slow=12.0, reports="none")

    assert report.underrun_replies == 0


def test_burst_shares_the_device_without_silence() -> None:
    report = simulate(replies=12, every=0.0)

    assert report.underrun_replies == 0
    assert {reply.ended for reply in report.replies} == {"complete"}


def test_listeners_beyond_the_device_are_refused_not_starved() -> None:
    report = simulate(replies=80, every=0.2, slow=8.0, text=TEXT * 5)

    assert len(report.refused) > 0
    assert sum(1 for reply in report.replies if reply.ended == "complete") > 40
    assert report.underrun_replies == 0


@pytest.mark.parametrize("engines", [1, 2])
def test_busy_is_a_share_of_the_time_of_all_devices(engines: int) -> None:
    report = simulate(replies=40, every=0.05, slow=6.0, engines=engines)

    busy = report.figures()["gpu_busy_share"]
    assert busy == pytest.approx(report.device_seconds / report.duration / engines, abs=1e-5)
    assert busy <= 1.0


def test_same_seed_gives_the_same_report() -> None:
    def once() -> Report:
        load = arrivals(8.0, 3.0, population=POPULATIONS["mixed"], seed=3)
        return Simulation(load, CONFIG, hiccups=0.1, seed=3).run()

    assert once() == once()


def test_listener_that_plays_dry_is_counted() -> None:
    numbers = count()

    def stuck_once(stage: Stage, rows: int, frames: int) -> float:
        return 3.0 if next(numbers) == 60 else scripted_costs(stage, rows, frames)

    report = Simulation([Arrival(0.0, TEXT)], CONFIG, costs=stuck_once).run()

    assert report.underrun_replies == report.late_replies == 1
    assert report.replies[0].silence > 1.0


def test_silence_of_a_network_is_not_the_engines() -> None:
    stalling = replace(NETWORKS["loopback"], stalls=0.5, stall=5.0)

    report = simulate(replies=10, every=0.1, network=stalling)

    assert report.underrun_replies > 0
    assert report.late_replies == 0


def test_interruption_ends_the_reply_and_counts_what_was_never_heard() -> None:
    report = simulate(replies=1, every=1.0, barge_in_after=0.25)

    reply = report.replies[0]
    assert reply.ended == "cancelled"
    assert 0.5 < reply.heard < 1.5
    assert report.wasted == pytest.approx(reply.made - reply.heard)
    assert 0 < report.wasted_device_seconds < report.device_seconds


def test_pause_moves_the_end_of_the_reply() -> None:
    plain = simulate(replies=1, every=1.0)
    paused = simulate(replies=1, every=1.0, pause_after=0.5, pause=2.0)

    assert paused.duration == pytest.approx(plain.duration + 2.0, abs=0.2)
    assert paused.heard == pytest.approx(plain.heard)
    assert paused.underrun_replies == 0


def test_paced_text_is_spoken_to_its_end() -> None:
    report = simulate(replies=3, every=0.5, words_per_second=20.0)

    assert {reply.ended for reply in report.replies} == {"complete"}


def test_slow_text_has_one_gap_in_its_first_sentence() -> None:
    text = " ".join([TEXT] * 4)

    report = simulate(replies=3, every=0.5, text=text, words_per_second=6.0)

    assert [(reply.ended, reply.stalls) for reply in report.replies] == [("complete", 1)] * 3


def test_several_engines_share_what_one_cannot_bear() -> None:
    one = simulate(replies=60, every=0.1, slow=8.0, text=TEXT * 3)
    three = simulate(replies=60, every=0.1, slow=8.0, text=TEXT * 3, engines=3)

    assert len(three.refused) < len(one.refused)
    assert {reply.engine for reply in three.replies} == {0, 1, 2}


def test_figures_are_fit_for_json_even_when_nothing_was_heard() -> None:
    figures = Simulation([], CONFIG).run().figures()

    assert figures["replies"] == figures["underrun_replies"] == 0
    assert figures["first_sound"]["p95"] is None


# -------------------------------------------------------------------- the load


@pytest.mark.parametrize("pattern", list(PATTERNS))
def test_every_pattern_keeps_the_rate(pattern: str) -> None:
    load = arrivals(10.0, 200.0, population=Population(), seed=1, pattern=PATTERNS[pattern])

    assert len(load) == pytest.approx(2000, rel=0.15)
    assert all(0 <= each.at < 200 for each in load)


def test_bursts_arrive_together() -> None:
    load = arrivals(10.0, 50.0, population=Population(), seed=1, pattern=PATTERNS["bursts"])

    assert len({each.at for each in load}) == len(load) / 10


def test_texts_have_the_length_that_was_asked_for() -> None:
    load = arrivals(50.0, 20.0, population=Population(), seed=1, characters=68.0)

    mean = sum(len(each.text) for each in load) / len(load)
    assert mean == pytest.approx(70, abs=4)
    assert all(each.text.endswith(".") and 20 <= len(each.text) <= 160 for each in load)


def test_long_texts_have_several_sentences() -> None:
    load = arrivals(10.0, 5.0, population=POPULATIONS["slow"], seed=1)
    short = arrivals(10.0, 5.0, population=POPULATIONS["plain"], seed=1)

    assert {each.text.count(".") for each in load} == {4}
    assert all(a.text.startswith(b.text) for a, b in zip(load, short, strict=True))


def test_another_population_hears_the_same_texts_at_the_same_moments() -> None:
    loads = [arrivals(5.0, 5.0, population=POPULATIONS[n], seed=2) for n in ("plain", "barging")]

    assert [(a.at, a.text) for a in loads[0]] == [(a.at, a.text) for a in loads[1]]


def test_slack_is_that_of_honest_listeners_and_lies_do_not_change_it() -> None:
    def slack(listeners: str) -> Report:
        load = arrivals(10.0, 4.0, population=POPULATIONS[listeners], seed=9)
        return Simulation(load, CONFIG, watch_slack=True).run()

    plain, greedy = slack("plain"), slack("greedy")

    assert 0 < len(greedy.slacks) < len(plain.slacks)
    assert min(greedy.slacks) == pytest.approx(min(plain.slacks), abs=0.05)
