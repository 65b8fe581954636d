"""`playhead simulate`: figures as tables and JSON, pictures, a log and its replay."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.tools.plan_time import main as plan_time
from engine.tools.simulate import main

SHORT = ["--rps", "5", "--duration", "1"]


def test_json_carries_the_figures(capsys: pytest.CaptureFixture[str]) -> None:
    status = main([*SHORT, "--json", "--listeners", "barging"])

    figures = json.loads(capsys.readouterr().out)
    assert status == 0
    assert figures["underrun_replies"] == 0
    assert figures["first_sound"]["p95"] < 0.05
    assert figures["gpu_seconds_per_heard_second"] > 0
    assert {"refused", "mean_lead", "gpu_seconds_wasted", "goodput"} <= set(figures)
    assert figures["stages"]["talker"]["prediction_error"] < 0.2


def test_seeds_are_taken_together(capsys: pytest.CaptureFixture[str]) -> None:
    def figures(*options: str) -> dict[str, Any]:
        main(["--rps", "3", "--duration", "3", "--json", *options])
        return dict(json.loads(capsys.readouterr().out))

    one, other = figures("--seed", "7"), figures("--seed", "8")
    both = figures("--seed", "7", "--seeds", "2")

    for name in ("replies", "heard_seconds", "gpu_seconds", "seconds"):
        assert both[name] == pytest.approx(one[name] + other[name], abs=1e-4)
    launches = [each["stages"]["talker"]["launches"] for each in (one, other, both)]
    assert launches[2] == launches[0] + launches[1]


@pytest.mark.parametrize(
    "option",
    ["--seeds=0", "--engines=0", "--rps=-1", "--rps=inf", "--sweep=1,nan", "--duration=inf"],
)
def test_a_load_that_cannot_be_is_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([*SHORT, option])

    assert "or more, got: " in capsys.readouterr().err


def test_nobody_who_speaks_has_no_figures(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["--rps", "0"])

    assert status == 0
    assert "–" in capsys.readouterr().out


def test_tables_show_each_policy(capsys: pytest.CaptureFixture[str]) -> None:
    main([*SHORT, "--policy", "all"])

    table = capsys.readouterr().out
    assert all(name in table for name in ("playhead", "open", "tiers", "edf", "rounds", "fifo"))


def test_pictures_are_svg(tmp_path: Path) -> None:
    sweep, timeline = tmp_path / "sweep.svg", tmp_path / "timeline.svg"

    main(["--sweep", "2,4", "--duration", "1", "--plot", str(sweep), "--timeline", str(timeline)])

    for path in (sweep, timeline):
        assert path.read_text().startswith("<svg")
        assert "nan" not in path.read_text()


def test_recorded_run_can_be_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = str(tmp_path / "commands.log")
    main([*SHORT, "--json", "--record", log])
    first = json.loads(capsys.readouterr().out)

    main(["--replay", log, "--json"])

    again = json.loads(capsys.readouterr().out)
    assert again["replies"] == first["replies"]
    assert again["gpu_seconds"] == pytest.approx(first["gpu_seconds"])


def test_scheduler_settings_can_be_changed(capsys: pytest.CaptureFixture[str]) -> None:
    main([*SHORT, "--json", "--set", "engine.model.slots=1"])

    assert json.loads(capsys.readouterr().out)["refused"] > 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--costs", "nowhere.toml"], "nowhere.toml"),
        (["--set", "engine.model.colour=1"], "colour"),
        (["--replay", "nowhere.log"], "nowhere.log"),
    ],
)
def test_mistakes_are_answered_in_a_line(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert complaint in capsys.readouterr().err


def test_bursts_are_reported_apart(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--rps", "0", "--burst", "0", "3", "--burst", "1.5", "2", "--json"])

    owners = json.loads(capsys.readouterr().out)["owners"]
    assert {key: each["replies"] for key, each in owners.items()} == {
        "burst at 0 s": 3,
        "burst at 1.5 s": 2,
    }


def test_planning_is_timed(capsys: pytest.CaptureFixture[str]) -> None:
    plan_time(["--live", "4", "8", "--json"])

    few, more = json.loads(capsys.readouterr().out)
    assert (few["live"], more["live"]) == (4, 8)
    assert 0 < few["plan_median"] <= few["plan_p99"]


def test_shipped_costs_are_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    main([*SHORT, "--json", "--costs", "h200"])

    assert json.loads(capsys.readouterr().out)["first_sound"]["p50"] < 0.01


def test_three_streams_are_for_those_who_know_them(capsys: pytest.CaptureFixture[str]) -> None:
    def figures(streams: str) -> list[dict[str, Any]]:
        main([*SHORT, "--json", "--policy", "open", "--policy", "edf", "--streams", streams])
        return [dict(each) for each in json.loads(capsys.readouterr().out)]

    (ours, others), (ours_beside, others_still) = figures("1"), figures("3")

    assert [each["streams"] for each in (ours, ours_beside, others_still)] == [1, 3, 1]
    assert ours_beside["mean_lead"] > ours["mean_lead"]
    assert others_still["first_sound"] == others["first_sound"]
