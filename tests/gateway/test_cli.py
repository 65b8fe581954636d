"""The command line: mistakes are answered at once, the port is taken before anything is loaded."""

from __future__ import annotations

import importlib.util
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from engine.api import ConfigError
from gateway import address, cli, doctor
from gateway.config import GatewayConfig
from gateway.sound import opus
from tests.waiting import LIMIT

FAKE = Path(__file__).resolve().parents[2] / "configs" / "fake.toml"


@pytest.fixture
def taken() -> Iterator[int]:
    """A port somebody listens on."""
    with closing(address.bind("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def playhead(*arguments: str, python: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *python, "-m", "gateway.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)


def test_without_a_command_the_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    status = cli.main([])

    assert status == 0
    printed = capsys.readouterr().out
    assert all(f"  {name} " in printed for name in cli.COMMANDS)


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_its_module(name: str) -> None:
    assert importlib.util.find_spec(cli.COMMANDS[name].module)


def test_an_unknown_command_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    status = cli.main(["sing"])

    assert status == 2
    assert "no command `sing`" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "gateway.prot=3"], "unknown key `prot`"),
        (["--port", "70000"], "`port`: want 0 to 65535, got: 70000"),
        (["--config", "nowhere.toml"], "nowhere.toml: cannot be read"),
    ],
)
def test_a_mistake_in_the_configuration_is_one_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = cli.main(["serve", *arguments])

    assert status == 2
    assert words in capsys.readouterr().err


@pytest.mark.slow
def test_a_taken_port_ends_serve_before_the_model_is_looked_for(taken: int) -> None:
    arguments = ("serve", "--port", str(taken), "--checkpoint", "./nowhere")

    done = playhead(*arguments, python=("-X", "importtime"))

    imported = set(re.findall(r"\| +(\w+)\n", done.stderr))
    assert "gateway" in imported
    assert not imported & {"aiohttp", "numpy", "torch"}  # what takes seconds
    assert done.returncode != 0
    assert f"127.0.0.1:{taken}" in done.stderr
    assert "nowhere" not in done.stderr


@pytest.mark.slow
def test_a_signal_for_an_engine_reaches_it(tmp_path: Path) -> None:
    path = tmp_path / "engine"
    options = ("--config", str(FAKE), "--listen", f"unix:{path}")
    command = [sys.executable, "-m", "gateway.cli", "engine", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        assert any("engine ready" in line for line in process.stderr)

        process.terminate()

        process.wait(LIMIT)
    with socket.socket(socket.AF_UNIX) as late, pytest.raises(OSError, match=r"No such|refused"):
        late.connect(str(path))


def test_a_taken_port_is_named(taken: int) -> None:
    with pytest.raises(ConfigError, match=rf"cannot listen on 127\.0\.0\.1:{taken}: Address"):
        address.bind("127.0.0.1", taken)


def test_an_unknown_host_is_named() -> None:
    with pytest.raises(ConfigError, match=r"cannot listen on no\.such\.host\.invalid:8000"):
        address.bind("no.such.host.invalid", 8000)


@pytest.mark.parametrize(
    ("host", "shown", "public"),
    [
        ("127.0.0.1", "http://127.0.0.1:", False),
        ("localhost", "http://127.0.0.1:", False),
        ("0.0.0.0", "http://localhost:", True),
    ],
)
def test_address_is_one_a_browser_can_open(host: str, shown: str, public: bool) -> None:
    with closing(address.bind(host, 0)) as listener:
        port = listener.getsockname()[1]

        assert address.url(listener) == f"{shown}{port}"
        assert address.is_public(listener) is public


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_an_ipv6_address_is_put_in_brackets() -> None:
    class Listener(socket.socket):
        def getsockname(self) -> tuple[str, int, int, int]:
            return ("::1", 8000, 0, 0)

    with closing(Listener()) as listener:
        assert address.url(listener) == "http://[::1]:8000"


def test_doctor_sees_a_taken_port(taken: int) -> None:
    level, _, words = doctor.port(GatewayConfig(port=taken))

    assert level == "fail"
    assert str(taken) in words


def test_doctor_serves_without_libopus_but_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opus, "available", lambda library: "opus: no libopus found; install it")

    level, _, words = doctor.libopus(GatewayConfig())

    assert level == "warn"
    assert words == "no libopus found; install it; until then only PCM is offered"


@pytest.mark.slow
def test_doctor_adds_what_the_engine_lacks(taken: int) -> None:
    good = playhead("doctor", "--port", "0", "--checkpoint", "silent")
    bad = playhead("doctor", "--port", str(taken), "--checkpoint", "./nowhere")

    assert good.returncode == 0, good.stdout + good.stderr
    assert "libopus" in good.stdout and "checkpoint" in good.stdout
    assert bad.returncode == 1
    assert bad.stdout.count("fail ") == 2
