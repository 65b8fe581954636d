"""One utterance's sound on its way to the client: coded, numbered, and never too far ahead.

TCP pushes back only after minutes of speech, so the window is media time: what was handed over less
what was heard. The engine rests on the same number a second earlier, so this is a safety net.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from gateway.protocol.chunk import Chunk, Flag
from gateway.protocol.messages import HeardSource
from gateway.sound import TICKS_PER_SECOND
from gateway.voice.acks import BACK_MS, Listener
from gateway.voice.coding import Coder, Piece
from gateway.voice.common import Common
from gateway.voice.outbox import Sound

SAFETY_LEAD = 1.0  # s beyond the engine's own limit
RECEIPT_SECONDS = 10.0  # s of sound that may be under way unreceived …
RECEIPT_BYTES = 262_144  # … and bytes of it
RECHECK = 0.25  # s after which a waiting chunk looks again, if nothing wakes it


class SoundFlow:
    """PCM in, chunks to the outbox; keeps what went out and how far it was heard."""

    def __init__(self, n: int, common: Common, first: Callable[[], None]) -> None:
        """`first` is called just before the first chunk is handed over."""
        self.listener = Listener(acks=common.terms.hello.acks)
        self.stopped = False  # chunks that still wait are dropped
        self.ticks = 0  # handed over
        self.drained = False  # the chunk flagged last is handed over
        self._n = n
        self._common = common
        self._first: Callable[[], None] | None = first
        self._coder: Coder | None = None
        self._seq = 0  # of the next chunk
        self._bytes = [0]  # cumulative, per chunk handed over
        self._received = -1  # last chunk known to have arrived
        self._moved = asyncio.Event()  # the listener moved, or something arrived

    @property
    def last_seq(self) -> int:
        """Number of the last chunk handed over; -1 before the first."""
        return self._seq - 1

    @property
    def unreceived(self) -> float:
        """Seconds sent that are not known to have arrived."""
        return (self.listener.sent - self._end_of(self._received)) / TICKS_PER_SECOND

    def unheard(self, now: float) -> float:
        """Seconds sent but not heard."""
        return (self.listener.sent - self.listener.heard(self._common.link, now)) / TICKS_PER_SECOND

    def arrived(self, seq: int) -> None:
        """Chunks up to `seq` reached the client."""
        self._received = max(self._received, seq)
        self._moved.set()

    def carried(self, chunk: Chunk, now: float) -> None:
        """The writer sends the chunk now."""
        self.listener.carried(chunk.end, now, sent_ms=int(now * 1000))
        self.listener.complete |= Flag.LAST in chunk.flags

    def stop(self) -> None:
        """Nothing more leaves, not even what waits."""
        self.stopped = self.listener.stopped = True
        self.let_go()

    def let_go(self) -> None:
        """No more sound comes; an encoder's state is 44 KB and goes at once."""
        self._coder = self._first = None

    def playhead(self, played_ms: float | None, now: float) -> tuple[float, HeardSource, float]:
        """Where the listener is: ticks, who says so, and the seconds it may be wrong.

        Args:
            played_ms: the client's own word; believed if it can be true.
        """
        listener, link = self.listener, self._common.link
        if played_ms is not None and link.trusted and listener.plausible(played_ms, now):
            ticks = min(listener.sent, played_ms * TICKS_PER_SECOND / 1000)
            return ticks, "client", BACK_MS / 1000
        ticks = listener.heard(link, now)
        if listener.last is None or not link.trusted:
            return ticks, "estimate", ticks / TICKS_PER_SECOND  # it may not even have started
        age = now - listener.at
        return ticks, "ack", age if age > link.stale_after else link.delay + BACK_MS / 1000

    def prepare(self) -> None:
        """Make the coder before there is sound: a new encoder takes a tenth of a millisecond."""
        self._coder = self._common.terms.new_coder()

    async def send(self, pcm: bytes, *, last: bool, segment_end: bool) -> None:
        """Code the next sound and hand it over, as soon as there is room for it."""
        coder = self._coder
        assert coder, "sound after the last, or before `prepare`"
        pieces = await coder.code(pcm, last)
        for index, piece in enumerate(pieces, start=1):
            flags = Flag(0)
            if index == len(pieces):
                flags = (Flag.LAST if last else flags) | (
                    Flag.SEGMENT_END if segment_end else flags
                )
            await self._room()
            self._hand_over(piece, coder, flags)
        if last:
            self.drained, self._coder = True, None

    def _hand_over(self, piece: Piece, coder: Coder, flags: Flag) -> None:
        if self._first:
            flags |= Flag.FIRST
            self._first()
            self._first = None
        chunk = Chunk(
            coder.codec, flags, self._n, self._seq, self.ticks, piece.duration, piece.packets
        )
        self._seq += 1
        self.ticks += piece.duration
        self._bytes.append(self._bytes[-1] + chunk.size)
        self._common.outbox.put(Sound(self, chunk))

    async def _room(self) -> None:
        """Wait until the listener is near enough to what was handed over."""
        while not self._has_room(time.monotonic()):
            self._moved.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(RECHECK):
                    await self._moved.wait()

    def _has_room(self, now: float) -> bool:
        terms = self._common.terms
        ahead = (self.ticks - self.listener.heard(self._common.link, now)) / TICKS_PER_SECOND
        if ahead >= terms.max_lead + SAFETY_LEAD:
            return False
        under_way = (self.ticks - self._end_of(self._received)) / TICKS_PER_SECOND
        size = self._bytes[-1] - self._bytes[self._received + 1]
        return not terms.hello.acks or (under_way < RECEIPT_SECONDS and size < RECEIPT_BYTES)

    def _end_of(self, seq: int) -> int:
        return self.listener.ends[seq] if seq >= 0 else 0
