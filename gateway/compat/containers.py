"""Sound in the container an HTTP client asked for, piece by piece.

A container is started once, fed PCM and finished once; each call answers with the bytes to send
now.
"""

from __future__ import annotations

import base64
import json
import random
from typing import Any, Protocol

from engine.api import FRAME_SAMPLES
from gateway.config import OpusConfig
from gateway.sound import ogg, wav
from gateway.sound.opus import OpusEncoder
from gateway.sound.pool import EncoderPool

FORMATS = ("wav", "pcm", "opus")


class Container(Protocol):
    """PCM in, bytes of one file out."""

    content_type: str

    def start(self) -> bytes:
        """What stands before the sound."""

    async def add(self, pcm: bytes) -> bytes:
        """The next piece of sound; may be empty while a packet fills."""

    async def finish(self) -> bytes:
        """What stands after the sound."""


class Pcm:
    """Samples and nothing else."""

    content_type = "audio/pcm;rate=24000;channels=1"

    def start(self) -> bytes:
        return b""

    async def add(self, pcm: bytes) -> bytes:
        return pcm

    async def finish(self) -> bytes:
        return b""


class Wav(Pcm):
    """One header, then samples."""

    content_type = wav.CONTENT_TYPE

    def __init__(self, samples: int | None) -> None:
        self._samples = samples

    def start(self) -> bytes:
        return wav.header(self._samples)


class Opus:
    """One Ogg stream, encoded on the pool. Raises OpusError without libopus."""

    content_type = ogg.CONTENT_TYPE

    def __init__(self, config: OpusConfig, pool: EncoderPool) -> None:
        self._pool = pool
        self._encoder = OpusEncoder(bitrate=config.bitrate, complexity=config.complexity)
        self._muxer = ogg.OggOpus(pre_skip=self._encoder.pre_skip, serial=random.getrandbits(32))

    def start(self) -> bytes:
        return self._muxer.start()

    async def add(self, pcm: bytes) -> bytes:
        return self._muxer.add(await self._pool.encode(self._encoder, pcm))

    async def finish(self) -> bytes:
        packets = await self._pool.encode(self._encoder, b"", last=True)
        return self._muxer.finish(packets, samples=self._encoder.samples)


class ServerSentEvents:
    """Any container's bytes as OpenAI's `speech.audio.delta` events.

    `usage` counts what this server really counts: code points in, codec frames out.
    """

    content_type = "text/event-stream"

    def __init__(self, inner: Container, *, characters: int) -> None:
        self._inner = inner
        self._characters = characters
        self._samples = 0

    def start(self) -> bytes:
        return _delta(self._inner.start())

    async def add(self, pcm: bytes) -> bytes:
        self._samples += len(pcm) // 2
        return _delta(await self._inner.add(pcm))

    async def finish(self) -> bytes:
        """The rest of the sound, then the end with its usage."""
        frames = -(-self._samples // FRAME_SAMPLES)
        usage = {
            "input_tokens": self._characters,
            "output_tokens": frames,
            "total_tokens": self._characters + frames,
        }
        rest = _delta(await self._inner.finish())
        return rest + server_sent_event({"type": "speech.audio.done", "usage": usage})


def container(
    name: str, *, samples: int | None, config: OpusConfig, pool: EncoderPool
) -> Container:
    """The container called `name`, one of FORMATS; `samples` if all the sound is there already."""
    if name == "opus":
        return Opus(config, pool)
    return Wav(samples) if name == "wav" else Pcm()


def server_sent_event(message: dict[str, Any]) -> bytes:
    """One event on the wire."""
    return b"data: " + json.dumps(message).encode() + b"\n\n"


def _delta(sound: bytes) -> bytes:
    if not sound:
        return b""
    audio = base64.b64encode(sound).decode()
    return server_sent_event({"type": "speech.audio.delta", "audio": audio})
