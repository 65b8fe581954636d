"""What a running engine did lately, left in a folder for whoever looks into a fault. Pure.

`trace.json` opens in Perfetto, `commands.jsonl` runs again in the simulator. Files are written in
small pieces, so that an engine with nothing to do can stop in the middle when somebody speaks.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import islice
from math import inf
from pathlib import Path

from engine.api import Command, ConfigError, Event
from engine.flights import Flight
from engine.trace import Recorder, Trace

logger = logging.getLogger(__name__)

COMMANDS = 100_000  # kept: three minutes of fifty listeners who report ten times a second
EVERY = 10.0  # s between two versions of the files
PIECES = 100  # written at a time: about a millisecond


class Watch:
    """An `Observer` that keeps the last minutes and writes them down.

    Args:
        folder: where the two files go; made if need be.
        commands: most commands kept.

    Raises: ConfigError if the folder cannot be made.
    """

    def __init__(self, folder: Path, *, commands: int = COMMANDS) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"`engine.trace`: cannot be a folder: {error}") from error
        self._folder = folder
        self.trace = Trace()
        self._recorder = Recorder(commands)
        self._news = False  # since the files were begun
        self._due = -inf  # s: when the files may be begun again
        self._writing: Iterator[None] = iter(())

    def command(self, command: Command, now: float) -> None:
        """A command is about to be applied."""
        self._news = True
        self.trace.command(command, now)
        self._recorder.command(command, now)

    def finished(self, flight: Flight, now: float) -> None:
        """A batch is over."""
        self._news = True
        self.trace.finished(flight, now)

    def event(self, event: Event, now: float) -> None:
        """An event was emitted."""
        self.trace.event(event, now)

    def turned(self, between: float, now: float) -> None:
        """One batch was settled and the next launched, in `between` s of the host's time."""
        self.trace.turned(between, now)

    def clear(self) -> None:
        """Forget what was seen so far: it was no listener's."""
        self.trace.clear()
        self._recorder.clear()
        self._news = False

    def write_some(self, now: float) -> bool:
        """Write a few pieces if there is news to write; return whether to come back for more."""
        try:
            if sum(1 for _ in islice(self._writing, PIECES)):
                return True
            if not self._news or now < self._due:
                return False
            self._news, self._due = False, now + EVERY
            self._writing = self._files()
        except OSError as error:
            self._failed(error)
        return True

    def write(self) -> None:
        """Write everything, at the end."""
        try:
            for _ in self._files():
                pass
        except OSError as error:
            self._failed(error)

    def _files(self) -> Iterator[None]:
        trace, commands = self.trace.pieces(), self._recorder.lines()  # both of this moment
        yield from _written(self._folder / "trace.json", trace)
        yield from _written(self._folder / "commands.jsonl", commands)

    def _failed(self, error: OSError) -> None:
        """A full disk must not end the engine."""
        logger.warning("trace_not_written folder=%s reason=%s", self._folder, error)
        self._writing = iter(())


def _written(path: Path, pieces: Iterator[str]) -> Iterator[None]:
    """Write a file piece by piece; under its name there is always a whole one."""
    part = path.with_name(f"{path.name}.part")
    with part.open("w", encoding="utf-8") as file:
        for piece in pieces:
            file.write(piece)
            yield
    part.replace(path)
