"""The gateway alone: what it adds to the first sound, what a listener costs, how late loops are.

    python -m tests.load.gateway_alone --case opus:25 --case opus:50 --case opus:100 --case pcm:250

Starts an engine of tones and a gateway as two processes, measures the engine alone and then
`playhead bench` through the gateway at the same number of listeners; added = the difference of the
percentiles. Processor time is the milliseconds a second that one listener takes of each process.
Wants a machine on which nothing else runs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gateway.bench.figures import LAG_LIMIT
from gateway.bench.server_watch import processes_on
from tests.load.processor_time import watch_until_end
from tests.serving import serving

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "configs" / "bench.toml"
SETTLED = 2.0  # s that `playhead bench` takes to start, amply
PLAYHEAD = (sys.executable, "-m", "gateway.cli")
COLUMNS = (
    *("listeners", "first p50", "p95", "alone p50", "p95", "added p50", "p95"),
    *("engine", "gateway", "load", "/health p99", "load's lag p95", "dry", "void"),
)


def main(arguments: Sequence[str]) -> int:
    """Print a Markdown table, times in ms."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", action="append", metavar="CODEC:LISTENERS", required=True)
    parser.add_argument("--warmup", type=float, default=15.0)
    parser.add_argument("--duration", type=float, default=60.0)
    parser.add_argument("--processes", type=int, default=1, help="that make the load")
    parser.add_argument("--no-acks", action="store_true", help="listeners that report nothing")
    parser.add_argument("--serve", action="append", default=[], metavar="TABLE.KEY=VALUE")
    options = parser.parse_args(arguments)
    print("| " + " | ".join(COLUMNS) + " |")
    print("|" + "---|" * len(COLUMNS))
    for case in options.case:
        print("| " + " | ".join(_case(case, options)) + " |", flush=True)
    return 0


def _case(case: str, options: argparse.Namespace) -> list[str]:
    codec, _, listeners = case.partition(":")
    with tempfile.TemporaryDirectory() as folder, _engine(f"unix:{folder}/engine") as engine:
        address, engine_pid = engine
        alone = _alone(address, listeners, options)
        settings = [f'gateway.engine="{address}"', *options.serve]
        through = ["--config", str(CONFIG), *(f"--set={each}" for each in settings)]
        with serving(PLAYHEAD, through) as url:
            out = Path(folder) / "run.json"
            run, cores = _bench(url, engine_pid, codec, listeners, options, out)
    summary, lag = run["summary"], run["server"]["loop_lag"]
    first = summary["audible"]
    added = [first[name] - alone[name] for name in ("p50", "p95")]
    times = (first["p50"], first["p95"], alone["p50"], alone["p95"], *added)
    return [
        f"{listeners} {codec}",
        *(f"{1000 * value:.1f}" for value in times),
        *(f"{1000 * cores[name] / int(listeners):.2f}" for name in ("engine", "gateway", "load")),
        *(f"{1000 * value:.1f}" for value in (lag["p99"], summary["loop_lag"])),
        f"{summary['underrun_replies']}",
        summary["void"] or _void(alone),
    ]


def _void(alone: dict[str, float]) -> str:
    """A control that was late would flatter the gateway."""
    late = alone["lag"] > LAG_LIMIT
    return f"the control was late: p95 {1000 * alone['lag']:.1f} ms" if late else "no"


@contextmanager
def _engine(address: str) -> Iterator[tuple[str, int]]:
    """An engine process; clients wait until it answers. Gives its address and process id."""
    command = [sys.executable, "-m", "engine", "--config", str(CONFIG), "--listen", address]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        yield address, process.pid
    finally:
        process.terminate()
        process.wait(10)


def _alone(address: str, listeners: str, options: argparse.Namespace) -> dict[str, float]:
    command = [
        *(sys.executable, "-m", "tests.load.engine_alone", "--engine", address),
        *("--listeners", listeners, "--warmup", str(options.warmup)),
        *("--duration", str(options.duration)),
    ]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _bench(
    url: str, engine: int, codec: str, listeners: str, options: argparse.Namespace, out: Path
) -> tuple[dict[str, Any], dict[str, float]]:
    """One run's document, and the cores that engine, gateway and load kept busy."""
    command = [
        *(*PLAYHEAD, "bench", "--url", url, "--transport", "voice", "--codec", codec),
        *("--concurrency", listeners, "--processes", str(options.processes)),
        *("--warmup", str(options.warmup), "--duration", str(options.duration)),
        *("--out", str(out), *(["--no-acks"] if options.no_acks else [])),
    ]
    load = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    watched = {"engine": [engine], "gateway": processes_on(url), "load": [load.pid]}
    cores = watch_until_end(
        load, watched, start=options.warmup + SETTLED, end=options.warmup + options.duration
    )
    (run,) = json.loads(out.read_text(encoding="utf-8"))["runs"]
    return run, cores


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
