"""A server that answers by a script in virtual time: reads return exactly when the test says."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from gateway.bench.http_stream import Connection
from tests.gateway.clocks import VirtualClock

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: audio/pcm\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
Script = Sequence[tuple[float, bytes | None]]  # s; bytes of a read, or None: the connection breaks


def chunk(data: bytes) -> bytes:
    """One chunk of a body in the chunked coding."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


class Wire(asyncio.Transport):
    """Answers each request with the next script."""

    def __init__(self, connection: Connection, clock: VirtualClock, scripts: list[Script]) -> None:
        super().__init__()
        self.requests: list[bytes] = []
        self._connection = connection
        self._clock = clock
        self._scripts = scripts
        self._closed = False

    def write(self, data: Any) -> None:
        self.requests.append(bytes(data))
        asyncio.get_running_loop().call_soon(self._play, self._scripts.pop(0))

    def is_closing(self) -> bool:
        return self._closed

    def abort(self) -> None:
        if not self._closed:
            self._closed = True
            self._connection.connection_lost(None)

    def _play(self, script: Script) -> None:
        for at, data in script:
            self._clock.now = at
            if data is None:
                self.abort()
            elif not self._closed:
                self._connection.data_received(data)


class Server:
    """Connects to its scripts; remembers every wire."""

    def __init__(self, clock: VirtualClock, *scripts: Script) -> None:
        self.wires: list[Wire] = []
        self._clock = clock
        self._scripts = list(scripts)

    async def connect(self, url: str) -> Connection:
        """What a listener calls instead of opening a socket."""
        connection = Connection()
        wire = Wire(connection, self._clock, self._scripts)
        connection.connection_made(wire)
        self.wires.append(wire)
        return connection
