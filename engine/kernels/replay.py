"""How long captured work takes: the device's own time, without the host's share."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import torch

GROUPS = 7  # of replays, whose median counts
GROUP_SECONDS = 0.008


def replay_seconds(
    work: Callable[[], object],
    *,
    times: int = 1,
    groups: int = GROUPS,
    group_seconds: float = GROUP_SECONDS,
) -> float:
    """Return the median seconds of one of `times` equal parts of `work`, replayed as a graph."""
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    first = _group(graph, 3)
    count = max(3, min(100, int(group_seconds / first)))
    return median(_group(graph, count) for _ in range(groups)) / times


def _group(graph: torch.cuda.CUDAGraph, count: int) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(count):
        graph.replay()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1000 / count
