"""`playhead bench` from outside, against real servers on this machine, in real time."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.bench.arrivals import Habits, Plan
from gateway.bench.command import VOID
from gateway.bench.http_speech import HttpListener
from gateway.bench.target import Target
from tests.gateway.bench.scripted import END, HEAD, chunk
from tests.gateway.bench.sounds_made import silence, sine
from tests.serving import serving
from tests.waiting import LIMIT, until

ROOT = Path(__file__).resolve().parents[3]
HERE = f"import sys; sys.path.insert(0, {str(ROOT)!r}); "  # the checkout, installed or not
PLAYHEAD = (sys.executable, "-c", f"{HERE}from gateway.cli import main; sys.exit(main())")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A real server whose engine makes tones."""
    with serving(PLAYHEAD, ["--config", str(ROOT / "configs" / "fake.toml")]) as url:
        yield url


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PLAYHEAD, "bench", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=2 * LIMIT,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        "--rps 5",
        "--rps 5 --codec opus --processes 2",
        "--transport voice --concurrency 3 --barge-in 0.5 --codec opus",
        "--transport voice --rps 2 --network wan40 --words-per-second 20",
        "--concurrency 2 --soak",
    ],
)
def test_measures_a_real_server(server: str, tmp_path: Path, arguments: str) -> None:
    out = tmp_path / "run.json"
    common = f"--url {server} --warmup 0 --duration 2 --out {out}"

    began = time.monotonic()
    done = bench(*common.split(), *arguments.split())
    took = time.monotonic() - began

    assert done.returncode in (0, VOID), done.stderr  # a busy machine may be late: it says so
    (run,) = json.loads(out.read_text(encoding="utf-8"))["runs"]
    outcomes = run["summary"]["outcomes"]
    assert outcomes.get("complete", 0) + outcomes.get("cancelled", 0) > 0
    assert not outcomes.get("failed")
    assert 0 < run["summary"]["audible"]["p50"] < took
    assert (run["server"]["cpu"] or 0.0) >= 0  # None: too busy a machine to look twice in 2 s
    assert (done.returncode == VOID) == bool(run["summary"]["void"])


def test_sweep_says_what_is_borne_and_draws_it(server: str, tmp_path: Path) -> None:
    plot = tmp_path / "sweep.html"
    common = f"--url {server} --warmup 0 --duration 2 --sweep 2,4 --plot {plot}"

    done = bench(*common.split())

    assert "borne" in done.stdout, done.stderr
    assert plot.read_text(encoding="utf-8").count("<circle") == 4


def test_two_files_are_compared(server: str, tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in ("a.json", "b.json")]
    for file in files:
        bench(*f"--url {server} --warmup 0 --duration 2 --rps 4 --out {file}".split())

    done = bench("--compare", *files)

    assert done.returncode == 0, done.stderr
    assert "audible p95" in done.stdout


def test_server_that_is_away_gives_a_void_run_not_a_crash() -> None:
    done = bench("--url", "http://127.0.0.1:9", "--warmup", "0", "--duration", "1", "--rps", "5")

    assert done.returncode == VOID
    assert "connect" in done.stdout


def test_wrong_texts_are_said_before_anything_starts() -> None:
    done = bench("--texts", "nowhere")

    assert done.returncode == 2
    assert "--texts" in done.stderr


async def test_figures_of_a_server_in_real_time_hold_nothing_but_its_delays() -> None:
    """A server that writes down when it sends. A busy machine may read late, never too early."""
    sent: list[float] = []
    read: list[float] = []
    pieces = [silence(0.1), silence(0.1) + sine(0.1), sine(0.1)]

    def clock() -> float:
        read.append(time.monotonic())
        return read[-1]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"}")
        writer.write(HEAD)
        for piece, delay in zip(pieces, (0.05, 0.05, 0.4), strict=True):
            await asyncio.sleep(delay)
            sent.append(time.monotonic())
            writer.write(chunk(piece))
            await until(lambda: len(read) > len(sent))  # each piece is one read
        writer.write(END)
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with listening:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        listener = HttpListener(Target(url=url), Habits(), clock=clock)
        take = await listener.speak("Hello.", Plan())
        await listener.close()

    reply = take.reply(number=0, due=0.0, lag=None, characters=6)
    asked, *arrived = read[:4]
    first, second, third = (at - asked for at in arrived)
    gaps = (max(0.0, second - first - 0.1), max(0.0, third - max(first + 0.1, second) - 0.2))
    assert all(before <= at for before, at in zip(sent, arrived, strict=True))
    assert reply.first_playable == first
    assert reply.audible == pytest.approx(first + 0.19 + gaps[0])  # the first loud window
    assert reply.underruns == sum(gap > 0 for gap in gaps) > 0
    assert reply.dry == pytest.approx(sum(gaps))
