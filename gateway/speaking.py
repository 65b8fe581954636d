"""One utterance of a session: its text, its sound, what was heard of it, and how it ended."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from engine.api import SAMPLE_RATE, Audio, Ended, Open, Status
from engine.client import EngineClient, Speech
from gateway import messages
from gateway.acks import BACK_MS, Link, Listener
from gateway.alignment import Alignment
from gateway.chunk import TICKS_PER_SECOND, Chunk, Flag
from gateway.coding import Coder, Piece
from gateway.config import GatewayConfig
from gateway.messages import Heard
from gateway.outbox import Outbox, Sound
from gateway.protocol import ProtocolError
from gateway.requests import Ack, Cancel, Say
from gateway.text_flow import TextFlow

logger = logging.getLogger(__name__)

TICKS_PER_SAMPLE = TICKS_PER_SECOND // SAMPLE_RATE
SAFETY_LEAD = 1.0  # s beyond the engine's own limit: a net that normally never acts
RECEIPT_SECONDS = 10.0  # s of sound that may be under way unreceived …
RECEIPT_BYTES = 262_144  # … and bytes of it
RECHECK = 0.25  # s after which a waiting chunk looks again, if nothing wakes it
LONGEST_HOLD = 0.3  # s: the most a late engine asks a player to wait

_ENDED_CODES = {"refused": "engine_unavailable", "failed": "generation_failed"}


@dataclass(slots=True, kw_only=True)
class Common:
    """What all utterances of one session share."""

    engine: EngineClient
    config: GatewayConfig
    link: Link
    outbox: Outbox
    acks: bool  # the client reports its playhead
    wanted: frozenset[str]  # "marks", "stats"
    max_lead: float  # s
    key: str  # whose utterances, for fairness
    new_coder: Callable[[], Coder]
    new_id: Callable[[], str]  # unique in the engine
    spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
    predecessor: Callable[[Speaking], Speaking | None]  # heard before it, if queued
    over: Callable[[Speaking], None]  # told once, after the last message


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How an utterance is spoken, resolved from `say`, `hello` and the engine's defaults."""

    voice: str
    language: str
    instructions: str
    seed: int
    max_audio: float  # s


class Speaking:
    """From `say` to `done`, `cancelled` or `error`."""

    def __init__(self, say: Say, n: int, manner: Manner, common: Common) -> None:
        self.utterance = say.utterance
        self.mode = say.mode
        self.n = n
        self.open = True  # no final message yet
        self.stopped = False  # chunks that wait are dropped
        self.listener = Listener(acks=common.acks)
        self.alignment = Alignment()
        self.received = -1  # last chunk known to have arrived
        self.engine_id = ""  # once opened
        self.flow = TextFlow(self._begin, self._give_up, common.config)
        self._manner = manner
        self._common = common
        self._coder: Coder | None = None
        self._task: asyncio.Task[None] | None = None
        self._moved = asyncio.Event()  # the listener moved, or something arrived
        self._asked_at = 0.0  # first speakable text
        self._first_audio: float | None = None  # s after it
        self._seq = 0  # of the next chunk
        self._queued = 0  # ticks handed to the outbox
        self._bytes = [0]  # cumulative, per chunk handed over
        self._samples = 0  # made by the engine
        self._drained = False  # the chunk flagged last is handed over

    # ------------------------------------------------------------------ from the client

    def add(self, text: str, last: bool) -> None:
        """Take text. Raises ProtocolError; after `text_too_long` the utterance is over."""
        try:
            self.flow.add(text, last)
        except ProtocolError as problem:
            if problem.code != "text_too_long":
                raise
            self.fail(problem)
            return
        if last and self.flow.speech is None:
            self._finish("empty")

    def flush(self) -> None:
        """Speak what is here; `flushed` follows its sound."""
        if not self.flow.flush():
            self._tell_flushed(len(self.flow.text))

    def acked(self, ack: Ack, now: float) -> None:
        """Believe an ack and pass it on. Raises AckRefused."""
        report = self.listener.accept(ack, self._common.link, now)
        self.arrived(ack.seq)
        if self.flow.speech and self.open:
            self.flow.speech.playback(report.rendered, report.state, report.delay)

    def arrived(self, seq: int) -> None:
        """Chunks up to `seq` reached the client."""
        self.received = max(self.received, seq)
        self._moved.set()

    def cancel(self, heard: Heard) -> None:
        """Stop at once; the fence goes out now."""
        sent, last_seq = self.listener.sent, self.listener.last_seq
        self._end(
            messages.cancelled(
                self.utterance,
                self.n,
                last_seq=last_seq,
                sent=sent,
                generated=self._samples * TICKS_PER_SAMPLE,
                heard=heard,
            )
        )
        self.stop()

    def fail(self, problem: ProtocolError) -> None:
        """End with an error."""
        problem.utterance = self.utterance
        self._end(messages.error(problem, n=self.n))
        self.stop()

    def stop(self) -> None:
        """Let go of everything, without a word: the listener has left or been told."""
        self.open = False
        self.stopped = True
        self.listener.stopped = True
        self.flow.stop()
        if self.flow.speech:
            self.flow.speech.cancel()
        if self._task:
            self._task.cancel()

    def heard(self, cancel: Cancel | None, now: float) -> Heard:
        """What was heard: by the client's word if possible, else by acks, else by the clock."""
        listener, link = self.listener, self._common.link
        ticks = listener.heard(link, now)
        if listener.last is None or not link.trusted:
            source: messages.HeardSource = "estimate"
            uncertainty = ticks / TICKS_PER_SECOND  # it may have started late, or not at all
        else:
            source = "ack"
            age = now - listener.at
            uncertainty = age if age > link.stale_after else link.delay + BACK_MS / 1000
        played_ms = cancel.played_ms if cancel else None
        if played_ms is not None and link.trusted and listener.plausible(played_ms, now):
            source, uncertainty = "client", BACK_MS / 1000
            ticks = min(listener.sent, played_ms * TICKS_PER_SECOND / 1000)
        text_to = self.alignment.text_at(ticks)
        seconds = ticks / TICKS_PER_SECOND
        return Heard(seconds, source, uncertainty, text_to, self.flow.text[:text_to])

    def unheard(self, now: float) -> float:
        """Seconds sent but not heard."""
        return (self.listener.sent - self.listener.heard(self._common.link, now)) / TICKS_PER_SECOND

    @property
    def unreceived(self) -> float:
        """Seconds sent that are not known to have arrived."""
        return (self.listener.sent - self._end_of(self.received)) / TICKS_PER_SECOND

    # ------------------------------------------------------------------ to the client

    def carried(self, chunk: Chunk, now: float) -> None:
        """The writer sends the chunk now."""
        self.listener.carried(chunk.end, now, sent_ms=int(now * 1000))
        self.listener.complete |= Flag.LAST in chunk.flags

    async def _run(self, speech: Speech) -> None:
        async for event in speech:
            if isinstance(event, Status):
                self._tell_status(event)
            else:
                await self._voice(event)
        assert speech.ended
        await self._conclude(speech.ended)

    def _begin(self) -> Speech:
        common, manner = self._common, self._manner
        before = common.predecessor(self) if self.mode == "queue" else None
        self.listener.after = before.listener if before else None
        self._asked_at = time.monotonic()
        self.engine_id = common.new_id()
        speech = common.engine.open(
            Open(
                self.engine_id,
                manner.voice,
                manner.language,
                manner.instructions,
                manner.seed,
                after=before.engine_id if before else None,
                acks=common.acks,
                status="stats" in common.wanted,
                max_lead=common.max_lead,
                max_audio=manner.max_audio,
                key=common.key,
            )
        )
        self._task = common.spawn(self._run(speech))
        return speech

    async def _voice(self, audio: Audio) -> None:
        """Encode one piece of the engine's sound and hand it over, if there is room for it."""
        self._samples = max(self._samples, audio.start + len(audio.pcm) // 2)
        self.alignment.add(self._samples * TICKS_PER_SAMPLE, audio.text_to)
        if self._coder is None:
            self._coder = self._common.new_coder()
        pieces = await self._coder.code(audio.pcm, audio.last)
        reached = self.flow.flushed(self.alignment.text_to)
        for index, piece in enumerate(pieces, start=1):
            final = index == len(pieces)
            flags = Flag.LAST if final and audio.last else Flag(0)
            flags |= Flag.SEGMENT_END if final and reached else Flag(0)
            await self._hand_over(piece, flags)
        self._drained |= audio.last
        self._tell_marks()
        for text_to in reached:
            self._tell_flushed(text_to)

    async def _hand_over(self, piece: Piece, flags: Flag) -> None:
        assert self._coder
        await self._room()
        if self._seq == 0:
            flags |= Flag.FIRST
            self._tell_started()
        chunk = Chunk(
            self._coder.codec, flags, self.n, self._seq, self._queued, piece.duration, piece.packets
        )
        self._seq += 1
        self._queued += piece.duration
        self._bytes.append(self._bytes[-1] + chunk.size)
        self._common.outbox.put(Sound(self, chunk))

    async def _room(self) -> None:
        """Wait until the listener is near enough to what was handed over."""
        while not self._has_room(time.monotonic()):
            self._moved.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(RECHECK):
                    await self._moved.wait()

    def _has_room(self, now: float) -> bool:
        common = self._common
        ahead = (self._queued - self.listener.heard(common.link, now)) / TICKS_PER_SECOND
        if ahead >= common.max_lead + SAFETY_LEAD:
            return False
        if not common.acks:
            return True
        under_way = (self._queued - self._end_of(self.received)) / TICKS_PER_SECOND
        size = self._bytes[-1] - self._bytes[self.received + 1]
        return under_way < RECEIPT_SECONDS and size < RECEIPT_BYTES

    def _end_of(self, seq: int) -> int:
        return self.listener.ends[seq] if seq >= 0 else 0

    # ------------------------------------------------------------------ words to the client

    def _tell_started(self) -> None:
        now = time.monotonic()
        self._first_audio = now - self._asked_at
        after, link = self.listener.after, self._common.link
        load = self._common.engine.load
        self._common.outbox.put(
            messages.started(
                self.utterance,
                self.n,
                queued=after.dry(link, now) - now if after else 0.0,
                hold=min(load.lateness, LONGEST_HOLD) if load else 0.0,
            )
        )

    def _tell_marks(self) -> None:
        if "marks" not in self._common.wanted:
            return
        words = self.alignment.words(self.flow.text)
        if words:
            self._common.outbox.put(messages.marks(self.utterance, self.n, words))

    def _tell_flushed(self, text_to: int) -> None:
        self._common.outbox.put(
            messages.flushed(self.utterance, self.n, text_to=text_to, ticks=self._queued)
        )

    def _tell_status(self, status: Status) -> None:
        link = self._common.link
        self._common.outbox.put(
            messages.stats(
                self.n,
                seq=self.listener.last_seq,
                lead=status.lead,
                slack=status.slack,
                round_trip=link.round_trip,
                jitter=link.jitter,
                model=status.model if link.trusted else "untrusted",
            )
        )

    def _give_up(self) -> None:
        self._common.outbox.put(
            messages.warning(
                "text_idle",
                f"no text for {self._common.config.text_idle:g} s: ended as if `last`",
                utterance=self.utterance,
            )
        )
        self.add("", last=True)

    async def _conclude(self, ended: Ended) -> None:
        if ended.reason in ("complete", "max_audio", "runaway"):
            if not self._drained:
                tail = Audio(self.engine_id, self._samples, b"", ended.text_to, last=True)
                await self._voice(tail)
            if self._samples:
                self._finish(ended.reason)
            else:
                self.fail(
                    ProtocolError("no_audio", "the text was valid but gave no sound; try again")
                )
        elif ended.reason == "empty":
            self._finish("empty")
        else:
            self.fail(_problem(ended))

    def _finish(self, reason: str) -> None:
        text_to = len(self.flow.text) if reason in ("complete", "empty") else self.alignment.text_to
        for reached in self.flow.flushed(len(self.flow.text)):
            self._tell_flushed(reached)
        self._end(
            messages.done(
                self.utterance,
                self.n,
                reason=reason,
                ticks=self._queued,
                last_seq=self._seq - 1,
                text_to=text_to,
                first_audio=self._first_audio,
            )
        )

    def _end(self, message: str) -> None:
        assert self.open
        self.open = False
        self.flow.stop()
        self._common.outbox.put(message)
        self._common.over(self)


def _problem(ended: Ended) -> ProtocolError:
    code = ended.detail if ended.detail.replace("_", "").isalpha() else ""
    return ProtocolError(
        code or _ENDED_CODES.get(ended.reason, "generation_failed"),
        f"the engine ended the utterance: {ended.reason}: {ended.detail or 'no detail'}",
        param=code.removeprefix("unsupported_") if code.startswith("unsupported_") else None,
        retry_after=ended.retry_after,
    )
