"""How many sessions are open in all processes that share a port, without a lock.

Each process has a row of seats and writes only there; everybody counts all rows. If `n`
processes let in a last guest in the same microsecond, a limit is exceeded by `n - 1`; never else.
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Iterator
from contextlib import contextmanager

SEAT_BYTES = 8
FREE = 0


class Seats:
    """Seats for sessions; make it before processes are forked, then `choose_row` in each."""

    def __init__(self, *, processes: int, each: int) -> None:
        """`each`: most sessions of one process."""
        self._each = max(each, 1)
        shared = mmap.mmap(-1, SEAT_BYTES * processes * self._each)
        self._all = memoryview(shared).cast("Q")
        self._row = self._all[: self._each]

    def choose_row(self, process: int) -> None:
        """Say which of the processes this is."""
        self._row = self._all[process * self._each : (process + 1) * self._each]

    def taken(self) -> int:
        """Sessions open in all processes."""
        return len(self._all) - self._all.tolist().count(FREE)

    def taken_by(self, key: str) -> int:
        """Sessions of one client, in all processes."""
        return self._all.tolist().count(_mark(key))

    @contextmanager
    def take(self, key: str) -> Iterator[None]:
        """Hold a seat while the context lasts; there must be one."""
        row = self._row
        seat = row.tolist().index(FREE)
        row[seat] = _mark(key)
        try:
            yield
        finally:
            row[seat] = FREE


def _mark(key: str) -> int:
    """A number other than FREE for a key; two keys share one as good as never."""
    digest = hashlib.blake2b(key.encode(errors="surrogatepass"), digest_size=SEAT_BYTES).digest()
    return int.from_bytes(digest, "little") | 1
