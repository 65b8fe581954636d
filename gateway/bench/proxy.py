"""A TCP proxy that is a bad network: delay, jitter, a narrow link, stalls, resets, silence.

    python -m gateway.bench.proxy --to 127.0.0.1:8000 --network mobile

It prints the address it listens on and serves until it is told to stop.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import socket
import struct
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress

from gateway.bench.network import PROFILES, Path, Profile

READ = 16_384  # bytes
IN_FLIGHT = 262_144  # bytes one direction holds; then its sender has to wait, as with real buffers
_ABRUPT = struct.pack("ii", 1, 0)  # SO_LINGER of zero: closing sends a reset
Clock = Callable[[], float]


class Proxy:
    """Takes connections for `host:port` and passes their bytes on through a `Profile`."""

    def __init__(
        self,
        host: str,
        port: int,
        profile: Profile,
        *,
        seed: int = 0,
        clock: Clock = time.monotonic,
    ) -> None:
        self._host = host
        self._port = port
        self._profile = profile
        self._clock = clock
        self._seeds = (f"proxy {seed} {number}" for number in itertools.count())
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server, "the proxy has not started"
        return int(self._server.sockets[0].getsockname()[1])

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        """Serve on a free port of this machine; yields `http://host:port`."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=READ)
        async with self._server:
            yield f"http://127.0.0.1:{self.port}"

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        draw = random.Random(next(self._seeds))
        far_writer: asyncio.StreamWriter | None = None
        try:
            far_reader, far_writer = await asyncio.open_connection(
                self._host, self._port, limit=READ
            )
            for each in (writer, far_writer):
                _unbuffered(each)
            there, back = (Path(self._profile, draw=draw, now=self._clock()) for _ in "ab")
            back.half_open_at, back.reset_at = there.half_open_at, None  # one fate for both
            await _both(
                Direction(reader, far_writer, there, self._clock).run(),
                Direction(far_reader, writer, back, self._clock).run(),
            )
        except ConnectionResetByProfile:
            for each in filter(None, (writer, far_writer)):
                _reset(each)
        except OSError:
            pass  # one side is gone: the other learns it below
        finally:
            for each in filter(None, (writer, far_writer)):
                each.close()


class ConnectionResetByProfile(Exception):
    """The profile wants this connection gone, abruptly and on both sides."""


class Direction:
    """One direction of one connection."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        path: Path,
        clock: Clock,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._path = path
        self._clock = clock
        self._pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(IN_FLIGHT // READ)

    async def run(self) -> None:
        """Pass bytes on until the sender ends. Raises ConnectionResetByProfile, OSError."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._take_in())
            group.create_task(self._give_out())

    async def _take_in(self) -> None:
        while True:
            reset_at = self._path.reset_at
            try:
                async with asyncio.timeout(reset_at and max(0.0, reset_at - self._clock())):
                    piece = await self._reader.read(READ)
            except TimeoutError:
                raise ConnectionResetByProfile from None
            now = self._clock()
            if self._path.half_open_at is not None and now >= self._path.half_open_at:
                if not piece:
                    return
                continue  # swallowed: neither side is told
            await self._pieces.put((self._path.due(len(piece), now), piece))
            if not piece:
                return

    async def _give_out(self) -> None:
        while True:
            due, piece = await self._pieces.get()
            wait = due - self._clock()
            if wait > 0:
                await asyncio.sleep(wait)
            if not piece:
                if self._writer.can_write_eof():
                    self._writer.write_eof()
                return
            self._writer.write(piece)
            await self._writer.drain()


async def _both(*directions: Coroutine[None, None, None]) -> None:
    """Run both directions; raise the plain cause if one breaks."""
    try:
        async with asyncio.TaskGroup() as group:
            for direction in directions:
                group.create_task(direction)
    except ExceptionGroup as broken:
        expected, ours = broken.split((ConnectionResetByProfile, OSError))
        if ours or not expected:
            raise
        if expected.subgroup(ConnectionResetByProfile):
            raise ConnectionResetByProfile from None
        raise OSError("one side is gone") from broken


def _unbuffered(writer: asyncio.StreamWriter) -> None:
    """Pass pressure on at once: what the proxy holds is only what the profile delays."""
    writer.transport.set_write_buffer_limits(high=READ)
    _socket(writer).setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _reset(writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        _socket(writer).setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABRUPT)
    writer.transport.abort()


def _socket(writer: asyncio.StreamWriter) -> socket.socket:
    found: socket.socket = writer.get_extra_info("socket")
    return found


def main(arguments: Sequence[str]) -> int:
    """Serve until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m gateway.bench.proxy", description=__doc__)
    parser.add_argument("--to", required=True, metavar="HOST:PORT", help="the server behind it")
    parser.add_argument("--network", choices=PROFILES, default="wan40")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    host, _, port = options.to.rpartition(":")
    proxy = Proxy(host, int(port), PROFILES[options.network], seed=options.seed)
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(proxy))
    return 0


async def _serve(proxy: Proxy) -> None:
    async with proxy.listening() as address:
        print(address, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
