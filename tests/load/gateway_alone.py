"""The gateway alone: what it adds to the first sound, what a listener costs, how late its loop is.

    python -m tests.load.gateway_alone --case opus:25 --case opus:50 --case opus:100 --case pcm:250

Starts an engine of tones and a gateway as two processes, measures the engine alone and then
`playhead bench` through the gateway at the same number of listeners; added = the difference of the
percentiles. Wants a machine on which nothing else runs.
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

from tests.serving import serving

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "configs" / "bench.toml"
PLAYHEAD = (sys.executable, "-m", "gateway.cli")
COLUMNS = (
    *("listeners", "first p50", "p95", "alone p50", "p95", "added p50", "p95"),
    *("core %/listener", "/health p99", "dry", "void"),
)


def main(arguments: Sequence[str]) -> int:
    """Print a Markdown table, times in ms."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", action="append", metavar="CODEC:LISTENERS", required=True)
    parser.add_argument("--warmup", type=float, default=15.0)
    parser.add_argument("--duration", type=float, default=60.0)
    parser.add_argument("--processes", type=int, default=1, help="that make the load")
    parser.add_argument("--no-acks", action="store_true", help="listeners that report nothing")
    options = parser.parse_args(arguments)
    print("| " + " | ".join(COLUMNS) + " |")
    print("|" + "---|" * len(COLUMNS))
    for case in options.case:
        print("| " + " | ".join(_case(case, options)) + " |", flush=True)
    return 0


def _case(case: str, options: argparse.Namespace) -> list[str]:
    codec, _, listeners = case.partition(":")
    with tempfile.TemporaryDirectory() as folder, _engine(f"unix:{folder}/engine") as address:
        alone = _alone(address, listeners, options)
        through = ["--config", str(CONFIG), "--set", f'gateway.engine="{address}"']
        with serving(PLAYHEAD, through) as url:
            run = _bench(url, codec, listeners, options, Path(folder) / "run.json")
    summary, server = run["summary"], run["server"]
    first = summary["audible"]
    added = [first[name] - alone[name] for name in ("p50", "p95")]
    core = 100 * server["cpu"] / int(listeners)
    times = (first["p50"], first["p95"], alone["p50"], alone["p95"], *added)
    return [
        f"{listeners} {codec}",
        *(f"{1000 * value:.1f}" for value in times),
        f"{core:.2f}",
        f"{1000 * server['loop_lag']['p99']:.1f}",
        f"{summary['underrun_replies']}",
        summary["void"] or "no",
    ]


@contextmanager
def _engine(address: str) -> Iterator[str]:
    """An engine process; clients wait until it answers."""
    command = [sys.executable, "-m", "engine", "--config", str(CONFIG), "--listen", address]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        yield address
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
    url: str, codec: str, listeners: str, options: argparse.Namespace, out: Path
) -> dict[str, Any]:
    command = [
        *(*PLAYHEAD, "bench", "--url", url, "--transport", "voice", "--codec", codec),
        *("--concurrency", listeners, "--processes", str(options.processes)),
        *("--warmup", str(options.warmup), "--duration", str(options.duration)),
        *("--out", str(out), *(["--no-acks"] if options.no_acks else [])),
    ]
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (run,) = json.loads(out.read_text(encoding="utf-8"))["runs"]
    found: dict[str, Any] = run
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
