"""The host's own time between two batches: counted where one is settled and the next launched."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from engine.api import Append, Ended, Event, Finish, Open
from engine.bench import main, table, turnaround
from engine.config import EngineConfig, ModelConfig
from engine.silent import SilentStages
from engine.thread import EngineThread
from engine.trace import Trace
from engine.turnaround import KEPT, TimedStages, Turnaround
from engine.work import Batch, Stage, Work
from tests.engine.speaking import segment, utterance
from tests.waiting import LIMIT


def stages(cost: float = 1e-4) -> SilentStages:
    return SilentStages(
        slots=4, rows=4, clock=time.monotonic, sleep=time.sleep, costs=lambda *_: cost
    )


def test_percentiles_are_of_the_whole_turn_and_of_the_part_before_the_launch() -> None:
    turns = Turnaround()
    for number in range(1, 101):
        turns.add(number * 3.0, number * 1.0)

    assert turns.figures() == {
        "turns": 100,
        "between_p50": 150.0,
        "between_p95": 285.0,
        "deciding_p50": 100.0,
        "deciding_p95": 190.0,
    }


def test_an_engine_that_never_spoke_has_no_figures() -> None:
    turns = Turnaround()
    turns.add(1.0, 0.5)

    turns.clear()

    assert turns.figures()["turns"] == 0
    assert turns.figures()["between_p95"] is None


def test_the_launching_call_is_timed_and_nothing_else_changes() -> None:
    moments = iter((10.0, 10.25))
    inner = stages()
    timed = TimedStages(inner, lambda: next(moments))
    work = Work(utterance(segment()), Stage.PREFILL, 1, 0.0)

    ticket = timed.launch(Batch(Stage.PREFILL, [work]))

    assert timed.launching == 0.25
    assert len(ticket.outcomes()) == 1
    assert timed.info is inner.info
    assert timed.rows(Stage.CODEC) == 4
    assert timed.check(Open("u", "nobody")) == "unsupported_voice"


@pytest.mark.slow
def test_waiting_for_the_device_does_not_count() -> None:
    slow = 0.02  # s of every launch, far more than the host takes on any machine

    found = turnaround(stages(slow), 2)

    assert found["utterances"] == 2
    assert found["turns"] > 50
    assert 0 < found["deciding_p50"] <= found["between_p50"] < slow


def test_turns_stand_in_the_trace(tmp_path: Path) -> None:
    config = EngineConfig(model=ModelConfig(checkpoint="silent"), trace=str(tmp_path))
    over = threading.Event()

    def deliver(events: list[Event]) -> None:
        if any(isinstance(each, Ended) for each in events):
            over.set()

    engine = EngineThread(config, deliver=deliver, died=lambda _: over.set())
    engine.start()
    engine.wait_ready()

    for command in (Open("u", "tone", max_lead=None), Append("u", "Two words."), Finish("u")):
        engine.send(command)
    assert over.wait(LIMIT)
    engine.stop()

    entries = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    counted = [each["args"]["ms"] for each in entries if each["ph"] == "C"]
    assert len(counted) == engine.turnaround.figures()["turns"] > 0
    assert min(counted) > 0


def test_a_trace_forgets_turns_with_the_rest() -> None:
    trace = Trace()
    trace.turned(0.001, now=5.0)

    trace.clear()

    assert not [each for each in trace.to_chrome()["traceEvents"] if each["ph"] == "C"]


def test_engine_bench_reports_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "stages.json"

    status = main(
        ["--checkpoint", "silent", "--device", "cpu", "--rows", "1,2", "--json", str(out)]
    )

    report = json.loads(out.read_text())
    assert status == 0
    assert [each["utterances"] for each in report["turnarounds"]] == [1, 2]
    assert "host between batches: p50" in capsys.readouterr().out
    assert table(report).count("host between batches") == 2


def test_only_the_last_turns_are_kept() -> None:
    turns = Turnaround()
    for _ in range(KEPT):
        turns.add(1.0, 0.5)
    for _ in range(KEPT // 2 + 1):
        turns.add(0.25, 0.25)

    figures = turns.figures()

    assert figures["turns"] == KEPT
    assert (figures["between_p50"], figures["between_p95"]) == (0.25, 1.0)
