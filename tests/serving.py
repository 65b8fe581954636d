"""Runs the real `playhead serve` for checks that stand outside it. Standard library only."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue

ADDRESS = re.compile(r"^playhead listening on (\S+)")
READY = "playhead ready"
START_LIMIT = 180.0  # s without a line: a cold import of torch on a busy machine takes most
STOP_LIMIT = 120.0  # s from SIGTERM to the end
ANSWER_LIMIT = 120.0  # s for a page


def installed() -> Path:
    """Find `playhead` beside the running interpreter, else on the path.

    Raises: FileNotFoundError saying how to install it.
    """
    beside = Path(sys.executable).parent / "playhead"
    found = str(beside) if beside.exists() else shutil.which("playhead")
    if found is None:
        raise FileNotFoundError("playhead: not installed; run `pip install -e .` first")
    return Path(found)


@contextmanager
def serving(program: Sequence[str], arguments: Sequence[str] = ()) -> Iterator[str]:
    """Start a server on a free port, in an empty folder, and give its address once it is ready.

    Args:
        program: what runs `playhead`, such as the path of the installed script.
        arguments: of `serve`.

    Raises: RuntimeError with what the server printed, if it ends or stays silent instead.
    """
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [*program, "serve", "--port", "0", *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            yield _address(process)
        finally:
            _stop(process)


def fetch(url: str) -> tuple[int, bytes]:
    """GET `url`: status and body. An error status is an answer, not an exception."""
    try:
        with urllib.request.urlopen(url, timeout=ANSWER_LIMIT) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def _address(process: subprocess.Popen[str]) -> str:
    lines: Queue[str] = Queue()
    threading.Thread(target=_read, args=(process, lines), daemon=True).start()
    printed: list[str] = []
    address = None
    while True:
        try:
            printed.append(lines.get(timeout=START_LIMIT))
        except Empty:
            raise RuntimeError(f"serve: is not ready: {''.join(printed)}") from None
        if not printed[-1]:
            raise RuntimeError(f"serve: ended with {process.wait()}: {''.join(printed)}")
        if match := ADDRESS.match(printed[-1]):
            address = match[1].rstrip("/")
        if address and printed[-1].startswith(READY):
            return address


def _read(process: subprocess.Popen[str], lines: Queue[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:  # to the very end: a full pipe would stop the server
        lines.put(line)
    lines.put("")


def _stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise
    finally:
        if process.stdout is not None:
            process.stdout.close()
