"""A small HTTP/1.1 client that knows when each read returned: one request at a time, kept alive.

Libraries hand over bytes after queues of their own; here `data_received` is the measured moment.
`ResponseBody` is sans-I/O.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

MAX_HEAD = 65_536  # bytes
OnBody = Callable[[bytes], None]


class HttpError(Exception):
    """The answer is no HTTP/1.1 that can be read."""


class ResponseBody:
    """Bytes of one answer → status, headers, and the body as it arrives."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.whole = False
        self._head = b""
        self._left: int | None = None  # bytes of the body; None: until the server closes
        self._chunks: Chunks | None = None

    @property
    def reusable(self) -> bool:
        """Whether the connection can carry another request after this answer."""
        bounded = self._chunks is not None or self._left is not None
        return self.whole and bounded and self.headers.get("connection", "").lower() != "close"

    def add(self, received: bytes) -> bytes:
        """Take what a read returned; return what of the body it completes. Raises HttpError."""
        if not self.status:
            self._head += received
            head, end, received = self._head.partition(b"\r\n\r\n")
            if not end:
                if len(head) > MAX_HEAD:
                    raise HttpError(f"answer: want a head of at most {MAX_HEAD} bytes")
                return b""
            self._read_head(head.decode("latin-1"))
        if self._chunks:
            body = self._chunks.add(received)
            self.whole = self._chunks.whole
            return body
        if self._left is not None:
            received = received[: self._left]
            self._left -= len(received)
            self.whole = self._left == 0
        return received

    def closed(self) -> None:
        """The server closed: that ends a body without a length."""
        if self.status and self._chunks is None and self._left is None:
            self.whole = True

    def _read_head(self, head: str) -> None:
        first, *lines = head.split("\r\n")
        pairs = (line.partition(":") for line in lines)
        self.headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        try:
            self.status = int(first.split(" ", 2)[1])
            if "chunked" in self.headers.get("transfer-encoding", "").lower():
                self._chunks = Chunks()
            elif "content-length" in self.headers:
                self._left = int(self.headers["content-length"])
        except (IndexError, ValueError) as error:
            raise HttpError(f"answer: want a status line and a length, got: {first}") from error


class Chunks:
    """The chunked transfer coding (RFC 9112, 7.1) undone."""

    def __init__(self) -> None:
        self.whole = False
        self._rest = b""
        self._left = 0  # bytes of the chunk at hand
        self._awaits = "size"  # of a line: "size", "end" of a chunk, "trailer"

    def add(self, received: bytes) -> bytes:
        """Return the data among these bytes. Raises HttpError."""
        self._rest += received
        data = []
        while not self.whole:
            if self._left:
                piece = self._rest[: self._left]
                data.append(piece)
                self._left -= len(piece)
                self._rest = self._rest[len(piece) :]
            line, end, rest = self._rest.partition(b"\r\n")
            if self._left or not end:
                break
            self._rest = rest
            self._line(line)
        return b"".join(data)

    def _line(self, line: bytes) -> None:
        if self._awaits == "size":
            try:
                self._left = int(line.partition(b";")[0], 16)
            except ValueError as error:
                raise HttpError(f"answer: want the size of a chunk, got: {line[:40]!r}") from error
            self._awaits = "end" if self._left else "trailer"
        elif self._awaits == "end":
            self._awaits = "size"
        else:
            self.whole = not line


class Connection(asyncio.Protocol):
    """One connection; `ask` it, and `on_body` is called within each read that brings sound."""

    def __init__(self) -> None:
        self.body = ResponseBody()
        self.failure = ""
        self._on_body: OnBody = _ignore
        self._on_end: Callable[[], None] = _nothing
        self._transport: asyncio.Transport | None = None
        self._asking = False

    @property
    def open(self) -> bool:
        """Whether it can carry a request now."""
        return bool(self._transport and not self._transport.is_closing() and not self._asking)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def ask(self, head: bytes, body: bytes, *, on_body: OnBody, on_end: Callable[[], None]) -> None:
        """Send a request; `on_end` is called once, when the answer is whole or never will be."""
        assert self._transport and self.open, "a connection carries one request at a time"
        self.body, self.failure, self._asking = ResponseBody(), "", True
        self._on_body, self._on_end = on_body, on_end
        self._transport.write(head + body)  # one segment: the body's first byte leaves now

    def data_received(self, data: bytes) -> None:
        """Called by the event loop: what one read of the transport returned."""
        if not self._asking:
            return
        try:
            body = self.body.add(data)
        except HttpError as error:
            self.failure = str(error)
            self.close()
            self._end()
            return
        if body:
            self._on_body(body)
        if self.body.whole:
            if not self.body.reusable:
                self.close()
            self._end()

    def connection_lost(self, error: Exception | None) -> None:
        """Called by the event loop."""
        self.body.closed()
        if not self.body.whole:
            self.failure = self.failure or "disconnected"
        self._end()

    def close(self) -> None:
        """Leave at once; what was asked for is not wanted any more."""
        if self._transport:
            self._transport.abort()

    def _end(self) -> None:
        if self._asking:
            self._asking = False
            self._on_end()


async def connect(url: str) -> Connection:
    """Open a connection to the host of `url`. Raises OSError."""
    parts = urlsplit(url)
    tls = parts.scheme == "https"
    _, connection = await asyncio.get_running_loop().create_connection(
        Connection,
        parts.hostname or "127.0.0.1",
        parts.port or (443 if tls else 80),
        ssl=tls or None,
    )
    return connection


def request_head(url: str, *, length: int, token: str) -> bytes:
    """The head of `POST /v1/audio/speech` with a JSON body of `length` bytes."""
    parts = urlsplit(url)
    lines = [
        f"POST {parts.path.rstrip('/')}/v1/audio/speech HTTP/1.1",
        f"Host: {parts.netloc}",
        "Content-Type: application/json",
        f"Content-Length: {length}",
        "Accept: */*",
        *([f"Authorization: Bearer {token}"] if token else []),
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def error_code(status: int, body: bytes) -> str:
    """A short word for an answer that is no sound: the code of an OpenAI error, else the status."""
    try:
        fields: Any = json.loads(body)["error"]["code"]
    except (ValueError, KeyError, TypeError):
        fields = None
    return str(fields or f"http {status}")


def _ignore(body: bytes) -> None:
    pass


def _nothing() -> None:
    pass
