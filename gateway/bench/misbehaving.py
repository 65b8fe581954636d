"""What a server must survive: clients that vanish, break off, lie and talk nonsense.

For soak runs. Nothing here is measured; the server's memory, descriptors and answers are.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import socket
import struct
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException
from websockets.typing import Subprotocol

from gateway.bench import http_stream
from gateway.bench.target import Order, Target
from gateway.protocol import PROTOCOL

EVERY = 0.5  # s between two of them in the mean, in each load process
LIMIT = 20.0  # s for one of them
TEXT = "This will not be heard to its end, because the client is about to vanish. " * 4
NONSENSE = (
    *("not json", "[]", '{"type": 7}', '{"type": "say"}', '{"type": "unheard-of"}', "\u0000"),
    *('{"type": "say", "utterance": "x y"}', '{"type": "text", "utterance": "nobody"}'),
    *('{"type": "cancel", "utterance": "*"}', '{"type": "ack", "n": 1, "seq": 1e9}'),
)
_ABRUPT = struct.pack("ii", 1, 0)  # SO_LINGER of zero: closing sends a reset
Misdeed = Callable[[Target], Awaitable[None]]


async def misbehave(order: Order, *, until: float) -> None:
    """Commit misdeeds until a moment of `time.monotonic`."""
    draw = random.Random(f"misdeeds {order.load.seed} {order.load.process}")
    async with asyncio.TaskGroup() as group:
        while time.monotonic() < until:
            await asyncio.sleep(draw.expovariate(1 / EVERY))
            group.create_task(_commit(draw.choice(MISDEEDS), order.target))


async def _commit(misdeed: Misdeed, target: Target) -> None:
    """What the server does about it is its affair; only the client's own mistakes are errors."""
    with suppress(OSError, WebSocketException, TimeoutError):
        async with asyncio.timeout(LIMIT):
            await misdeed(target)


async def vanish(target: Target) -> None:
    """Ask for sound, then reset the connection in the middle of it."""
    async with _session(target) as wire:
        await _say(wire, TEXT)
        await _until_sound(wire)
        found: socket.socket = wire.transport.get_extra_info("socket")
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABRUPT)
        wire.transport.abort()


async def fall_silent(target: Target) -> None:
    """Promise acks and never send one; cancel after a while."""
    async with _session(target, acks=True) as wire:
        await _say(wire, TEXT)
        await _until_sound(wire)
        await asyncio.sleep(2.0)
        await _send(wire, "cancel", utterance="u1")


async def lie(target: Target) -> None:
    """Claim to have heard what was never sent."""
    async with _session(target, acks=True) as wire:
        await _say(wire, TEXT)
        await _until_sound(wire)
        for played in (1e6, -1, 5e5, 1e9):
            fields = {"n": 1, "seq": 0, "played_ms": played, "t_ms": 1, "latency_ms": 0}
            await _send(wire, "ack", **fields)
        await _send(wire, "cancel", utterance="*")


async def talk_nonsense(target: Target) -> None:
    """Messages that are none."""
    async with _session(target) as wire:
        for line in NONSENSE:
            await wire.send(line)
        await wire.send(b"\x11\x00")
        await wire.recv()


async def fail(target: Target) -> None:
    """A voice that does not exist, and one that breaks in the middle where the server has it."""
    for voice in ("nobody", "poison"):
        async with _session(target) as wire:
            await _say(wire, TEXT, voice=voice)
            while (message := await wire.recv()) and not _final(message):
                pass


async def hurry(target: Target) -> None:
    """Open, say, replace and cancel faster than anything can be made."""
    async with _session(target) as wire:
        for number in range(20):
            fields = {"utterance": f"h{number}", "text": TEXT, "last": True, "mode": "replace"}
            await _send(wire, "say", **fields)
        await _send(wire, "cancel", utterance="*")


async def leave_http(target: Target) -> None:
    """Ask the speech route and close the connection after the first sound."""
    body = json.dumps({"model": "tts-1", "input": TEXT, "response_format": "pcm"}).encode()
    head = http_stream.request_head(target.url, length=len(body), token=target.token)
    connection = await http_stream.connect(target.url)
    came = asyncio.Event()
    connection.ask(head, body, on_body=lambda _: came.set(), on_end=came.set)
    await came.wait()
    connection.close()


MISDEEDS: tuple[Misdeed, ...] = (vanish, fall_silent, lie, talk_nonsense, fail, hurry, leave_http)


def _session(target: Target, *, acks: bool = False) -> _Session:
    return _Session(target, acks=acks)


class _Session:
    """A raw session after its `hello`."""

    def __init__(self, target: Target, *, acks: bool) -> None:
        self._acks = acks
        self._connecting = connect(
            re.sub("^http", "ws", target.url.rstrip("/")) + "/v1/voice",
            subprotocols=[Subprotocol(PROTOCOL)],
            additional_headers={"Authorization": f"Bearer {target.token}"} if target.token else {},
            compression=None,
            close_timeout=1,
            proxy=None,
        )

    async def __aenter__(self) -> ClientConnection:
        wire = await self._connecting.__aenter__()
        await _send(wire, "hello", acks=self._acks, audio={"codecs": ["pcm_s16le"]})
        await wire.recv()
        return wire

    async def __aexit__(self, *exception: object) -> None:
        await self._connecting.__aexit__(None, None, None)


async def _send(wire: ClientConnection, kind: str, **fields: object) -> None:
    await wire.send(json.dumps({"type": kind, **fields}))


async def _say(wire: ClientConnection, text: str, **fields: object) -> None:
    await _send(wire, "say", utterance="u1", text=text, last=True, **fields)


async def _until_sound(wire: ClientConnection) -> None:
    while isinstance(message := await wire.recv(), str) and not _final(message):
        pass


def _final(message: str | bytes) -> bool:
    return isinstance(message, str) and json.loads(message)["type"] in (
        *("done", "cancelled", "error", "bye"),
    )
