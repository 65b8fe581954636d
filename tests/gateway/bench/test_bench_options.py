"""What can be asked, and how what does not go together is refused."""

from __future__ import annotations

import pytest

from engine.api import ConfigError
from gateway.bench.options import orders, parser


def asked(words: str) -> list[tuple[float, int, int]]:
    found = orders(parser().parse_args(words.split()))
    return [(each.load.rate, each.load.listeners, each.load.seed) for each in found]


@pytest.mark.parametrize(
    ("words", "runs"),
    [
        ("", [(0, 1, 0)]),
        ("--rps 2.5", [(2.5, 0, 0)]),
        ("--concurrency 25 --seed 0,1", [(0, 25, 0), (0, 25, 1)]),
        ("--sweep 4,1,2", [(1, 0, 0), (2, 0, 0), (4, 0, 0)]),
        ("--sweep 8,16 --closed", [(0, 8, 0), (0, 16, 0)]),
    ],
)
def test_every_load_and_seed_is_a_run(words: str, runs: list[tuple[float, int, int]]) -> None:
    assert asked(words) == runs


@pytest.mark.parametrize(
    ("words", "seconds"), [("90", 90), ("90s", 90), ("20m", 1_200), ("1h", 3_600)]
)
def test_durations_may_have_a_unit(words: str, seconds: float) -> None:
    (order,) = orders(parser().parse_args(["--duration", words]))

    assert order.load.duration == seconds


def test_url_may_be_the_base_of_openai_clients() -> None:
    (order,) = orders(parser().parse_args(["--url", "http://h:1/v1/"]))

    assert order.target.url == "http://h:1"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--pause 0.5", "--pause.*--transport voice"),
        ("--words-per-second 5", "--words-per-second.*--transport voice"),
        ("--processes 0", "at least one process"),
        ("--concurrency 0", "at least one"),
        ("--url localhost:8000", "--url"),
        ("--field seed", "NAME=JSON"),
    ],
)
def test_what_does_not_go_together_is_refused(words: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        asked(words)


@pytest.mark.parametrize("words", ["--rps 0", "--barge-in 2", "--rps 1 --sweep 1", "--duration -1"])
def test_impossible_values_are_usage_errors(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        asked(words)

    assert "usage:" in capsys.readouterr().err
