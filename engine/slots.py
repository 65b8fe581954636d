"""Rows of device state: allocate, free, nothing else. Pure."""

from __future__ import annotations

import heapq


class Slots:
    """A fixed number of rows; the lowest free one is given out first."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = list(range(count))

    def allocate(self) -> int | None:
        """Return a free slot, or None."""
        return heapq.heappop(self._free) if self._free else None

    def free(self, slot: int) -> None:
        """Give a slot back."""
        assert slot not in self._free, f"slot {slot} freed twice"
        heapq.heappush(self._free, slot)
