"""What processes of a measurement cost: processor seconds per second, from /proc on Linux."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from gateway.bench.server_watch import PROC, Sample

LOOK_EVERY = 0.5  # s between two looks


def watch_until_end(
    process: subprocess.Popen[bytes], watched: Mapping[str, int], *, start: float, end: float
) -> dict[str, float]:
    """Wait for `process`; return the mean processor seconds per second of each watched tree.

    Args:
        watched: a name for each process id; its children count with it.
        start, end: seconds from now between which the mean is taken.
    """
    began = time.monotonic()
    looks: list[tuple[float, dict[str, float]]] = []
    while process.poll() is None:
        now = time.monotonic() - began
        if start <= now <= end:
            looks.append((now, {name: _seconds(pid) for name, pid in watched.items()}))
        time.sleep(LOOK_EVERY)
    (first, before), (last, after) = looks[0], looks[-1]
    return {name: (after[name] - before[name]) / (last - first) for name in watched}


def _seconds(pid: int) -> float:
    """Processor seconds of a process and those it started, all of them alive."""
    return sum(Sample.of(each, 0.0).cpu for each in (pid, *_children(pid)))


def _children(pid: int) -> list[int]:
    tasks = PROC / str(pid) / "task"
    listed = (Path(task) / "children" for task in tasks.iterdir())
    return [int(child) for each in listed for child in each.read_text().split()]
