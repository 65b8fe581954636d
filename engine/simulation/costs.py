"""Measured launch times of a device, from a file: what the pretended device takes. Pure.

The format is `[[launch]]` tables of `stage`, `rows`, `frames` and `seconds`, as `engine-bench`
writes it and `configs/costs/h200.toml` shows.
"""

from __future__ import annotations

import tomllib
from bisect import bisect_right
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from engine.api import ConfigError
from engine.work import Stage

Launch = tuple[Stage, int, int, float]  # stage, rows, frames, seconds
Line = list[tuple[int, float]]  # points in order: (rows or frames, seconds)

FIELDS = {"stage": str, "rows": int, "frames": int, "seconds": float}
SHARE_SCALE = 0.5  # a lone point: doubling what it was measured for costs half as much again


class CostTable:
    """Seconds of a launch: straight lines between measured points and beyond them.

    Args:
        launches: measured points, in any order; every stage needs one.
        name: where they come from, for error messages.
    """

    def __init__(self, launches: Iterable[Launch], *, name: str) -> None:
        self.launches = sorted(launches)
        self._lines: dict[Stage, dict[int, Line]] = {}
        for stage, rows, frames, seconds in self.launches:
            lines = self._lines.setdefault(stage, {})
            lines.setdefault(rows, []).append((frames, seconds))
        missing = [stage.value for stage in Stage if stage not in self._lines]
        if missing:
            raise ConfigError(f"{name}: every stage needs a launch; missing: {', '.join(missing)}")
        self._least = {
            stage: min(seconds for of, *_, seconds in self.launches if of is stage)
            for stage in Stage
        }
        self._known: dict[tuple[Stage, int, int], float] = {}

    def __call__(self, stage: Stage, rows: int, frames: int) -> float:
        """Return the seconds of a launch."""
        key = (stage, rows, frames)
        if key not in self._known:
            lines = self._lines[stage]
            line = [(at, _on_line(points, frames)) for at, points in lines.items()]
            self._known[key] = max(self._least[stage], _on_line(line, rows))
        return self._known[key]


def read_costs(path: Path) -> CostTable:
    """Read a cost file. Raises: ConfigError naming the entry and what would be right."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read as TOML: {error}") from error
    entries = tables.get("launch")
    if not isinstance(entries, list) or not entries:
        raise ConfigError(f"{path}: want `[[launch]]` tables; got: {', '.join(tables) or 'none'}")
    launches = [_launch(entry, f"{path}: launch {n}") for n, entry in enumerate(entries, 1)]
    return CostTable(launches, name=str(path))


def _launch(entry: dict[str, Any], where: str) -> Launch:
    wrong = set(entry) ^ set(FIELDS)
    if wrong:
        raise ConfigError(f"{where}: want {', '.join(FIELDS)}; missing or unknown: {min(wrong)}")
    for name, kind in FIELDS.items():
        if type(entry[name]) is not kind or (kind is not str and entry[name] <= 0):
            raise ConfigError(f"{where}: `{name}` wants a {kind.__name__} above 0: {entry[name]}")
    if entry["stage"] not in list(Stage):
        raise ConfigError(f"{where}: `stage` is one of {', '.join(Stage)}: {entry['stage']}")
    return Stage(entry["stage"]), entry["rows"], entry["frames"], entry["seconds"]


def _on_line(points: Line, at: int) -> float:
    """Return the value at `at` of the polygon through `points`."""
    if len(points) == 1:
        place, seconds = points[0]
        return seconds * max(1.0, 1 + SHARE_SCALE * (at / place - 1))
    last = len(points) - 1
    right = min(last, max(1, bisect_right(points, (at, float("inf")))))
    (x0, y0), (x1, y1) = points[right - 1], points[right]
    return y0 + (y1 - y0) * (at - x0) / (x1 - x0)
