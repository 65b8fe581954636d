"""Driving an engine in real time: what is counted, and that it runs without a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.api import SAMPLE_RATE, Audio, Ended, EngineError
from engine.config import EngineConfig
from engine.simulation.listeners import Player
from engine.tools import drive
from engine.tools.drive import Crowd, Reply, figures, main

SECOND = bytes(2 * SAMPLE_RATE)


def reply(asked: float, *pieces: tuple[float, float], reason: str = "complete") -> Reply:
    """A reply whose pieces are (moment, s of sound)."""
    player = Player(0.0)
    for moment, length in pieces:
        player.receive(length, moment)
    ended = pieces[-1][0] if pieces else asked
    return Reply(asked, player, ended_at=ended, reason=reason)


def test_sound_that_comes_late_is_an_underrun() -> None:
    found = figures(1.0, [reply(10.0, (10.5, 1.0), (12.0, 1.0)), reply(20.0, (20.25, 1.0))])

    assert found["underruns"] == 1
    assert found["silence"] == pytest.approx(500.0)
    assert (found["first_p50"], found["first_p95"]) == (250.0, 500.0)
    assert found["whole_p95"] == 2000.0


def test_refused_replies_count_as_ends_alone() -> None:
    found = figures(1.0, [reply(10.0, reason="overloaded")])

    assert found["ends"] == {"overloaded": 1}
    assert found["first_p50"] is None
    assert found["whole_p50"] is None


def test_sound_goes_to_whom_it_belongs() -> None:
    crowd = Crowd()
    crowd.replies = {"a": Reply(0.0), "b": Reply(0.0)}

    crowd.deliver([Audio("b", 0, SECOND, 0, last=True), Ended("b", "complete")])

    assert crowd.replies["a"].player.received == 0
    assert crowd.replies["b"].player.received == 1.0
    assert crowd.replies["b"].reason == "complete"


def test_an_engine_without_a_model_can_be_driven(tmp_path: Path) -> None:
    out = tmp_path / "drive.json"

    load = ["--rps", "20", "--seconds", "0.4", "--frames", "5"]
    status = main(["--checkpoint", "silent", *load, "--json", str(out)])

    (found,) = json.loads(out.read_text(encoding="utf-8"))
    assert status == 0
    assert found["replies"] > 0
    assert sum(found["ends"].values()) == found["replies"]
    assert found["ends"]["complete"] > 0
    assert set(found["ends"]) <= {"complete", "overloaded"}  # a busy machine may refuse some


def test_a_profile_says_where_the_time_of_each_load_went(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "drive.json"

    load = ["--rps", "20,10", "--seconds", "0.4", "--frames", "5", "--profile"]
    status = main(["--checkpoint", "silent", *load, "--json", str(out)])

    shown, results = capsys.readouterr().out, json.loads(out.read_text(encoding="utf-8"))
    assert status == 0
    assert "slower" in shown
    assert shown.count("device busy") == len(results) == 2
    for found in results:
        assert found["profile"]["utterances"] == found["ends"]["complete"]
        assert found["profile"]["legs"][0]["until"] == "command applied"
        assert found["profile"]["legs"][-2]["until"] == "sound delivered"
        assert {use["stream"] for use in found["profile"]["uses"]} == {"main"}


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ([], "overlap True, deterministic False"),
        (["--overlap", "off"], "overlap False, deterministic False"),
        (["--deterministic"], "overlap True, deterministic True"),
    ],
)
def test_modes_reach_the_engine(
    said: list[str],
    heard: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(config: EngineConfig, **_: Any) -> None:
        model = config.model
        raise EngineError(f"overlap {model.overlap}, deterministic {model.deterministic}")

    monkeypatch.setattr(drive, "EngineThread", refuse)

    assert main(said) == 1
    assert heard in capsys.readouterr().err
