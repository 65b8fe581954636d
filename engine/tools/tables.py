"""A simulation's figures as tables for people.

A profile's, too: `engine.tools.profile`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from engine.tools.profile import Profile

Figures = dict[str, Any]

WIDTH = 132  # columns, in files and pipes

COLUMNS: dict[str, Callable[[Figures], str]] = {  # heading → what is shown of the figures
    "policy": lambda f: f["policy"],
    "replies/s": lambda f: f"{f['rps']:g}",
    "replies": lambda f: f"{f['replies']}",
    "refused": lambda f: f"{f['refused']}",
    "underruns": lambda f: f"{f['underrun_replies']}",
    "silence s": lambda f: f"{f['underrun_seconds']:.2f}",
    "p50 ms": lambda f: _ms(f["first_sound"]["p50"]),
    "p95 ms": lambda f: _ms(f["first_sound"]["p95"]),
    "GPU ms / heard s": lambda f: _ms(f["gpu_seconds_per_heard_second"], 2),
    "busy": lambda f: _share(f["gpu_busy_share"]),
    "mean lead s": lambda f: _number(f["mean_lead"]),
    "wasted GPU s": lambda f: _number(f["gpu_seconds_wasted"], 3),
}
REPLY_ROWS = {
    "completed": "completed",
    "cancelled": "cancelled",
    "goodput": "s of unbroken sound heard per s",
    "heard_seconds": "s heard",
    "wasted_seconds": "s made, never heard",
    "late_replies": "replies for which the engine itself was late",
}


def progress(figures: Figures) -> None:
    """Say on standard error that one run of several is done."""
    text = (
        f"{figures['policy']} at {figures['rps']:g}/s: {figures['times_real_time']:g} × real time"
    )
    Console(stderr=True).print(f"[dim]{text}[/dim]")


def console() -> Console:
    """Return where tables go: as wide as the terminal, or as the table if there is none."""
    wide = Console()
    return wide if wide.is_terminal else Console(width=WIDTH)


def comparison(results: Sequence[Figures]) -> None:
    """Print a line for each run."""
    table = Table(*COLUMNS, title=f"listeners: {results[0]['listeners']}")
    for figures in results:
        table.add_row(*(show(figures) for show in COLUMNS.values()))
    console().print(table)


def detail(figures: Figures) -> None:
    """Print one run: what was heard, and what each stage did."""
    out = console()
    comparison([figures])
    heard = Table("what was heard", "")
    for name, text in REPLY_ROWS.items():
        value = figures[name]
        heard.add_row(text, "–" if value is None else f"{value:g}")
    out.print(heard)
    stages = Table("stage", "launches", "mean rows", "GPU s", "prediction off by")
    for stage, use in figures["stages"].items():
        launches, rows = f"{use['launches']}", _number(use["mean_rows"], 1)
        error = _share(use["prediction_error"])
        stages.add_row(stage, launches, rows, f"{use['gpu_seconds']:.3f}", error)
    out.print(stages)


def profile(found: Profile) -> None:
    """Print where time went: what each stage did on each stream, and the legs of a first sound."""
    out = console()
    streams = ", ".join(f"{name} {_share(share)}" for name, share in found.streams.items())
    title = f"device busy {_share(found.busy)} of {found.wall:.1f} s: {streams or 'no launch'}"
    uses = Table(
        *("stream", "stage", "launches", "mean rows", "p50 ms", "p95 ms"),
        *("of launch time", "waited ms"),
        title=title,
    )
    for use in found.uses:
        times = _ms(use.median, 2), _ms(use.p95, 2), _share(use.share), _ms(use.waited, 2)
        uses.add_row(use.stream, use.stage, f"{use.launches}", _number(use.rows, 1), *times)
    out.print(uses)
    legs = Table(
        *("until", "p50 ms", "p95 ms"),
        title=f"to {found.utterances} first sounds",
        caption="negative: before the line above",
    )
    for leg in found.legs:
        legs.add_row(leg.until, _ms(leg.median, 2), _ms(leg.p95, 2))
    out.print(legs)


def _ms(value: float | None, places: int = 1) -> str:
    return "–" if value is None else f"{value * 1000:.{places}f}"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value * 100:.1f} %"


def _number(value: float | None, places: int = 2) -> str:
    return "–" if value is None else f"{value:.{places}f}"
