"""Listeners of the OpenAI speech route: `POST /v1/audio/speech`, PCM or Ogg-Opus.

t0 is the moment the JSON body leaves; connecting comes before it and is not counted. A chunk is
what one read of the transport returned.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from gateway.bench import http_stream
from gateway.bench.arrivals import Habits, Plan
from gateway.bench.http_stream import Connection
from gateway.bench.listening import Clock, ended, listen
from gateway.bench.ogg_reader import OggError, OggReader
from gateway.bench.take import Take, refusal
from gateway.bench.target import Target
from gateway.sound import TICKS_PER_SAMPLE
from gateway.sound.opus import OpusDecoder


class HttpListener:
    """One client of the route; its connection is kept for the next reply."""

    def __init__(
        self,
        target: Target,
        habits: Habits,
        *,
        clock: Clock,
        connect: Callable[[str], Awaitable[Connection]] = http_stream.connect,
    ) -> None:
        self._target = target
        self._habits = habits
        self._clock = clock
        self._connect = connect
        self._connection: Connection | None = None

    async def speak(self, text: str, plan: Plan) -> Take:
        """Ask for one reply and take it in. Its failures are in the take."""
        body = json.dumps(self._fields(text)).encode()
        head = http_stream.request_head(
            self._target.url, length=len(body), token=self._target.token
        )
        try:
            connection = await self._connected()
        except OSError:
            take = Take(self._habits, now=self._clock())
            take.finish(take.t0, "failed", "connect")
            return take
        take = Take(self._habits, now=self._clock())
        sound = _sound(self._target.codec, take)
        answer = Answer(take, connection, sound, self._clock)
        connection.ask(head, body, on_body=answer.body, on_end=answer.end)
        await self._attend(take, plan, connection)
        return take

    async def close(self) -> None:
        """Leave."""
        if self._connection:
            self._connection.close()

    async def _attend(self, take: Take, plan: Plan, connection: Connection) -> None:
        stays = self._target.listen or plan.barge_in_at is not None
        try:
            async with asyncio.TaskGroup() as group:
                if stays:
                    group.create_task(listen(take, plan, _Leaving(take, connection), self._clock))
                group.create_task(ended(take, self._target.patience, self._clock))
        finally:
            if not connection.body.whole:
                connection.close()

    async def _connected(self) -> Connection:
        if self._connection is None or not self._connection.open:
            self._connection = await self._connect(self._target.url)
        return self._connection

    def _fields(self, text: str) -> dict[str, Any]:
        target = self._target
        return {
            "model": target.model or "tts-1",
            "input": text,
            **({"voice": target.voice} if target.voice else {}),
            "response_format": target.codec,
            "stream": True,
            **target.fields,
        }


class Answer:
    """What happens to a take as its answer arrives."""

    def __init__(
        self, take: Take, connection: Connection, sound: PcmSound | OggSound, clock: Clock
    ) -> None:
        self._take = take
        self._connection = connection
        self._sound = sound
        self._clock = clock
        self._error = b""

    def body(self, received: bytes) -> None:
        """A read brought this much of the body."""
        now = self._clock()
        if self._connection.body.status != 200:
            self._error += received
            return
        try:
            self._sound.add(now, received)
        except OggError:
            self._take.finish(now, "failed", "no_ogg")
            self._connection.close()

    def end(self) -> None:
        """The answer is whole, or never will be."""
        now = self._clock()
        answer, take = self._connection.body, self._take
        if take.stopped_at is not None:
            take.finish(now, "cancelled")
        elif answer.status and answer.status != 200:
            code = http_stream.error_code(answer.status, self._error)
            take.finish(now, refusal(code), code)
        elif not answer.whole:
            take.finish(now, "failed", self._connection.failure)
        elif take.first_at is None:
            take.finish(now, "failed", "no_audio")
        else:
            take.finish(now, "complete")


class PcmSound:
    """int16 samples; a read may end within one."""

    def __init__(self, take: Take) -> None:
        self._take = take
        self._odd = b""

    def add(self, now: float, received: bytes) -> None:
        """Pass whole samples on."""
        pcm = self._odd + received
        whole = len(pcm) - len(pcm) % 2
        self._odd = pcm[whole:]
        self._take.sound(now, whole // 2, pcm[:whole])


class OggSound:
    """Ogg-Opus; decoded only until the onset is found, since lengths stand in the packets."""

    def __init__(self, take: Take) -> None:
        self._take = take
        self._reader = OggReader()
        self._decoder = OpusDecoder()
        self._skipped = 0  # samples of the decoder's delay dropped so far

    def add(self, now: float, received: bytes) -> None:
        """Pass on what all packets of this read add, as one piece. Raises OggError."""
        samples, pcm = 0, b""
        for packet, heard in self._reader.add(received):
            samples += heard
            if self._take.onset.position is None:
                pcm += self._heard(self._decoder.decode(packet), heard)
        self._take.sound(now, samples, pcm)

    def _heard(self, pcm: bytes, samples: int) -> bytes:
        skip = min(self._reader.pre_skip // TICKS_PER_SAMPLE - self._skipped, len(pcm) // 2)
        self._skipped += skip
        return pcm[2 * skip : 2 * (skip + samples)]


class _Leaving:
    """A listener who interrupts closes the connection: the route knows nothing gentler."""

    def __init__(self, take: Take, connection: Connection) -> None:
        self._take = take
        self._connection = connection

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass

    async def interrupt(self) -> None:
        self._connection.close()


def _sound(codec: str, take: Take) -> PcmSound | OggSound:
    return OggSound(take) if codec == "opus" else PcmSound(take)
