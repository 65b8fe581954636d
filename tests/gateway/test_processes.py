"""Several processes of one server: one port, one engine, one limit, one end."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPResponse
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from engine.api import ConfigError
from gateway.config import read
from gateway.seats import Seats
from tests.waiting import LIMIT, until

FAKE = Path(__file__).resolve().parents[2] / "configs" / "fake.toml"
PROCESSES = 2

slow = pytest.mark.slow


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[str]:
    """The address of an engine process of tones."""
    address = f"unix:{tmp_path}/engine"
    command = [sys.executable, "-m", "engine", "--config", str(FAKE), "--listen", address]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        yield address
        process.kill()


@contextmanager
def starting(engine: str, *settings: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server in several processes that has said where it listens, and its address."""
    options = ["--port", "0", "--processes", str(PROCESSES), "--set", f"gateway.engine={engine}"]
    command = [sys.executable, "-m", "gateway", *options, *(f"--set={each}" for each in settings)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        try:
            yield process, process.stdout.readline().split()[-1]
        finally:
            process.kill()


@contextmanager
def serving(engine: str, *settings: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The same, ready."""
    with starting(engine, *settings) as (process, url):
        assert process.stdout
        assert process.stdout.readline().startswith("playhead ready: tone")
        yield process, url


def workers(process: subprocess.Popen[str]) -> list[int]:
    """Process ids of those that serve."""
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(pid) for pid in listed.split()]


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def spoken(url: str) -> int:
    """Bytes of sound of one reply."""
    with request(url, "Hello there.") as answer:
        return len(answer.read())


def request(url: str, text: str) -> HTTPResponse:
    """The answer to a request for PCM, as it begins."""
    body = json.dumps({"input": text, "response_format": "pcm"}).encode()
    asked = urllib.request.Request(f"{url}/v1/audio/speech", body)
    answer: HTTPResponse = urllib.request.urlopen(asked, timeout=LIMIT)
    return answer


def refused(host: str, port: int) -> bool:
    """Whether nobody listens there any more."""
    with socket.socket() as caller:
        return caller.connect_ex((host, port)) == errno.ECONNREFUSED


@slow
def test_every_process_speaks_and_all_end_on_sigterm(engine: str) -> None:
    with serving(engine) as (process, url):
        serve = workers(process)
        replies = [spoken(url) for _ in range(8)]
        process.send_signal(signal.SIGTERM)
        status = process.wait(LIMIT)

    assert len(serve) == PROCESSES
    assert min(replies) >= 3_840
    assert status == 0
    assert all(map(gone, serve))


@slow
def test_limits_of_sessions_hold_for_all_processes_together(engine: str) -> None:
    statuses = []
    with serving(engine, "gateway.limits.sessions=1") as (_, url):
        voice = url.replace("http", "ws") + "/v1/voice"
        with connect(voice):
            for _ in range(8):
                with pytest.raises(InvalidStatus) as refusal, connect(voice):
                    pass
                statuses.append(refusal.value.response.status_code)

    assert statuses == [503] * 8


@slow
def test_if_one_process_dies_all_end(engine: str) -> None:
    with serving(engine) as (process, _):
        one, other = workers(process)
        os.kill(one, signal.SIGKILL)
        status = process.wait(LIMIT)

    assert status == 1
    asyncio.run(until(lambda: gone(other)))


@slow
def test_if_one_process_dies_before_the_others_are_ready_all_end(tmp_path: Path) -> None:
    with starting(f"unix:{tmp_path}/nobody") as (process, _):
        asyncio.run(until(lambda: len(workers(process)) == PROCESSES))
        one, other = workers(process)
        os.kill(other, signal.SIGKILL)
        status = process.wait(LIMIT)

    assert status == 1
    assert gone(one)


@slow
def test_nobody_is_let_in_while_what_is_spoken_ends(engine: str) -> None:
    with serving(engine) as (process, url):
        host, port = url.removeprefix("http://").split(":")
        with request(url, "A sentence that takes a while to say. " * 250) as answer:
            answer.read(1)
            process.send_signal(signal.SIGTERM)
            asyncio.run(until(lambda: refused(host, int(port))))

            assert process.poll() is None


@slow
def test_sigterm_to_everybody_lets_what_is_spoken_end(engine: str) -> None:
    with serving(engine, "gateway.drain=1") as (process, url):
        serve = workers(process)
        host, port = url.removeprefix("http://").split(":")
        with request(url, "A sentence that takes a while to say. " * 250) as answer:
            answer.read(1)
            process.send_signal(signal.SIGTERM)
            asyncio.run(until(lambda: refused(host, int(port))))
            for each in serve:
                if not gone(each):
                    os.kill(each, signal.SIGTERM)  # as systemd does, to a whole control group
            status = process.wait(LIMIT)

    assert status == 0


@slow
def test_all_end_if_nobody_reads_what_the_parent_says(engine: str) -> None:
    with starting(engine) as (process, _):
        assert process.stdout
        process.stdout.close()
        status = process.wait(LIMIT)

    assert status == 1


@slow
def test_processes_do_not_outlive_their_parent(engine: str) -> None:
    with serving(engine) as (process, _):
        serve = workers(process)
        process.kill()
        process.wait(LIMIT)

        asyncio.run(until(lambda: all(map(gone, serve))))


@slow
def test_a_second_server_does_not_share_the_port(engine: str) -> None:
    with serving(engine) as (_, url):
        port = url.rpartition(":")[2]
        options = ["--port", port, "--processes", "2", "--set", f"gateway.engine={engine}"]
        second = subprocess.run(
            [sys.executable, "-m", "gateway", *options], capture_output=True, text=True
        )

    assert second.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}" in second.stderr


def test_several_processes_need_an_engine_to_share() -> None:
    with pytest.raises(ConfigError, match="playhead engine"):
        read(None, ["gateway.processes=2"])


def test_seats_are_counted_in_all_processes() -> None:
    seats = Seats(processes=2, each=3)
    with ExitStack() as held:
        held.enter_context(seats.take("ada"))
        seats.choose_row(1)
        held.enter_context(seats.take("ada"))
        held.enter_context(seats.take("bob"))

        assert (seats.taken(), seats.taken_by("ada"), seats.taken_by("eve")) == (3, 2, 0)

    assert (seats.taken(), seats.taken_by("ada")) == (0, 0)
