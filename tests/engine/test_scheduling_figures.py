"""docs/scheduling.md: its commands are understood, and name what exists."""

import re
import shlex
from pathlib import Path

import pytest

from engine.tools.policies import ENTRANTS
from engine.tools.simulate import parser

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
