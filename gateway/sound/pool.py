"""Opus encoding beside the event loop: who would run dry first is encoded first.

Engines deliver in bursts: a second of sound for each of fifty listeners is a third of a second's
work. A first sound must not wait behind that.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from heapq import heappop, heappush

from gateway.sound.opus import PACKET_BYTES, OpusEncoder

TURN_BYTES = 4 * PACKET_BYTES  # of PCM encoded before somebody else may go first: 0.5 ms of work
NICENESS = 10  # SCHED_IDLE would be quicker, but may stand still holding the interpreter's lock
SOON = 0.05  # s until a listener runs dry: less, and every thread takes turns
URGENT = 0.1  # s until a listener runs dry: less, and a short sound is encoded where it stands


class EncoderPool:
    """Encodes on threads: four packets take up to a millisecond, too long for the event loop.

    Jobs take turns. One thread does the work; the others help while somebody would run dry soon: a
    burst on all cores would make the event loop and the engine wait for one. Await each call before
    the next on the same encoder.
    """

    def __init__(self, threads: int) -> None:
        """`threads`: 0 is one per core, at most four."""
        self._jobs: list[tuple[float, int, _Job]] = []  # a heap: when due, number, job
        self._numbers = itertools.count()  # equally urgent jobs keep their order
        self._closed = False
        self._lock = threading.Lock()  # of the heap
        self._any = threading.Condition(self._lock)  # there is a job
        self._soon = threading.Condition(self._lock)  # there is one that is due soon
        for number in range(threads or min(4, os.cpu_count() or 1)):
            helps = number > 0
            threading.Thread(target=self._work, args=(helps,), name="opus", daemon=True).start()

    async def encode(self, encoder: OpusEncoder, pcm: bytes, *, last: bool = False) -> list[bytes]:
        """The packets that `pcm` completes; if it is the `last`, all packets there will be."""
        now = time.monotonic()
        if not last and len(pcm) <= TURN_BYTES and encoder.dry_at(now) - now < URGENT:
            return encoder.encode(pcm)  # half a millisecond; a thread may take longer to be there
        job = _Job(encoder, pcm, last)
        self._put(job)
        return await asyncio.wrap_future(job.done)

    def close(self) -> None:
        """Drop what waits; turns under way end by themselves."""
        with self._lock:
            self._closed = True
            self._any.notify_all()
            self._soon.notify_all()

    def _put(self, job: _Job) -> None:
        now = time.monotonic()
        due = job.encoder.dry_at(now)
        with self._lock:
            heappush(self._jobs, (due, next(self._numbers), job))
            self._any.notify()
            if due - now < SOON:
                self._soon.notify()

    def _take(self, helps: bool) -> _Job | None:
        """The job that is due first; one who `helps` waits until it is due soon. None: closed."""
        with self._lock:
            while not self._closed:
                if self._jobs and not (helps and self._jobs[0][0] - time.monotonic() >= SOON):
                    return heappop(self._jobs)[-1]
                (self._soon if helps else self._any).wait()
        return None

    def _work(self, helps: bool) -> None:
        if sys.platform == "linux":  # of this thread alone; elsewhere it would be the process
            with suppress(OSError):  # sandboxes forbid it, such as systemd's `~@resources`
                os.nice(NICENESS)
        while job := self._take(helps):
            if job.turn():
                self._put(job)


class _Job:
    """One call's sound on its way through an encoder."""

    def __init__(self, encoder: OpusEncoder, pcm: bytes, last: bool) -> None:
        self.encoder = encoder
        self.done: Future[list[bytes]] = Future()
        self._pcm = memoryview(pcm)
        self._last = last
        self._packets: list[bytes] = []

    def turn(self) -> bool:
        """Encode a little; True if there is more to do and somebody still wants it."""
        if self.done.cancelled():
            return False
        try:
            self._packets += self.encoder.encode(bytes(self._pcm[:TURN_BYTES]))
            self._pcm = self._pcm[TURN_BYTES:]
            if self._pcm:
                return True
            if self._last:
                self._packets += self.encoder.finish()
        except Exception as error:  # whatever it is, it concerns the caller and not this thread
            self._settle(error)
        else:
            self._settle(None)
        return False

    def _settle(self, error: Exception | None) -> None:
        if not self.done.set_running_or_notify_cancel():
            return
        if error:
            self.done.set_exception(error)
        else:
            self.done.set_result(self._packets)
