"""One utterance as a client of `voice.v1` sees it: its messages, its chunks, its sound."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from typing import TYPE_CHECKING, Any, TypeAlias

from gateway.protocol.chunk import Chunk, Codec, Flag
from gateway.sound import TICKS_PER_SAMPLE
from gateway.sound.opus import OpusDecoder

if TYPE_CHECKING:
    from gateway.client.connection import VoiceClient

Fields: TypeAlias = dict[str, Any]  # a JSON message

FINAL = ("done", "cancelled", "error")


class VoiceError(Exception):
    """The server ended an utterance with an error, or the connection is gone."""

    def __init__(self, code: str, message: str, *, fields: Fields | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.fields = fields or {}


class Utterance:
    """One spoken reply as the client sees it; iterate for its chunks, or for everything."""

    def __init__(self, voice: VoiceClient, name: str, now: float) -> None:
        self.name = name
        self.n: int | None = None
        self.asked_at = now  # s, on the client's clock
        self.first_chunk_at: float | None = None
        self.final: Fields | None = None  # `done`, `cancelled` or `error`
        self.closed = asyncio.Event()  # `final` is there
        self._voice = voice
        self._items: asyncio.Queue[Chunk | Fields] = asyncio.Queue()

    async def append(self, text: str, *, last: bool = False) -> None:
        """Send more text, joined exactly as given."""
        most = self._voice.text_limit
        pieces = [text[at : at + most] for at in range(0, len(text), most)] or [""]
        for piece in pieces[:-1]:
            await self._voice.send("text", utterance=self.name, text=piece)
        await self._voice.send("text", utterance=self.name, text=pieces[-1], last=last)

    async def flush(self) -> None:
        """Ask for what was sent to be spoken now."""
        await self._voice.send("flush", utterance=self.name)

    async def cancel(self, *, reason: str = "barge_in") -> Fields:
        """Mute, stop, and return what was heard; `{}` if the server does not know.

        The server answers even if all was sent before, as is common for short replies.
        """
        played = self._voice.mute(self)
        fields = {} if played is None else {"played_ms": round(played * 1000, 3)}
        answer = self._voice.expect(self.name)
        await self._voice.send("cancel", utterance=self.name, reason=reason, **fields)
        answered = await asyncio.shield(answer)  # it comes even if nobody waits any more
        return dict(answered.get("heard", {}))

    async def events(self) -> AsyncIterator[Chunk | Fields]:
        """Chunks and messages in order; the final message comes last. Iterate once."""
        while True:
            item = await self._items.get()
            yield item
            if isinstance(item, dict) and item is self.final:
                return

    async def __aiter__(self) -> AsyncIterator[Chunk]:
        """Chunks only. Raises VoiceError if the utterance ends in an error."""
        async for item in self.events():
            if isinstance(item, Chunk):
                yield item
            elif item["type"] == "error":
                raise VoiceError(item["code"], item["message"], fields=item)

    async def pcm(self) -> bytes:
        """All its sound as int16 samples at 24 kHz. Raises VoiceError."""
        return b"".join([piece async for piece in decoded(self, self._voice.pre_skip)])

    def deliver(self, item: Chunk | Fields, now: float) -> None:
        """Take what the socket brought; called by the client only."""
        if isinstance(item, Chunk):
            self.first_chunk_at = now if self.first_chunk_at is None else self.first_chunk_at
        elif item["type"] in FINAL and self.final is None:
            self.final = item
            self.closed.set()
        self._items.put_nowait(item)


async def decoded(chunks: AsyncIterable[Chunk], pre_skip: int) -> AsyncIterator[bytes]:
    """Each chunk's sound as int16 samples at 24 kHz, cut to what the chunk says of its length.

    Args:
        pre_skip: ticks to drop at the start of Opus, from the server's `hello`.
    """
    decoder: OpusDecoder | None = None
    async for chunk in chunks:
        if chunk.codec is Codec.PCM:
            yield chunk.packets[0]
            continue
        decoder = decoder or OpusDecoder()
        pcm = b"".join(decoder.decode(packet) for packet in chunk.packets)
        start = 2 * pre_skip // TICKS_PER_SAMPLE if Flag.FIRST in chunk.flags else 0
        yield pcm[start : start + 2 * chunk.duration // TICKS_PER_SAMPLE]
