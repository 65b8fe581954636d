"""Figures as people read them: tables on a terminal, and the same in a page with the chart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape

from rich.console import Console
from rich.table import Table

from gateway.bench.chart import chart
from gateway.bench.compare import Difference
from gateway.bench.run import Run
from gateway.bench.server_watch import MIB, Server
from gateway.bench.sweep import points
from gateway.bench.target import Load

Row = tuple[str, Callable[[Run], str]]
TEN_MINUTES = 600  # s


def ms(seconds: float | None) -> str:
    """Milliseconds, with a decimal; `–` for what is not known."""
    return "–" if seconds is None else f"{seconds * 1000:.1f}"


def number(value: float | None, digits: int = 2) -> str:
    """A number, or `–`."""
    return "–" if value is None else f"{value:,.{digits}f}"


def _pair(counts: tuple[int, int] | None) -> str:
    return "–" if counts is None else f"{counts[0]} → {counts[1]}"


def _slope(server: Server) -> str:
    slope = server.memory_slope
    return "–" if slope is None else f"{slope * TEN_MINUTES / MIB:+.2f}"


def _outcomes(run: Run) -> str:
    outcomes, codes = run.summary.outcomes, run.summary.codes
    words = [f"{count} {outcome}" for outcome, count in sorted(outcomes.items())]
    words += [f"({count} {code})" for code, count in sorted(codes.items())]
    return ", ".join(words) or "none"


def _cpu_per_stream(run: Run) -> float | None:
    """Share of a core for each second of sound received in a second."""
    cpu, streams = run.server.cpu, run.summary.sound_per_second
    return None if cpu is None or not streams else 100 * cpu / streams


ROWS: tuple[Row, ...] = (
    ("replies", lambda run: _outcomes(run)),
    ("first playable p50 / p95 / p99, ms", lambda run: _three(run.summary.first_playable)),
    ("audible first sound p50 / p95 / p99, ms", lambda run: _three(run.summary.audible)),
    ("end to end p50 / p95 / p99, ms", lambda run: _three(run.summary.end)),
    ("replies that ran dry", lambda run: f"{run.summary.underrun_replies}"),
    ("silence in them, s", lambda run: number(run.summary.underrun_seconds, 3)),
    ("replies/s", lambda run: number(run.summary.replies_per_second)),
    ("sound received, s/s", lambda run: number(run.summary.sound_per_second)),
    ("sound heard, s/s", lambda run: number(run.summary.heard_per_second)),
    ("unheard sound in hand, mean, s", lambda run: number(run.summary.lead)),
    ("received but never heard, s", lambda run: number(run.summary.wasted)),
    ("GPU seconds for what nobody heard", lambda run: number(run.summary.device_wasted)),
    ("GPU seconds per heard second", lambda run: number(run.summary.device_per_heard, 4)),
    ("$ per 1M heard characters", lambda run: _dollars(run)),
    ("server: cores", lambda run: number(run.server.cpu)),
    ("server: % of a core per stream", lambda run: number(_cpu_per_stream(run))),
    ("server: /health p50 / p95 / p99, ms", lambda run: _three(run.server.loop_lag)),
    ("server: memory, MiB", lambda run: _memory(run.server)),
    ("server: memory slope, MiB per 10 min", lambda run: _slope(run.server)),
    ("server: descriptors", lambda run: _pair(run.server.descriptors)),
    ("server: threads", lambda run: _pair(run.server.threads)),
    ("scheduling lag p50 / p95 / p99, ms", lambda run: _three(run.summary.lag)),
    ("load: loop lag p95, ms", lambda run: ms(run.summary.loop_lag)),
    ("void", lambda run: run.summary.void or "no"),
)


def show(console: Console, runs: Sequence[Run]) -> None:
    """One column for each run."""
    table = Table(title=title(runs[0]), title_justify="left")
    table.add_column("")
    for run in runs:
        table.add_column(heading(run), justify="right")
    for name, cells in _known(runs):
        table.add_row(name, *cells)
    console.print(table)


def _known(runs: Sequence[Run]) -> Iterator[tuple[str, list[str]]]:
    """The rows that any run has a figure for."""
    for name, cell in ROWS:
        cells = [cell(run) for run in runs]
        if any(each != "–" for each in cells):
            yield name, cells


def show_differences(console: Console, differences: Sequence[Difference]) -> None:
    """A, B, and whether the difference is more than chance."""
    table = Table(title="B against A", title_justify="left")
    for name in ("", "A", "B", "B − A", "A against itself", "real"):
        table.add_column(name, justify="left" if not name else "right")
    for each in differences:
        form = number_of_share if "underruns" in each.name else ms
        unit = "" if "underruns" in each.name else ", ms"
        values = (form(value) for value in (each.a, each.b, each.change, each.control))
        table.add_row(each.name + unit, *values, "yes" if each.real else "no")
    console.print(table)


def number_of_share(share: float | None) -> str:
    """A share as a percentage."""
    return "–" if share is None else f"{100 * share:.2f} %"


def title(run: Run) -> str:
    """What was asked of whom."""
    target = run.order.target
    words = [target.url, target.transport, target.codec, f"{run.order.load.texts}", run.network]
    return " · ".join(words)


def heading(run: Run) -> str:
    """What tells this run from the others."""
    load = run.order.load
    amount = f"{load.rate:g}/s" if load.rate else f"{load.listeners} listeners"
    return f"{amount}, seed {load.seed}"


def amount(load: Load) -> float:
    """The load as a number: replies/s, or listeners."""
    return load.rate or float(load.listeners)


def drawing(runs: Sequence[Run]) -> str:
    """The chart of a sweep as SVG."""
    unit = "replies/s" if runs[0].order.load.rate else "listeners"
    swept = points((amount(run.order.load), run.summary) for run in runs)
    return chart(swept, title=f"audible first sound · {title(runs[0])}", unit=unit)


def page(runs: Sequence[Run], command: Sequence[str]) -> str:
    """The chart and the table in one file, with the command that measured them."""
    head = "".join(f"<th>{escape(heading(run))}</th>" for run in runs)
    rows = "\n".join(
        f"<tr><th>{escape(name)}</th>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        + "</tr>"
        for name, cells in _known(runs)
    )
    shown = escape(" ".join(["playhead bench", *command]))
    return PAGE.format(drawing=drawing(runs), head=head, rows=rows, command=shown)


PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>playhead bench</title>
<style>
body {{ font: 14px system-ui, sans-serif; margin: 2rem; }}
table {{ border-collapse: collapse; }}
th, td {{ padding: 0.2rem 0.6rem; border-bottom: 1px solid #ddd; text-align: right;
  white-space: nowrap; }}
th:first-child {{ text-align: left; font-weight: normal; }}
</style>
{drawing}
<table>
<tr><th></th>{head}</tr>
{rows}
</table>
<p><code>{command}</code></p>
</html>
"""


def _three(quantiles: object) -> str:
    values = [getattr(quantiles, name) for name in ("p50", "p95", "p99")]
    return "–" if values[0] is None else " / ".join(map(ms, values))


def _memory(server: Server) -> str:
    if server.memory_start is None or server.memory_end is None:
        return "–"
    return f"{server.memory_start / MIB:.1f} → {server.memory_end / MIB:.1f}"


def _dollars(run: Run) -> str:
    dollars = run.summary.dollars_per_million
    return "–" if dollars is None else f"{dollars:,.4f} at duty {run.summary.duty:g}"
