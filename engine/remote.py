"""An engine in a process of its own, seen from the gateway: one connection, found again when lost.

Commands travel in company: an engine's process that wakes for each of a few hundred listeners has
no time left to decide, and one that reads a text before its end takes it for one that streams in.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace

from engine.api import Audio, Command, EngineGone, Info, Playback
from engine.client import EngineClient, known
from engine.wire import Decoder, Message, encode, greeting, split_address

logger = logging.getLogger(__name__)

SILENCE_MEANS_LOST = 1.0  # s without heartbeat
RECONNECT_FIRST = 0.25  # s; doubles to RECONNECT_LAST
RECONNECT_LAST = 5.0
GATHER = 0.01  # s that a `Playback` waits for others: the engine's process wakes once for all


class RemoteEngine(EngineClient):
    """An engine process behind a socket; found again by itself after a loss.

    Args:
        address: "unix:/path" or "tcp://host:port".
    """

    def __init__(self, address: str) -> None:
        super().__init__()
        self._place = split_address(address)
        self._address = address
        self._info: Info | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._gathered: list[tuple[Playback, float]] = []  # each with when it came
        self._gathering: asyncio.TimerHandle | None = None
        self._said: list[bytes] = []  # in this turn of the event loop

    @property
    def info(self) -> Info:
        """What the engine spoke when last connected."""
        return known(self._info)

    async def start(self) -> None:
        """Wait until the engine process answers, then stay connected until `close`."""
        connected = asyncio.Event()
        self._keeper = asyncio.create_task(self._keep(connected))
        await connected.wait()

    async def close(self) -> None:
        """Disconnect; the engine cancels what this client opened."""
        if self._keeper:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        self._lose("engine_lost")

    def send(self, command: Command) -> None:
        """Write the command, `Playback` in company; a lost connection is noticed by the reader."""
        if isinstance(command, Playback):
            self._gather(command)
            return
        self._write_gathered()  # an utterance's commands stay in order
        self._say(encode(command))

    def _gather(self, playback: Playback) -> None:
        loop = asyncio.get_running_loop()
        self._gathered.append((playback, loop.time()))
        if self._gathering is None:
            self._gathering = loop.call_later(GATHER, self._write_gathered)

    def _write_gathered(self) -> None:
        """Write what waits, each older by its wait; half of it, as `delay` is counted both ways."""
        if self._gathering is None:
            return
        self._gathering.cancel()
        self._gathering = None
        now = asyncio.get_running_loop().time()
        waited = [
            replace(each, delay=each.delay + (now - came) / 2) for each, came in self._gathered
        ]
        self._gathered.clear()
        self._say(b"".join(map(encode, waited)))

    def _say(self, piece: bytes) -> None:
        """Write in one piece what is said in one turn of the event loop, as a text and its end."""
        if self._writer is None:
            return
        if not self._said:
            asyncio.get_running_loop().call_soon(self._write_said, self._writer)
        self._said.append(piece)

    def _write_said(self, writer: asyncio.StreamWriter) -> None:
        said = b"".join(self._said)
        self._said.clear()
        if writer is self._writer:  # else that engine was lost meanwhile, and who spoke there ended
            writer.write(said)

    async def _keep(self, connected: asyncio.Event) -> None:
        """Connect again whenever the connection ends, for whatever reason."""
        pause = RECONNECT_FIRST
        while True:
            try:
                await self._session(connected)
            except Exception as error:  # it may be anything a socket or its sender can do
                logger.warning("engine_lost address=%s reason=%r", self._address, error)
            pause = RECONNECT_FIRST if self.alive else min(2 * pause, RECONNECT_LAST)
            self._lose("engine_lost")
            await asyncio.sleep(pause)

    async def _session(self, connected: asyncio.Event) -> None:
        """One connection, until it ends. Raises OSError, TimeoutError, WireError, EngineGone."""
        kind, place = self._place
        if kind == "unix":
            reader, writer = await asyncio.open_unix_connection(place)
        else:
            host, _, port = place.rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
        try:
            writer.write(greeting())
            decoder = Decoder()
            while received := await _heard(reader):
                for message in decoder.feed(received):
                    self._receive(message, writer, connected)
                    if isinstance(message, Audio):
                        await asyncio.sleep(0)  # one sound is on its way before the next is read
            raise EngineGone(f"engine at {self._address}: closed the connection")
        finally:
            self._writer = None
            writer.transport.abort()

    def _receive(
        self, message: Message, writer: asyncio.StreamWriter, connected: asyncio.Event
    ) -> None:
        if isinstance(message, Info):
            self._info, self._writer, self.alive = message, writer, True
            connected.set()
        elif not isinstance(message, Command):
            self._dispatch(message)


async def _heard(reader: asyncio.StreamReader) -> bytes:
    """Return the next bytes, none at the end. Raises TimeoutError after SILENCE_MEANS_LOST.

    In two waits: if it was this process that stood still, the first is over at once, and what has
    come meanwhile is there for the second.
    """
    for _ in range(2):
        with suppress(TimeoutError):
            async with asyncio.timeout(SILENCE_MEANS_LOST / 2):
                return await reader.read(1 << 16)
    raise TimeoutError(f"no heartbeat for {SILENCE_MEANS_LOST:g} s")
