"""Results as people and programs read them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from engine.api import ConfigError
from gateway.bench import results, tables
from gateway.bench.arrivals import Habits
from gateway.bench.chart import chart
from gateway.bench.compare import compare
from gateway.bench.figures import Conditions, Quantiles, summarize
from gateway.bench.run import Run
from gateway.bench.server_watch import server
from gateway.bench.sweep import points
from gateway.bench.target import Load, Order, Target
from tests.gateway.bench.replies import reply

SVG = "{http://www.w3.org/2000/svg}"


def run_at(rate: float, *, p95: float = 0.05, dry: int = 0) -> Run:
    replies = [reply(n, audible=p95, underruns=int(n < dry)) for n in range(10)]
    return Run(
        order=Order(
            target=Target(url="http://127.0.0.1:1", token="secret"),
            load=Load(rate=rate),
            habits=Habits(),
        ),
        network="loopback",
        replies=replies,
        summary=summarize(replies, Conditions(duration=10.0)),
        server=server([], Quantiles.of([]), start=0.0, end=1.0),
    )


def test_document_can_be_read_back_and_keeps_no_token(tmp_path: Path) -> None:
    file, run = tmp_path / "a.json", run_at(1)

    results.write_document(file, [run, run], ["--rps", "1"])

    assert results.read_runs(file) == [run.replies, run.replies]
    assert "secret" not in file.read_text(encoding="utf-8")
    assert json.loads(file.read_text(encoding="utf-8"))["command"] == "playhead bench --rps 1"


def test_order_survives_its_way_to_a_load_process() -> None:
    order = Order(
        target=Target(url="http://h", fields={"seed": 1}),
        load=Load(rate=2.5, processes=3, process=2),
        habits=Habits(barge_in_probability=0.5),
    )

    assert Order.read(json.loads(json.dumps(order.fields()))) == order


@pytest.mark.parametrize("content", ["", "{}", '{"format": "other/2", "runs": []}'])
def test_other_files_are_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "a.json"
    file.write_text(content, encoding="utf-8")

    with pytest.raises(ConfigError, match="bench: "):
        results.read_runs(file)


def test_lines_hold_one_reply_each_with_its_load(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"

    results.write_lines(file, [run_at(1), run_at(2)])

    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [line["rate"] for line in lines] == [1] * 10 + [2] * 10
    assert lines[0]["audible"] == 0.05


def test_drawing_has_a_dot_for_each_load_and_percentile() -> None:
    swept = points([(run.order.load.rate, run.summary) for run in map(run_at, (1, 2, 4))])

    tree = ElementTree.fromstring(chart(swept, title="a < b", unit="replies/s"))

    assert len(tree.findall(f".//{SVG}circle")) == 6
    assert "a < b" in [each.text for each in tree.findall(f"{SVG}text")]


def test_higher_figures_are_drawn_higher() -> None:
    runs = [run_at(1, p95=0.05), run_at(2, p95=0.09, dry=5)]
    swept = points([(run.order.load.rate, run.summary) for run in runs])

    tree = ElementTree.fromstring(chart(swept, title="", unit=""))

    low, high = (float(dot.get("cy", 0)) for dot in tree.findall(f".//{SVG}circle")[-2:])
    bars = [float(bar.get("height", 0)) for bar in tree.findall(f"{SVG}rect")[1:]]
    assert high < low
    assert bars[0] == 0 < bars[1]


def test_page_shows_the_command_that_measured_it() -> None:
    page = tables.page([run_at(1)], ["--rps", "1", "--voice", "<b>"])

    assert "playhead bench --rps 1 --voice &lt;b&gt;" in page
    assert "<svg" in page


def test_table_shows_figures_and_leaves_out_what_is_unknown() -> None:
    console = Console(file=io.StringIO(), width=120)

    tables.show(console, [run_at(1, dry=3)])

    printed = console.file.getvalue()  # type: ignore[attr-defined]  # a StringIO
    assert "50.0 / 50.0 / 50.0" in printed
    assert "10 complete" in printed
    assert "$ per 1M" not in printed


def test_differences_say_whether_they_are_real() -> None:
    console = Console(file=io.StringIO(), width=120)
    a, b = ([reply(n, audible=at) for n in range(20)] for at in (0.05, 0.2))

    tables.show_differences(console, compare(a, b, None, seed=0))

    (line,) = (
        line
        for line in console.file.getvalue().splitlines()  # type: ignore[attr-defined]
        if "audible p95" in line
    )
    assert "150.0" in line and "yes" in line
