"""Everything that a GPU has to show, in one run with a time limit and one folder of results.

    python -m tests.gpu_report --out report

Each step is a command of its own with a limit of its own; what it prints is kept in `NAME.txt`,
and `report.json` says how each ended. A step that fails or takes too long costs only itself. What
matters most comes first; what the time does not suffice for is named. `end_to_end` ends with 3 if
the load generator itself was late. `--rehearse` runs the same commands with tones on a machine
without a GPU, `--dry-run` only shows them.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = (  # all that run on a device if there is one; the longest last
    *("test_overlap.py", "test_kernel_stages.py", "test_deterministic_kernels.py"),
    *("test_cuda_bf16.py", "test_graphs.py"),
    *("test_memory.py", "test_codec_cuda_stage.py", "test_codec_gpu.py", "test_kernels.py"),
    "test_codec_kernels.py",
)
PLAIN = (  # a machine lent for its GPU may lack the plugins that this project's settings name
    *("-c", os.devnull, "--rootdir=.", "--import-mode=importlib", "-p", "no:cacheprovider"),
    *("-W", "ignore::pytest.PytestUnknownMarkWarning"),
    *(() if find_spec("hypothesis") else ("--noconftest",)),
)
LIMIT = 570.0  # s for everything: what matters, up to the tests, has its whole time in it
SHORTEST = 5.0  # s: no step is begun with less left
GRACE = 5.0  # s from SIGTERM to SIGKILL
SMI = ("nvidia-smi", "--query-gpu=timestamp,utilization.gpu,memory.used,power.draw")


@dataclass(frozen=True, slots=True)
class Step:
    """One command, run by this interpreter."""

    name: str
    limit: float  # s
    arguments: Sequence[str]
    rehearsable: bool = True  # it runs without a GPU, too


@dataclass(frozen=True, slots=True)
class Result:
    """How a step ended."""

    name: str
    command: str
    status: int | None  # None: not run, or cut off
    seconds: float
    words: str


def steps(out: Path, *, rehearse: bool) -> list[Step]:
    """List the steps, what matters most first."""
    checkpoint = "silent" if rehearse else "random:1.7b"
    config = "configs/fake.toml" if rehearse else "configs/h200.toml"
    rows = "1,2" if rehearse else "1,2,4,8,16,32,64,128"
    model = ("--set", f"engine.model.checkpoint={checkpoint}")
    costs = str(out / "costs.toml")
    seconds = "2" if rehearse else "6"
    loads = "1,4" if rehearse else "1,20,60,100,150"
    bench = ("--json", str(out / "stages.json"), "--write-costs", costs)
    small = ("--http", "1,4", "--voice", "4", "--seconds", "2", "--processes", "1")
    drive = ("-m", "engine.tools.drive", "--checkpoint", checkpoint)
    again = ("--rps", "1,4" if rehearse else "1,20,100", "--seconds", "1" if rehearse else "3")
    return [
        Step("doctor", 30, ("-m", "engine.doctor", "--config", config, *model)),
        Step(  # the first to compile the kernels: 100 s on a fresh machine
            "stages",
            180,
            (
                *("-m", "engine.bench", "--checkpoint", checkpoint, "--rows", rows),
                *("--tokens", "16,64,200", *bench),
            ),
        ),
        Step(
            "end_to_end",
            160,
            (
                *("-m", "tests.load.end_to_end", "--config", config, "--checkpoint", checkpoint),
                *("--out", str(out), *(small if rehearse else ())),
            ),
        ),
        Step(
            "drive",
            70,
            (*drive, "--rps", loads, "--seconds", seconds, "--json", str(out / "drive.json")),
        ),
        Step(
            "tests",
            130,
            ("-m", "pytest", "-rs", *PLAIN, *(f"tests/engine/{each}" for each in TESTS)),
        ),
        Step("profile", 45, (*drive, *again, "--profile", "--json", str(out / "profile.json"))),
        Step(
            "one_stream",
            45,
            (*drive, *again, "--overlap", "off", "--json", str(out / "one_stream.json")),
        ),
        Step(
            "simulate",
            30,
            (
                *("-m", "engine.tools.simulate", "--costs", costs, "--policy", "open"),
                *("--sweep", loads, "--duration", seconds, "--streams", "3"),
            ),
        ),
        Step("steps", 40, ("-m", "engine.stages.step_time"), rehearsable=False),
        Step("codec", 60, ("-m", "engine.kernels.codec_bench"), rehearsable=False),
        Step("tiles", 300, ("-m", "engine.kernels.codec_tune", str(out)), rehearsable=False),
    ]


def run(step: Step, out: Path, limit: float) -> Result:
    """Run a step for at most `limit` s; it and all that it started have ended afterwards."""
    command = [sys.executable, *step.arguments]
    shown = shlex.join(["python", *step.arguments])
    began = time.monotonic()
    with (out / f"{step.name}.txt").open("w", encoding="utf-8") as printed:
        print("$", shown, file=printed, flush=True)
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=printed, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            status: int | None = process.wait(limit)
            words = "good" if status == 0 else f"ended with {status}"
        except subprocess.TimeoutExpired:
            status, words = None, f"cut off after {limit:.0f} s"
        finally:
            _end(process)
    return Result(step.name, shown, status, round(time.monotonic() - began, 1), words)


def report(plan: Sequence[Step], out: Path, *, limit: float) -> list[Result]:
    """Run the steps one by one within `limit` s and keep `report.json` up to date."""
    until = time.monotonic() + limit
    results: list[Result] = []
    for step in plan:
        left = until - time.monotonic()
        if left < SHORTEST:
            shown = shlex.join(["python", *step.arguments])
            results.append(Result(step.name, shown, None, 0.0, "no time left"))
        else:
            results.append(run(step, out, min(step.limit, left)))
        print(
            f"{results[-1].name:<12}{results[-1].seconds:6.1f} s  {results[-1].words}", flush=True
        )
        text = json.dumps([asdict(each) for each in results], indent=1)
        (out / "report.json").write_text(text, encoding="utf-8")
    return results


def main(arguments: Sequence[str]) -> int:
    """Run every step; 0 if all were good."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu_report", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder; made if need be")
    parser.add_argument("--limit", type=float, default=LIMIT, help="s for everything")
    parser.add_argument("--only", metavar="NAMES", help="such as stages,tests")
    parser.add_argument("--rehearse", action="store_true", help="tones, and no GPU")
    parser.add_argument("--dry-run", action="store_true", help="show the commands")
    options = parser.parse_args(arguments)
    out: Path = options.out.resolve()
    plan = [
        step
        for step in steps(out, rehearse=options.rehearse)
        if (step.rehearsable or not options.rehearse)
        and (not options.only or step.name in options.only.split(","))
    ]
    if options.dry_run:
        for step in plan:
            print(f"{step.name:<12}{step.limit:4.0f} s  python {shlex.join(step.arguments)}")
        return 0
    out.mkdir(parents=True, exist_ok=True)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    with _watched(out / "gpu.csv"):
        results = report(plan, out, limit=options.limit)
    return int(any(each.status != 0 for each in results))


@contextmanager
def _watched(path: Path) -> Iterator[None]:
    """Keep utilisation, memory and power of the GPU, once a second, where that can be asked."""
    if shutil.which(SMI[0]) is None:
        yield
        return
    with path.open("w", encoding="utf-8") as lines:
        process = subprocess.Popen([*SMI, "--format=csv", "-l", "1"], stdout=lines)
        try:
            yield
        finally:
            process.terminate()
            process.wait()


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the step's own process group: servers that it started must not outlive it."""
    for number, grace in ((signal.SIGTERM, GRACE), (signal.SIGKILL, GRACE)):
        try:
            os.killpg(process.pid, number)
            process.wait(grace)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
