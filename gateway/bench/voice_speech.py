"""Listeners of `voice.v1` with true acks: the protocol's own client, and a player that reports.

t0 is just before `say`; the session is open before. A chunk is one binary message, its length what
its header says. The session is kept for the next reply.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from websockets.exceptions import WebSocketException

from gateway.bench.arrivals import Habits, Plan
from gateway.bench.listening import Clock, ended, listen
from gateway.bench.take import Take, refusal
from gateway.bench.target import Target
from gateway.client import Player, Utterance, VoiceClient, VoiceError
from gateway.protocol.chunk import Chunk, Codec, Flag
from gateway.say import words
from gateway.sound import TICKS_PER_SAMPLE
from gateway.sound.opus import OpusDecoder

CODECS = {"pcm": "pcm_s16le", "opus": "opus"}
REBUFFER = 0.0  # s: like the measured playback, the player goes on as soon as there is sound


@dataclass(slots=True, kw_only=True)
class Ears(Player):
    """A player that also tells when each chunk came."""

    chunk_came: Callable[[Chunk, float], None]
    silent: bool = False  # sends no acks

    def received(self, chunk: Chunk, now: float) -> None:
        """A chunk has arrived."""
        Player.received(self, chunk, now)
        self.chunk_came(chunk, now)

    def acks(self, now: float) -> list[dict[str, Any]]:
        """The acks that are due; none from a silent one."""
        due = Player.acks(self, now)
        return [] if self.silent else due


class VoiceListener:
    """One session; replies one after the other."""

    def __init__(self, target: Target, habits: Habits, *, clock: Clock) -> None:
        self._target = target
        self._habits = habits
        self._clock = clock
        self._voice: VoiceClient | None = None
        self._sound: ChunkSound | None = None

    async def speak(self, text: str, plan: Plan) -> Take:
        """Ask for one reply and listen to its end. Its failures are in the take."""
        try:
            voice = await self._connected()
        except (OSError, WebSocketException, VoiceError) as error:
            return self._failed("connect" if isinstance(error, OSError) else _code(error))
        take = Take(self._habits, now=self._clock())
        self._sound = ChunkSound(take, voice.pre_skip)
        rate = self._target.words_per_second
        try:
            whole = _paced(text, rate) if rate else text
            utterance = await voice.speak(whole, **self._target.fields)
        except VoiceError:
            take.finish(self._clock(), "failed", "disconnected")
            await self.close()
            return take
        await self._attend(take, plan, voice, utterance)
        if take.code in ("timeout", "disconnected"):
            await self.close()
        return take

    async def close(self) -> None:
        """End the session."""
        voice, self._voice = self._voice, None
        if voice:
            await voice.__aexit__(None, None, None)

    async def _connected(self) -> VoiceClient:
        if self._voice is None:
            player = Ears(
                prebuffer=self._habits.start_buffer,
                rebuffer=REBUFFER,
                latency=self._habits.latency,
                chunk_came=self._chunk,
                silent=not self._target.acks,
            )
            voice = VoiceClient(
                re.sub("^http", "ws", self._target.url.rstrip("/")) + "/v1/voice",
                codecs=[CODECS[self._target.codec]],
                voice=self._target.voice or None,
                token=self._target.token or None,
                player=player,
                hello={"acks": self._target.acks},
                clock=self._clock,
            )
            await voice.__aenter__()
            self._voice = voice
        return self._voice

    def _chunk(self, chunk: Chunk, now: float) -> None:
        if self._sound:
            self._sound.add(chunk, now)

    async def _attend(
        self, take: Take, plan: Plan, voice: VoiceClient, utterance: Utterance
    ) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(ended(take, self._target.patience, self._clock))
            closing = group.create_task(self._watch(take, utterance))
            await listen(take, plan, _Hands(voice, utterance, take), self._clock)
            await take.over.wait()
            closing.cancel()

    async def _watch(self, take: Take, utterance: Utterance) -> None:
        await utterance.closed.wait()
        final = utterance.final or {}
        now = self._clock()
        if final["type"] == "done" and take.first_at is not None:
            take.finish(now, "complete")
        elif final["type"] == "cancelled":
            take.finish(now, "cancelled")
        else:
            code = str(final.get("code", "no_audio"))
            take.finish(now, refusal(code), code)

    def _failed(self, code: str) -> Take:
        take = Take(self._habits, now=self._clock())
        take.finish(take.t0, refusal(code), code)
        return take


class ChunkSound:
    """Chunks of one reply; decoded only until the onset is found."""

    def __init__(self, take: Take, pre_skip: int) -> None:
        self._take = take
        self._pre_skip = pre_skip
        self._decoder: OpusDecoder | None = None

    def add(self, chunk: Chunk, now: float) -> None:
        """Take a chunk as long as its header says."""
        samples = chunk.duration / TICKS_PER_SAMPLE
        unknown = self._take.onset.position is None
        self._take.sound(now, samples, self._pcm(chunk) if unknown else b"")

    def _pcm(self, chunk: Chunk) -> bytes:
        if chunk.codec is Codec.PCM:
            return chunk.packets[0]
        self._decoder = self._decoder or OpusDecoder()
        pcm = b"".join(map(self._decoder.decode, chunk.packets))
        start = 2 * self._pre_skip // TICKS_PER_SAMPLE if Flag.FIRST in chunk.flags else 0
        return pcm[start : start + 2 * chunk.duration // TICKS_PER_SAMPLE]


class _Hands:
    def __init__(self, voice: VoiceClient, utterance: Utterance, take: Take) -> None:
        self._voice = voice
        self._utterance = utterance
        self._take = take

    def pause(self) -> None:
        self._voice.pause()

    def resume(self) -> None:
        self._voice.resume()

    async def interrupt(self) -> None:
        """Mute first, then cancel; the answer says what was heard."""
        with suppress(VoiceError):
            heard = await self._utterance.cancel()
            self._take.heard_to = heard.get("text_to")


async def _paced(text: str, words_per_second: float) -> AsyncIterator[str]:
    """Words as a language model sends them."""
    for word in words(text):
        yield word
        await asyncio.sleep(1 / words_per_second)


def _code(error: Exception) -> str:
    return error.code if isinstance(error, VoiceError) else "connect"
