"""`playhead serve` as a process: it says where it is, when it can speak, and ends when told."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.config import Config, GatewayConfig, OpusConfig, read
from gateway.serve import described
from tests.waiting import LIMIT

FAKE = Path(__file__).resolve().parents[2] / "configs" / "fake.toml"
LONG = "A sentence that takes a while to say. " * 250

pytestmark = pytest.mark.slow


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A server that has said where it listens, and its port."""
    command = [sys.executable, "-m", "gateway", "--config", str(FAKE), "--port", "0"]
    with running([*command, *arguments]) as process:
        first = process.stdout.readline()
        match = re.fullmatch(r"playhead listening on http://127\.0\.0\.1:(\d+)\n", first)
        assert match, first + process.stderr.read()
        yield process, int(match[1])


@contextmanager
def running(command: Sequence[str]) -> Iterator[Any]:
    """A process whose output is read here; killed at the end if it still runs."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def changed(*lines: str) -> Iterator[tuple[Any, int]]:
    """A server that can speak, with parts of it replaced by lines of Python; and its port."""
    serve = f"sys.exit(cli.main(['serve', '--config', {str(FAKE)!r}, '--port', '0']))"
    script = "\n".join(["import sys; from gateway import cli", *lines, serve])
    with running([sys.executable, "-c", script]) as process:
        port = int(process.stdout.readline().rpartition(":")[2])
        process.stdout.readline()
        yield process, port


@contextmanager
def speaking(port: int, text: str) -> Iterator[http.client.HTTPResponse]:
    """The answer to a request for PCM, as it begins."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)) as connection:
        body = json.dumps({"input": text, "response_format": "pcm"})
        connection.request("POST", "/v1/audio/speech", body)
        with connection.getresponse() as answer:
            yield answer


def test_serve_speaks_and_ends_on_sigterm() -> None:
    with serving() as (process, port):
        ready = process.stdout.readline()
        with speaking(port, "Hello there.") as answer:
            pcm = answer.read()
        process.send_signal(signal.SIGTERM)

        assert process.wait(LIMIT) == 0
        assert ready.startswith("playhead ready: tone")
        assert answer.status == 200
        assert len(pcm) >= 3_840 and len(pcm) % 2 == 0


def test_what_is_being_spoken_ends_before_the_server_does() -> None:
    with serving("--set", f"gateway.drain={LIMIT}") as (process, port):
        process.stdout.readline()
        with speaking(port, LONG[:400]) as answer:
            whole = len(answer.read())
        with speaking(port, LONG[:400]) as answer:
            process.send_signal(signal.SIGTERM)

            assert len(answer.read()) == whole
        assert process.wait(LIMIT) == 0


def test_drain_has_an_end() -> None:
    with serving("--set", "gateway.drain=0.2") as (process, port):
        process.stdout.readline()
        with speaking(port, LONG) as answer:
            process.send_signal(signal.SIGTERM)

            process.wait(LIMIT)
            with pytest.raises((http.client.IncompleteRead, ConnectionError)):
                answer.read()


def test_an_engine_that_cannot_start_ends_the_server_with_its_reason() -> None:
    with serving("--checkpoint", "./nowhere") as (process, _):
        process.wait(LIMIT)

        assert process.returncode == 1
        assert "playhead: checkpoint: want `embedded`" in process.stderr.read()


def test_an_engine_that_is_lost_ends_the_server_so_that_a_new_one_can_start() -> None:
    lines = (
        "from engine.silent import SilentStages",
        "launch = SilentStages.launch",
        "def lose(stages, batch, after=()):",
        "    if any(work.utterance.options.voice == 'poison' for work in batch.works):",
        "        raise RuntimeError('the card fell off the bus')",
        "    return launch(stages, batch, after)",
        "SilentStages.launch = lose",
    )
    with changed(*lines) as (process, port):
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)) as connection:
            body = json.dumps({"input": "Hello.", "voice": "poison", "response_format": "pcm"})
            connection.request("POST", "/v1/audio/speech", body)
            status = connection.getresponse().status
        _, log = process.communicate(timeout=LIMIT)

    assert status == 503
    assert process.returncode == 1
    assert "playhead: the engine is lost" in log
    assert "the card fell off the bus" in log


def test_beyond_this_machine_the_log_asks_for_https_and_tokens() -> None:
    command = [sys.executable, "-m", "gateway", "--config", str(FAKE)]
    arguments = ["--port", "0", "--host", "0.0.0.0", "--set", "gateway.log_format=json"]
    with running([*command, *arguments]) as process:
        lines = [process.stdout.readline() for _ in range(2)]
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=LIMIT)

    assert lines[0].startswith("playhead listening on http://localhost:")
    events = [json.loads(line)["event"] for line in log.splitlines()]
    assert sum(event.startswith("public:") for event in events) == 2


def test_without_libopus_serve_starts_and_offers_pcm() -> None:
    without = "opus._candidates = lambda library: iter(())"
    with changed("from gateway.sound import opus", without) as (process, port):
        with speaking(port, "Hello.") as answer:
            pcm = answer.read()
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=LIMIT)

    assert answer.status == 200 and pcm
    assert log.count("no libopus found") == 1


def test_tokens_are_not_logged() -> None:
    config = Config(read(None, []).engine, GatewayConfig(tokens=("secret",), opus=OpusConfig()))

    assert "secret" not in described(config)
    assert "tokens=('…',)" in described(config)
