"""`playhead COMMAND`: a table of commands, each in a file of its own.

A command is imported when it is asked for, so that a mistake is answered before anything heavy is
loaded; what needs the engine's libraries runs as a process of its own.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from engine.api import ConfigError, EngineError


@dataclass(frozen=True, slots=True)
class Command:
    """A module with `main(arguments) -> exit status`."""

    module: str
    help: str


COMMANDS = {
    "serve": Command("gateway.serve", "speak to browsers and programs"),
    "say": Command("gateway.say", "let a running server speak a text into a file"),
    "bench": Command("gateway.bench.command", "what listeners of a server hear, under load"),
    "simulate": Command("engine.tools.simulate", "what listeners would hear, without a device"),
    "engine-bench": Command("engine.bench", "how long each stage takes on this device"),
    "doctor": Command("gateway.doctor", "what this machine lacks, and how to get it"),
    "engine": Command("engine", "one device on one address, for servers elsewhere"),
}
FAILED = 1
USAGE_ERROR = 2
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the result is the process's exit status."""
    name, *rest = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if name in ("-h", "--help"):
        print(usage())
        return 0
    if name not in COMMANDS:
        print(f"playhead: no command `{name}`\n{usage()}", file=sys.stderr)
        return USAGE_ERROR
    return _run(COMMANDS[name].module, rest)


def usage() -> str:
    """The table of commands."""
    lines = (f"  {name:<14}{command.help}" for name, command in COMMANDS.items())
    head = "usage: playhead COMMAND …; `playhead COMMAND --help` for its options"
    return "\n".join([head, *lines])


def _run(module: str, arguments: list[str]) -> int:
    try:
        if module.startswith("engine"):
            return _become(module, arguments)
        return int(importlib.import_module(module).main(arguments))
    except EngineError as error:
        print(f"playhead: {error}", file=sys.stderr)
        return USAGE_ERROR if isinstance(error, ConfigError) else FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


def _become(module: str, arguments: list[str]) -> NoReturn:
    """Go on as a command of the engine: a process between would take the signals meant for it."""
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])


if __name__ == "__main__":
    sys.exit(main())
