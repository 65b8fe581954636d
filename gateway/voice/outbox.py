"""The one way out of a session: messages and chunks share a queue, so that order means something.

`cancelled` is a fence because of it: chunks of a stopped utterance that still wait here are
dropped, not sent.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from gateway.protocol import ProtocolError
from gateway.protocol.chunk import Chunk


class Carrier(Protocol):
    """Whose chunk it is: may still stop it, and learns when it left."""

    stopped: bool

    def carried(self, chunk: Chunk, now: float) -> None:
        """The chunk goes out now."""


@dataclass(frozen=True, slots=True)
class Sound:
    """A chunk waiting to leave."""

    carrier: Carrier
    chunk: Chunk


@dataclass(frozen=True, slots=True)
class Ping:
    """A WebSocket ping."""

    payload: bytes


class Pong:
    """The answer to the client's latest ping; `Outbox.pong` holds its payload."""


@dataclass(frozen=True, slots=True)
class End:
    """The last thing that leaves: a close frame, before it a fatal error if there is one."""

    code: int
    reason: str  # of the close frame, at most 123 bytes; also for logs
    problem: ProtocolError | None = None
    abort: bool = False  # the peer does not read: no handshake, just reset
    left: bool = False  # the peer is gone: nothing can be sent


Item: TypeAlias = str | Sound | Ping | Pong | End


class Outbox:
    """What waits for the writer."""

    def __init__(self) -> None:
        self.pong: bytes | None = None  # waits to be sent
        self._items: asyncio.Queue[Item] = asyncio.Queue()

    def put(self, item: Item) -> None:
        """Queue an item. Chunks are bounded by their window, messages by their cause."""
        self._items.put_nowait(item)

    def put_pong(self, payload: bytes) -> None:
        """Answer a ping; of pings that come faster than they can be answered, only the latest."""
        if self.pong is None:
            self.put(Pong())
        self.pong = payload

    async def take(self) -> Item:
        """The next item that is still wanted."""
        while True:
            item = await self._items.get()
            if not (isinstance(item, Sound) and item.carrier.stopped):
                return item
