"""Launch times from a file: between the points, beyond them, and what is wrong with it."""

from itertools import pairwise
from pathlib import Path

import pytest

from engine.api import ConfigError
from engine.simulation.costs import CostTable, read_costs
from engine.work import Stage

NOISE = 0.1  # share of a measured launch
COSTS = sorted((Path(__file__).parents[2] / "configs" / "costs").glob("*.toml"))
POINTS = [
    *((stage, 1, 1, 0.001) for stage in (Stage.PREFILL, Stage.PREDICTOR)),
    *((Stage.TALKER, rows, 1, 0.001 + 0.0001 * rows) for rows in (1, 4, 8)),
    (Stage.CODEC, 1, 1, 0.001),
    (Stage.CODEC, 1, 12, 0.012),
    (Stage.CODEC, 8, 1, 0.004),
    (Stage.CODEC, 8, 12, 0.048),
]
TABLE = CostTable(POINTS, name="test")


@pytest.mark.parametrize("point", POINTS)
def test_measured_points_are_met(point: tuple[Stage, int, int, float]) -> None:
    stage, rows, frames, seconds = point

    assert TABLE(stage, rows, frames) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("stage", "rows", "frames", "seconds"),
    [
        (Stage.TALKER, 2, 1, 0.0012),
        (Stage.TALKER, 6, 1, 0.0016),
        (Stage.TALKER, 16, 1, 0.0026),
        (Stage.CODEC, 1, 6, 0.006),
        (Stage.CODEC, 8, 6, 0.024),
        (Stage.CODEC, 1, 24, 0.024),
        (Stage.PREFILL, 3, 1, 0.002),
    ],
)
def test_costs_follow_straight_lines(stage: Stage, rows: int, frames: int, seconds: float) -> None:
    assert TABLE(stage, rows, frames) == pytest.approx(seconds)


@pytest.mark.parametrize("path", COSTS, ids=lambda path: path.stem)
def test_shipped_files_grow_with_rows_and_frames(path: Path) -> None:
    table = read_costs(path)

    for stage in Stage:
        by_rows = [table(stage, rows, 1) for rows in range(1, 65)]
        assert grows(by_rows)
        assert by_rows[0] > 0
    by_frames = [table(Stage.CODEC, 16, frames) for frames in range(1, 25)]
    assert grows(by_frames)


def grows(seconds: list[float]) -> bool:
    """Whether more work takes longer, or hardly less: one row more may cost nothing but noise."""
    return all(after > (1 - NOISE) * before for before, after in pairwise(seconds))


def test_there_is_a_file_for_the_h200() -> None:
    assert "h200" in {path.stem for path in COSTS}


ENTRY = '[[launch]]\nstage = "codec"\nrows = 1\nframes = 1\nseconds = 0.1\n'


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("launch = 3", "want `\\[\\[launch\\]\\]`"),
        ("what", "cannot be read as TOML"),
        (ENTRY, "missing: prefill, talker, predictor"),
        (ENTRY.replace("codec", "cookie"), "`stage` is one of"),
        (ENTRY.replace("0.1", "0.0"), "`seconds` wants a float above 0"),
        (ENTRY.replace("rows = 1", "rows = 1.5"), "`rows` wants a int above 0"),
        (ENTRY + "colour = 1\n", "launch 1: .*colour"),
        (ENTRY.replace("rows = 1\n", ""), "launch 1: .*rows"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "costs.toml"
    path.write_text(text)

    with pytest.raises(ConfigError, match=complaint):
        read_costs(path)
