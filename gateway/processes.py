"""Several processes of one server: started together, ready together, ended together.

One event loop carries a few hundred listeners. The kernel spreads connections over processes that
listen on the same port (SO_REUSEPORT); the parent serves nobody, it only waits. If one process ends
by itself, all end: what restarts services restarts the whole.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TypeAlias

from engine.api import EngineError

FAILED = 1
Announce: TypeAlias = Callable[[str], None]
Serve: TypeAlias = Callable[[int, int, Announce], None]


def run(serve: Serve, count: int, *, forked: Callable[[], None], announce: Announce) -> int:
    """Run `serve` in `count` processes until told to stop; the result is the exit status.

    Args:
        serve: called in each process with its number, a descriptor that ends when the process is to
            stop, and a function to call once it is ready, with what there is to say then.
        forked: called here once all processes are there: what is theirs can be closed here.
        announce: called here, once, when all are ready.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # either ends the wait below
    lifeline, held = os.pipe()  # ends when this process closes it, or dies
    started: list[tuple[BaseProcess, Connection]] = []
    try:
        with suppress(EOFError, KeyboardInterrupt):  # one has ended; told to stop
            for number in range(count):
                started.append(_start(serve, number, lifeline, held))
            forked()
            _watch([ready for _, ready in started], announce)
    finally:  # after any error too: at exit, Python waits for the others to end
        os.close(held)
    return max(_joined([process for process, _ in started]), default=0)


def _watch(processes: list[Connection], announce: Announce) -> None:
    """Announce once that all are ready. Raises EOFError when a process ends, ready or not."""
    said: list[str] = []
    while True:
        wait(processes)
        for process in filter(Connection.poll, processes):
            said.append(process.recv())
            if len(said) == len(processes):
                announce(said[-1])


def _start(serve: Serve, number: int, lifeline: int, held: int) -> tuple[BaseProcess, Connection]:
    context = multiprocessing.get_context("fork")
    theirs, ours = context.Pipe(duplex=False)
    arguments = (serve, number, lifeline, held, ours)
    process = context.Process(target=_child, args=arguments, name=f"playhead-{number}")
    process.start()
    ours.close()
    return process, theirs


def _child(serve: Serve, number: int, lifeline: int, held: int, ready: Connection) -> None:
    os.close(held)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal tells everybody; the parent decides
    try:
        serve(number, lifeline, ready.send)
    except EngineError as error:
        print(f"playhead: {error}", file=sys.stderr)
        sys.exit(FAILED)


def _joined(processes: list[BaseProcess]) -> list[int]:
    """Wait for all to end; told a second time, wait no longer. Their exit statuses."""
    try:
        for process in processes:
            process.join()
    except KeyboardInterrupt:
        for process in processes:
            process.kill()
            process.join()
    return [FAILED if process.exitcode else 0 for process in processes]
