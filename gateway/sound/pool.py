"""Opus encoding beside the event loop: who would run dry first is encoded first.

Engines deliver in bursts: a second of sound for each of fifty listeners is a third of a second's
work. A first sound must not wait behind that.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import os
import sys
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from queue import PriorityQueue

from gateway.sound.opus import PACKET_BYTES, OpusEncoder

TURN_BYTES = 4 * PACKET_BYTES  # of PCM encoded before somebody else may go first: 0.5 ms of work
NICENESS = 10  # SCHED_IDLE would be quicker, but may stand still holding the interpreter's lock
URGENT = 0.1  # s until a listener runs dry: less, and a short sound is encoded where it stands


class EncoderPool:
    """Encodes on threads: four packets take half a millisecond, too long for the event loop.

    Jobs take turns. Await each call before the next on the same encoder.
    """

    def __init__(self, threads: int) -> None:
        """`threads`: 0 is one per core, at most four."""
        self._jobs: PriorityQueue[tuple[float, int, _Job | None]] = PriorityQueue()
        self._numbers = itertools.count()  # equally urgent jobs keep their order
        self._threads = threads or min(4, os.cpu_count() or 1)
        for _ in range(self._threads):
            threading.Thread(target=self._work, name="opus", daemon=True).start()

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
        for number in range(self._threads):
            self._jobs.put((-math.inf, number, None))

    def _put(self, job: _Job) -> None:
        due = job.encoder.dry_at(time.monotonic())
        self._jobs.put((due, next(self._numbers), job))

    def _work(self) -> None:
        if sys.platform == "linux":  # of this thread alone; elsewhere it would be the process
            with suppress(OSError):  # sandboxes forbid it, such as systemd's `~@resources`
                os.nice(NICENESS)
        while job := self._jobs.get()[-1]:
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
