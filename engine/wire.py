"""Commands and events as bytes between gateway and engine processes. Sans-I/O, no pickle.

A message is `u32 head length, u32 tail length`, a JSON head and a raw tail (the samples of an
`Audio`), little-endian. JSON because machines with a GPU may have nothing but the standard library.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from dataclasses import asdict, fields
from typing import Any

from engine import api

LENGTHS = struct.Struct("<II")
TOKEN_VARIABLE = "PLAYHEAD_ENGINE_TOKEN"  # secret that gateway and engine share, for tcp
LONGEST = 8 << 20  # bytes of head or tail: ten seconds of sound are 0.5 MB

Message = api.Command | api.Event | api.Info
_json = json.JSONEncoder(separators=(",", ":")).encode

_KINDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        *(api.Open, api.Append, api.Flush, api.Finish, api.Playback, api.Cancel),
        *(api.Audio, api.Ended, api.Status, api.Load, api.Info),
    )
}
_NAMES = {name: tuple(field.name for field in fields(kind)) for name, kind in _KINDS.items()}


class WireError(api.EngineError):
    """The other side sent what is not a message; the connection cannot go on."""


def encode(message: Message) -> bytes:
    """Return one message as bytes."""
    kind = type(message).__name__
    content: dict[str, Any] = {name: getattr(message, name) for name in _NAMES[kind]}
    tail: bytes = content.pop("pcm", b"")
    if content.get("sampling") is not None:
        content["sampling"] = asdict(content["sampling"])
    head = _json({"kind": kind, **content}).encode()
    return LENGTHS.pack(len(head), len(tail)) + head + tail


class Decoder:
    """Cuts a byte stream into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, received: bytes) -> Iterator[Message]:
        """Add bytes and yield the messages they complete. Raises WireError."""
        self._buffer += received
        while len(self._buffer) >= LENGTHS.size:
            head, tail = LENGTHS.unpack_from(self._buffer)
            if max(head, tail) > LONGEST:
                raise WireError(f"wire: message of {max(head, tail)} bytes; at most {LONGEST}")
            end = LENGTHS.size + head + tail
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[LENGTHS.size : end])
            del self._buffer[:end]
            yield _message(body[:head], body[head:])


def _message(head: bytes, tail: bytes) -> Message:
    try:
        content = json.loads(head)
        name = content.pop("kind")
        kind, known = _KINDS[name], _NAMES[name]
        values = {key: _value(value) for key, value in content.items() if key in known}
        if kind is api.Audio:
            values["pcm"] = tail
        if kind is api.Open and values.get("sampling") is not None:
            values["sampling"] = api.Sampling(**content["sampling"])
        message: Message = kind(**values)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise WireError(f"wire: not a message: {error!r}") from error
    return message


def _value(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def greeting() -> bytes:
    """Return the line that opens a connection."""
    token = os.environ.get(TOKEN_VARIABLE, "")
    return f"playhead {api.API_VERSION} {token}\n".encode()


def split_address(address: str) -> tuple[str, str]:
    """Return ("unix", path) or ("tcp", "host:port"). Raises ConfigError."""
    if address.startswith("unix:") and len(address) > len("unix:"):
        return "unix", address.removeprefix("unix:")
    place = address.removeprefix("tcp://")
    if address.startswith("tcp://") and place.rpartition(":")[2].isdigit():
        return "tcp", place
    raise api.ConfigError(f"engine address: want `unix:/path` or `tcp://host:port`, got: {address}")
