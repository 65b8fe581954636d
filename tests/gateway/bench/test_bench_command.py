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
        [*PLAYHEAD, "bench", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=90
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

    done = bench(*common.split(), *arguments.split())

    assert done.returncode in (0, VOID), done.stderr  # a busy machine may be late: it says so
    (run,) = json.loads(out.read_text(encoding="utf-8"))["runs"]
    outcomes = run["summary"]["outcomes"]
    assert outcomes.get("complete", 0) + outcomes.get("cancelled", 0) > 0
    assert not outcomes.get("failed")
    assert 0 < run["summary"]["audible"]["p50"] < 5
    assert run["server"]["cpu"] >= 0
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


async def test_delays_of_a_server_in_real_time_are_measured_to_10_ms() -> None:
    """A server that writes down when it sends; nothing but this machine's loopback is between."""
    sent: list[float] = []
    pieces = [silence(0.1), silence(0.1) + sine(0.1), sine(0.1)]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"}")
        writer.write(HEAD)
        for piece, delay in zip(pieces, (0.05, 0.05, 0.4), strict=True):
            await asyncio.sleep(delay)
            sent.append(time.monotonic())
            writer.write(chunk(piece))
            await writer.drain()
        writer.write(END)
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with listening:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        listener = HttpListener(Target(url=url), Habits(), clock=time.monotonic)
        take = await listener.speak("Hello.", Plan())
        await listener.close()

    reply = take.reply(number=0, due=0.0, lag=None, characters=6)
    started = sent[0] - take.t0
    dry = sent[2] - (sent[0] + 0.3)
    assert reply.first_playable == pytest.approx(started, abs=0.010)
    assert reply.audible == pytest.approx(started + 0.19, abs=0.010)  # the first loud window
    assert reply.underruns == 1
    assert reply.dry == pytest.approx(dry, abs=0.010)
