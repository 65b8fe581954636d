"""A raw `voice.v1` line for tests that must see every message, or send what no client would."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from gateway.protocol.chunk import Chunk, unpack
from tests.waiting import LIMIT


class Wire:
    """One socket."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.hello: dict[str, Any] = {}

    async def send(self, kind: str, **fields: Any) -> None:
        """One JSON message."""
        await self.raw(json.dumps({"type": kind, **fields}))

    async def raw(self, message: str | bytes) -> None:
        """Any message."""
        await self.socket.send(message)

    async def take(self) -> dict[str, Any] | Chunk:
        """The next message, whatever it is."""
        async with asyncio.timeout(LIMIT):
            message = await self.socket.recv()
        return unpack(message) if isinstance(message, bytes) else json.loads(message)

    async def until(self, kind: str, **fields: Any) -> tuple[dict[str, Any], list[Any]]:
        """The first message of `kind` with these fields, and everything before it."""
        before: list[Any] = []
        while True:
            item = await self.take()
            if isinstance(item, dict) and {"type": kind, **fields}.items() <= item.items():
                return item, before
            before.append(item)

    async def answer(self, kind: str, **fields: Any) -> dict[str, Any]:
        """As `until`, for tests that do not care what came before."""
        return (await self.until(kind, **fields))[0]

    async def closed(self) -> tuple[int, list[Any]]:
        """The close code, and everything that came before it."""
        before: list[Any] = []
        try:
            while True:
                before.append(await self.take())
        except ConnectionClosed as error:
            return (error.rcvd.code if error.rcvd else 1006), before

    async def works(self) -> bool:
        """Whether the session still speaks: a new utterance runs from `say` to `done`."""
        name = f"works-{id(object())}"
        await self.send("say", utterance=name, text="ok", last=True, mode="parallel")
        return (await self.answer("done", utterance=name))["reason"] == "complete"


@asynccontextmanager
async def opened(url: str, **options: Any) -> AsyncIterator[Wire]:
    """A socket on which nothing has been said."""
    options = {"subprotocols": ["voice.v1"], "proxy": None, "close_timeout": 1} | options
    async with connect(url, **options) as socket:
        yield Wire(socket)


@asynccontextmanager
async def greeted(url: str, *, codec: str = "pcm_s16le", **hello: Any) -> AsyncIterator[Wire]:
    """A socket with both hellos said."""
    async with opened(url) as wire:
        await wire.send("hello", **{"audio": {"codecs": [codec]}, **hello})
        wire.hello = await wire.answer("hello")
        yield wire


def reset(wire: Wire) -> None:
    """Vanish as a crashed client does: RST, no closing handshake."""
    raw = wire.socket.transport.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wire.socket.transport.abort()
