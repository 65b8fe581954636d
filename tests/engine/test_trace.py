"""The trace says what was launched and why; a recorded log gives the same launches again."""

import itertools
import json
from pathlib import Path

import pytest

from engine.api import Append, Cancel, ConfigError, Finish, Open, Sampling
from engine.config import EngineConfig, ModelConfig
from engine.simulation.arrivals import arrivals
from engine.simulation.listeners import POPULATIONS
from engine.simulation.simulation import Simulation
from engine.trace import Recorder, Trace, disguised, read_log

CONFIG = EngineConfig(model=ModelConfig(checkpoint="silent", slots=64, rows=64))


def watched(*observers: Trace | Recorder, listeners: str = "mixed") -> Simulation:
    load = arrivals(6.0, 3.0, population=POPULATIONS[listeners], seed=11)
    simulation = Simulation(load, CONFIG, observers=observers)
    simulation.run()
    return simulation


def test_trace_is_what_chrome_reads() -> None:
    trace = Trace()
    watched(trace)

    chrome = json.loads("".join(trace.pieces()))

    spans = [each for each in chrome["traceEvents"] if each["ph"] == "X" and each["pid"] == 1]
    assert chrome == trace.to_chrome()
    assert len(spans) == len(trace.spans)
    assert all(each["dur"] > 0 and each["args"]["why"] for each in spans)
    lanes = {each["args"]["name"] for each in chrome["traceEvents"] if each["ph"] == "M"}
    assert {"device", "utterances", "talker", "r0"} <= lanes


def test_device_does_one_thing_at_a_time() -> None:
    trace = Trace()
    watched(trace)

    spans = list(trace.spans)
    assert all(a.ended <= b.began + 1e-9 for a, b in itertools.pairwise(spans))


def test_ring_forgets_the_oldest() -> None:
    whole, short = Trace(), Trace(10)
    watched(whole, short)

    assert list(short.spans) == list(whole.spans)[-10:]


def test_recorded_log_gives_the_same_launches(tmp_path: Path) -> None:
    recorder, first, second = Recorder(), Trace(), Trace()
    watched(recorder, first)
    path = tmp_path / "commands.log"
    path.write_text(recorder.to_lines())

    report = Simulation([], CONFIG, observers=[second]).replay(read_log(path))

    def launches(trace: Trace) -> list[tuple[object, ...]]:
        return [(s.stage, s.rows, s.frames, s.anchor) for s in trace.spans]

    assert launches(second) == launches(first)
    assert report.replies


def test_log_keeps_no_text(tmp_path: Path) -> None:
    recorder = Recorder()
    recorder.command(Open("u", "tone", instructions="softly", sampling=Sampling(top_k=3)), 1.0)
    recorder.command(Append("u", "Call 555, Ann."), 1.0)
    path = tmp_path / "commands.log"
    path.write_text(recorder.to_lines())

    assert "Ann" not in path.read_text() and "softly" not in path.read_text()
    assert [command for _, command in read_log(path)] == [
        Open("u", "tone", instructions="aaaaaa", sampling=Sampling(top_k=3)),
        Append("u", "Aaaa aaa, Aaa."),
    ]


def test_full_recorder_forgets_the_oldest_utterance_whole(tmp_path: Path) -> None:
    recorder = Recorder(4)
    for command in (Open("a", "tone"), Open("b", "tone"), Finish("a"), Finish("b")):
        recorder.command(command, 1.0)

    recorder.command(Open("c", "tone"), 2.0)
    recorder.command(Cancel("a"), 3.0)

    path = tmp_path / "commands.log"
    path.write_text(recorder.to_lines())
    kept = [command for _, command in read_log(path)]
    assert kept == [Open("b", "tone"), Finish("b"), Open("c", "tone")]


def test_log_of_a_machine_long_awake_replays_at_once_and_in_any_voice() -> None:
    late = 1_000_000.0  # s
    said = [Open("u", "somebody"), Append("u", "Hello there."), Finish("u")]

    report = Simulation([], CONFIG).replay([(late, command) for command in said])

    assert [reply.ended for reply in report.replies] == ["complete"]
    assert report.duration < 5


def test_disguise_keeps_lengths_and_marks() -> None:
    assert disguised("Hello, Zoë!") == "Aaaaa, Aaa!"


@pytest.mark.parametrize(
    "line", ["what", "{}", '{"at": 1, "do": "Dance"}', '{"at": 1, "do": "Open"}']
)
def test_broken_log_names_the_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "commands.log"
    path.write_text(line + "\n")

    with pytest.raises(ConfigError, match=r"commands\.log:1"):
        read_log(path)
