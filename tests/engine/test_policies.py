"""The baselines: each speaks every reply, and each prefers what its name says."""

import itertools
from collections.abc import Sequence

import pytest

from engine.config import EngineConfig, ModelConfig
from engine.simulation.arrivals import arrivals
from engine.simulation.listeners import POPULATIONS
from engine.simulation.report import Report
from engine.simulation.simulation import Simulation
from engine.tools.policies import ENTRANTS
from engine.trace import Span, Trace

CONFIG = EngineConfig(model=ModelConfig(checkpoint="silent", slots=64, rows=64))


def run(name: str, *, rate: float = 10.0, seconds: float = 2.0) -> tuple[Report, Sequence[Span]]:
    entrant, trace = ENTRANTS[name], Trace()
    load = arrivals(rate, seconds, population=POPULATIONS["plain"], seed=5)
    simulation = Simulation(
        load,
        CONFIG,
        policy=entrant.policy,
        max_lead=entrant.max_lead,
        listens=entrant.listens,
        observers=[trace],
    )
    return simulation.run(), list(trace.spans)


@pytest.mark.parametrize("name", list(ENTRANTS))
def test_every_policy_speaks_every_reply(name: str) -> None:
    report, _ = run(name)

    assert {reply.ended for reply in report.replies} == {"complete"}
    assert report.heard == pytest.approx(sum(reply.made for reply in report.replies))


@pytest.mark.parametrize("name", [name for name in ENTRANTS if name != "playhead"])
def test_baselines_make_a_reply_without_resting(name: str) -> None:
    report, spans = run(name, rate=0.5, seconds=4.0)

    busy = sum(span.ended - span.began for span in spans)
    assert report.replies
    assert max(span.ended for span in spans) < report.duration - 2.0
    assert busy == pytest.approx(report.device_seconds)


def test_rounds_visit_the_stages_in_turn() -> None:
    _, spans = run("rounds", rate=30.0)

    order = [span.stage for span in spans]
    repeats = sum(1 for one, two in itertools.pairwise(order) if one is two)
    assert repeats < len(order) / 50


def test_tiers_start_newcomers_before_they_continue_others() -> None:
    (tiers, _), (rounds, _) = run("tiers", rate=40.0), run("rounds", rate=40.0)

    assert tiers.first_sound(0.95) < rounds.first_sound(0.95)


def test_ours_rests_at_its_lead_limit() -> None:
    (ours, _), (unlimited, _) = run("playhead"), run("open")

    def peak(report: Report) -> float:
        return max(report.leads)

    assert peak(ours) < 3.2
    assert peak(unlimited) > peak(ours)
