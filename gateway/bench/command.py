"""`playhead bench`: what listeners of a speech server hear, at a load that is made for the purpose.

    playhead bench --rps 4 --duration 60
    playhead bench --transport voice --codec opus --concurrency 25 --barge-in 0.2 --network mobile
    playhead bench --sweep 1,2,4,8,16 --p95 0.1 --plot sweep.html --out sweep.json
    playhead bench --compare before.json after.json

Any server with OpenAI's speech route can be the target of `--transport http`.
"""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from engine.api import ConfigError
from gateway.bench import compare, options, results, sweep, tables
from gateway.bench.figures import Quantiles
from gateway.bench.run import Money, Progress, Run, run
from gateway.bench.take import Reply
from gateway.bench.target import Order
from gateway.bench.textsets import read_texts

VOID = 3  # exit status of a run that says nothing


def main(arguments: Sequence[str]) -> int:
    """Measure and print; 0 if the figures count, 3 if a run is void.

    Raises: ConfigError, BenchError.
    """
    asked = options.parser().parse_args(arguments)
    if asked.compare:
        return _compare(asked)
    orders = options.orders(asked)
    read_texts(orders[0].load.texts)  # a mistake here is answered before anything starts
    runs = [_run(order, asked, f"{index}/{len(orders)}") for index, order in enumerate(orders, 1)]
    _report(runs, asked, arguments)
    return VOID if any(each.summary.void for each in runs) else 0


def _run(order: Order, asked: Namespace, place: str) -> Run:
    money = Money(gpus=asked.gpus, dollars_per_hour=asked.dollars_per_hour, duty=asked.duty)
    with _bar(order, place) as progress:
        return asyncio.run(
            run(order, network=asked.network, money=money, progress=progress, pid=asked.pid)
        )


@contextmanager
def _bar(order: Order, place: str) -> Iterator[Progress]:
    """A bar of the run's time on standard error, with what has come so far."""
    from rich import progress as bars
    from rich.console import Console

    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.TextColumn("{task.fields[news]}"),
        bars.TimeRemainingColumn(),
    )
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"run {place}", total=order.load.until, news="")

        def progress(seconds: float, replies: list[Reply]) -> None:
            bar.update(task, completed=seconds, news=_news(replies))

        yield progress


def _news(replies: Sequence[Reply]) -> str:
    recent = Quantiles.of(reply.audible for reply in replies[-200:])
    dry = sum(reply.underruns > 0 for reply in replies)
    return f"{len(replies)} replies, audible p95 {tables.ms(recent.p95)} ms, {dry} ran dry"


def _report(runs: Sequence[Run], asked: Namespace, arguments: Sequence[str]) -> None:
    from rich.console import Console

    console = Console()
    for side_by_side in _groups(runs):
        tables.show(console, side_by_side)
    if len(runs) > 1:
        _conclude(console.print, runs, asked)
    if asked.out:
        results.write_document(asked.out, runs, arguments)
    if asked.lines:
        results.write_lines(asked.lines, runs)
    if asked.plot:
        as_page = asked.plot.suffix in (".html", ".htm")
        drawn = tables.page(runs, arguments) if as_page else tables.drawing(runs)
        asked.plot.write_text(drawn, encoding="utf-8")


def _groups(runs: Sequence[Run], width: int = 4) -> list[Sequence[Run]]:
    """As many runs side by side as a terminal holds."""
    return [runs[at : at + width] for at in range(0, len(runs), width)]


def _conclude(say: Callable[[str], None], runs: Sequence[Run], asked: Namespace) -> None:
    """The medians over the seeds, and the highest load that was borne."""
    swept = sweep.points((tables.amount(each.order.load), each.summary) for each in runs)
    for point in swept:
        borne = "borne" if point.bears(asked.p95) else "void" if point.void else "not borne"
        p50, p95 = tables.ms(point.audible_p50), tables.ms(point.audible_p95)
        say(f"{point.load:g}: audible p50 {p50} ms, p95 {p95} ms, {point.underruns} dry, {borne}")
    best = sweep.highest(swept, asked.p95)
    say("none of these loads is borne" if best is None else f"highest load borne: {best:g}")


def _compare(asked: Namespace) -> int:
    from rich.console import Console

    a, b = (_all(path) for path in asked.compare)
    control = _all(asked.control) if asked.control else None
    differences = compare.compare(a, b, control, seed=0)
    if not differences:
        raise ConfigError("bench: `--compare`: want files whose replies have sound")
    tables.show_differences(Console(), differences)
    return 0


def _all(path: Path) -> list[Reply]:
    """The replies of a file; files of several loads cannot be compared as one."""
    return [reply for replies in results.read_runs(path) for reply in replies]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
