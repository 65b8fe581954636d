"""`playhead doctor`: can this machine serve? One line per thing, with what to do about it."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence

from engine.api import ConfigError
from gateway.address import bind
from gateway.config import GatewayConfig
from gateway.options import add_configuration, configured, overrides
from gateway.sound import opus


def main(arguments: Sequence[str]) -> int:
    """Print what the gateway needs, then what the engine needs; 0 if serving is possible."""
    parser = argparse.ArgumentParser(prog="playhead doctor", description=__doc__)
    add_configuration(parser)
    options = parser.parse_args(arguments)
    config = configured(options).gateway
    findings = [port(config), libopus(config)]
    for level, thing, words in findings:
        print(f"{level:<5}{thing:<12}{words}", flush=True)
    failed = any(level == "fail" for level, _, _ in findings)
    if config.engine == "local":
        failed |= bool(subprocess.call(_engine_doctor(options)))
    return int(failed)


def port(config: GatewayConfig) -> tuple[str, str, str]:
    """Whether the port is free."""
    try:
        bind(config.host, config.port).close()
    except ConfigError as error:
        return "fail", "port", str(error).removeprefix("serve: ")
    return "ok", "port", f"{config.host}:{config.port} is free"


def libopus(config: GatewayConfig) -> tuple[str, str, str]:
    """Which libopus; without one only PCM is offered, at twelve times the bytes."""
    reason = opus.available(config.opus.library)
    if reason:
        return "warn", "libopus", f"{reason.removeprefix('opus: ')}; until then only PCM is offered"
    return "ok", "libopus", opus.description()


def _engine_doctor(options: argparse.Namespace) -> list[str]:
    command = [sys.executable, "-m", "engine.doctor"]
    if options.config:
        command += ["--config", str(options.config)]
    for override in overrides(options):
        command += ["--set", override]
    return command
