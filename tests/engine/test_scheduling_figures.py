"""docs/scheduling.md: its commands are understood, and still print what stands there."""

import json
import re
import shlex
from pathlib import Path

import pytest

from engine.tools.policies import ENTRANTS
from engine.tools.simulate import main, parser

PAGE = Path(__file__).parents[2] / "docs" / "scheduling.md"
COMMANDS = re.findall(r"^    playhead simulate (.+)$", PAGE.read_text(encoding="utf-8"), re.M)


@pytest.mark.parametrize("command", COMMANDS)
def test_command_of_a_figure_is_understood(command: str) -> None:
    options = parser().parse_args(shlex.split(command))

    assert str(options.costs) == "h200"


def test_page_shows_every_policy() -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert COMMANDS
    assert all(f"| `{name}` |" in text for name in ENTRANTS)


def test_figures_are_those_of_the_present_scheduler(capsys: pytest.CaptureFixture[str]) -> None:
    """A sample, for time: who changes the scheduler prints the whole page again."""
    rates = ["20", "100"]  # alone, and in a crowd
    load = ["--sweep", ",".join(rates), "--duration", "3", "--seeds", "5"]
    main(["--costs", "h200", *load, "--json"])

    measured = json.loads(capsys.readouterr().out)
    assert [shown("p95 first sound, ms:", rate) for rate in rates] == [
        f"{each['first_sound']['p95'] * 1000:.1f}" for each in measured
    ]
    assert [shown("GPU time per heard second, ms:", rate) for rate in rates] == [
        f"{each['gpu_seconds_per_heard_second'] * 1000:.2f}" for each in measured
    ]


def shown(title: str, rate: str) -> str:
    """Return what the first table under a title says of ours at a rate."""
    table = PAGE.read_text(encoding="utf-8").partition(f"\n{title}\n")[2]
    row = re.search(rf"^\| {rate} \| ([\d.]+) \|", table, re.MULTILINE)
    assert row, f"no row for {rate} under: {title}"
    return row[1]
