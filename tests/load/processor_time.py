"""What processes of a measurement cost: processor seconds per second, from /proc on Linux."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence

from gateway.bench.server_watch import PROC, Sample

LOOK_EVERY = 0.5  # s between two looks


def watch_until_end(
    process: subprocess.Popen[bytes],
    watched: Mapping[str, Sequence[int]],
    *,
    start: float,
    end: float,
) -> dict[str, float]:
    """Wait for `process`; return the mean processor seconds per second of what is watched.

    Args:
        watched: process ids by name; those that they started count with them.
        start, end: seconds from now between which the mean is taken.
    """
    began = time.monotonic()
    looks: list[tuple[float, dict[str, float]]] = []
    while process.poll() is None:
        now = time.monotonic() - began
        if start <= now <= end:
            looks.append((now, {name: _seconds(pids) for name, pids in watched.items()}))
        time.sleep(LOOK_EVERY)
    (first, before), (last, after) = looks[0], looks[-1]
    return {name: (after[name] - before[name]) / (last - first) for name in watched}


def _seconds(pids: Sequence[int]) -> float:
    """Processor seconds of processes and those they started, all of them alive."""
    family = {*pids, *(child for pid in pids for child in _children(pid))}
    return Sample.of_all(sorted(family), 0.0).cpu


def _children(pid: int) -> list[int]:
    listed = (task / "children" for task in (PROC / str(pid) / "task").iterdir())
    return [int(child) for each in listed for child in each.read_text().split()]
