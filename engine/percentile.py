"""Percentiles by nearest rank: always a value that was measured, never one in between. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, nan


def percentile(values: Iterable[float], share: float) -> float:
    """Return the least value that `share` (0 to 1) of all do not exceed; `nan` of nothing."""
    ordered = sorted(values)
    return ordered[max(0, ceil(share * len(ordered)) - 1)] if ordered else nan
