"""The engine process's socket side: commands in, events out, one engine for all gateways.

The first message each way is a hello: the shared token and api version from the gateway, `Info`
from the engine. A connection that ends cancels the utterances it opened.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import os

from engine import api
from engine.config import EngineConfig
from engine.thread import EngineThread, call_in
from engine.wire import (
    TOKEN_VARIABLE,
    Decoder,
    Message,
    WireError,
    encode,
    greeting,
    split_address,
)

logger = logging.getLogger(__name__)

GREETING_SECONDS = 5.0  # until a gateway must have said hello
BACKLOG = 16 << 20  # bytes waiting for one gateway before it counts as stuck


class EngineServer:
    """Serves one engine on one address, "unix:/path" or "tcp://host:port"."""

    def __init__(self, config: EngineConfig, address: str) -> None:
        self.address = address
        self._loop = asyncio.get_running_loop()
        self._gateways: dict[str, asyncio.StreamWriter] = {}  # utterance → whose it is
        self._writers: set[asyncio.StreamWriter] = set()
        self._died = asyncio.Event()
        self._info: api.Info | None = None
        self._thread = EngineThread(
            config,
            deliver=lambda events: call_in(self._loop, self._deliver, events),
            died=lambda error: call_in(self._loop, self._died.set),
        )

    async def serve(self, listening: asyncio.Event | None = None) -> None:
        """Load the model, listen, and return when the engine has died.

        Raises what loading raised, ConfigError if another engine serves there, or OSError if the
        address cannot be used.
        """
        await self._look_for_another()
        self._thread.start()
        self._info = await asyncio.to_thread(self._thread.wait_ready)
        try:
            await self._serve(listening)
        finally:
            await asyncio.to_thread(self._thread.stop)

    async def _serve(self, listening: asyncio.Event | None) -> None:
        assert self._info is not None
        server = await self._listen()
        try:
            logger.info("engine ready address=%s model=%s", self.address, self._info.model)
            if listening:
                listening.set()
            await self._died.wait()
        finally:
            server.close()
            for writer in list(self._writers):
                writer.transport.abort()

    async def _look_for_another(self) -> None:
        """Listening would take a living engine's socket away from it, as if it were a dead one's.

        Raises: ConfigError.
        """
        kind, place = split_address(self.address)
        if kind != "unix":
            return  # the system refuses a second one
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_unix_connection(place)
            writer.transport.abort()
            raise api.ConfigError(
                f"engine: another serves at {self.address}; stop it, or choose another address"
            )

    async def _listen(self) -> asyncio.Server:
        kind, place = split_address(self.address)
        try:
            return await self._bind(kind, place)
        except OSError as error:
            why = error.strerror or error
            raise api.ConfigError(f"engine: cannot listen on {self.address}: {why}") from error

    async def _bind(self, kind: str, place: str) -> asyncio.Server:
        if kind == "unix":
            return await asyncio.start_unix_server(self._serve_gateway, place)
        host, _, port = place.rpartition(":")
        if not os.environ.get(TOKEN_VARIABLE):
            logger.warning("engine_open_to_all address=%s set=%s", self.address, TOKEN_VARIABLE)
        return await asyncio.start_server(self._serve_gateway, host, int(port))

    async def _serve_gateway(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._writers.add(writer)
        try:
            await self._greet(reader, writer)
            decoder = Decoder()
            while received := await reader.read(1 << 16):
                for message in decoder.feed(received):
                    self._command(message, writer)
        except (WireError, OSError, asyncio.IncompleteReadError) as error:
            logger.warning("gateway dropped reason=%s", error)
        finally:
            self._forget(writer)

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await asyncio.wait_for(reader.readline(), GREETING_SECONDS)
        if not hmac.compare_digest(line.strip(), greeting().strip()):
            raise WireError("wire: wrong token or api version in the hello")
        assert self._info is not None
        writer.write(encode(self._info))

    def _command(self, message: Message, writer: asyncio.StreamWriter) -> None:
        if not isinstance(message, api.Command):
            raise WireError(f"wire: a gateway sends commands, got: {type(message).__name__}")
        if isinstance(message, api.Open):
            self._gateways[message.utterance] = writer
        self._thread.send(message)

    def _deliver(self, events: list[api.Event]) -> None:
        """Write one turn's events, each gateway's in one piece."""
        pieces: dict[asyncio.StreamWriter, list[bytes]] = {w: [] for w in self._writers}
        for event in events:
            if isinstance(event, api.Load):
                for piece in pieces.values():
                    piece.append(encode(event))
                continue
            writer = self._gateways.get(event.utterance)
            if isinstance(event, api.Ended):
                self._gateways.pop(event.utterance, None)
            if writer in pieces:
                pieces[writer].append(encode(event))
        for writer, piece in pieces.items():
            writer.write(b"".join(piece))
            if writer.transport.get_write_buffer_size() > BACKLOG:
                logger.warning("gateway dropped reason=stuck")
                writer.transport.abort()

    def _forget(self, writer: asyncio.StreamWriter) -> None:
        self._writers.discard(writer)
        writer.transport.abort()
        for utterance in [name for name, owner in self._gateways.items() if owner is writer]:
            del self._gateways[utterance]
            self._thread.send(api.Cancel(utterance))
