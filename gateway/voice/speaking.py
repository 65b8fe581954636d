"""One utterance of a session: its text, its sound, and the one message that ends it."""

from __future__ import annotations

import asyncio
import logging
import time

from engine.api import SAMPLE_RATE, Audio, Ended, Open, Status
from engine.client import Speech
from gateway.protocol import ProtocolError, messages
from gateway.protocol.messages import Heard
from gateway.protocol.requests import Ack, Cancel, Say
from gateway.sound import TICKS_PER_SAMPLE, TICKS_PER_SECOND
from gateway.voice.alignment import Alignment
from gateway.voice.common import Common
from gateway.voice.greeting import Manner
from gateway.voice.limits import TokenBucket
from gateway.voice.sound_flow import SoundFlow
from gateway.voice.text_flow import TextFlow

logger = logging.getLogger(__name__)

LONGEST_HOLD = 0.3  # s: the most a late engine asks a player to wait

SPOKEN = ("complete", "max_audio", "runaway")  # ends after which there is sound to hear
_KNOWN_CODES = frozenset(
    {
        *("overloaded", "engine_lost", "engine_unavailable", "no_audio", "text_too_long"),
        *("unsupported_voice", "unsupported_language", "unsupported_instructions"),
    }
)
_OTHER_CODES = {"refused": "engine_unavailable", "failed": "generation_failed"}


class Speaking:
    """From `say` to `done`, `cancelled` or `error`."""

    def __init__(self, say: Say, n: int, manner: Manner, common: Common) -> None:
        self.utterance = say.utterance
        self.mode = say.mode
        self.n = n
        self.open = True  # no final message yet
        self.engine_id = ""  # once the engine knows it
        rate = common.house.config.limits.acks_per_second
        self.acks = TokenBucket(rate, rate)  # what exceeds it tells nothing new
        self.text = TextFlow(self._begin, self._give_up, common.house.config)
        self.sound = SoundFlow(n, common, self._tell_started)
        self._manner = manner
        self._common = common
        self._alignment = Alignment()
        self._task: asyncio.Task[None] | None = None
        self._asked_at = 0.0  # first speakable text
        self._first_audio: float | None = None  # s after it
        self._samples = 0  # made by the engine
        self._sent_to = 0  # code points whose sound was handed over

    # -------------------------------------------------- from the client

    def add(self, text: str, last: bool) -> None:
        """Take text. Raises ProtocolError; after `text_too_long` the utterance is over."""
        try:
            self.text.add(text, last)
        except ProtocolError as problem:
            if problem.code != "text_too_long":
                raise
            self.fail(problem)
            return
        if last and self.text.speech is None:
            self._finish("empty")

    def flush(self) -> None:
        """Speak what is here; `flushed` follows its sound."""
        self.text.flush()
        self._tell_flushed(self.text.flushed(self._sent_to))

    def acked(self, ack: Ack, now: float) -> None:
        """Believe an ack and pass it on. Raises AckRefused."""
        report = self.sound.listener.accept(ack, self._common.link, now)
        self.sound.arrived(ack.seq)
        if report and self.text.speech and self.open and self._common.terms.hello.acks:
            self.text.speech.playback(report.rendered, report.state, report.delay)

    def cancel(self, heard: Heard) -> None:
        """Stop at once; the fence goes out now."""
        listener = self.sound.listener
        message = messages.cancelled(
            self.utterance,
            self.n,
            last_seq=listener.last_seq,
            sent=listener.sent,
            generated=self._samples * TICKS_PER_SAMPLE,
            heard=heard,
        )
        self.stop()
        self._end(message, "cancelled")

    def fail(self, problem: ProtocolError) -> None:
        """End with an error."""
        problem.utterance = self.utterance
        self.stop()
        self._end(messages.error(problem, n=self.n), problem.code)

    def stop(self) -> None:
        """Let go of everything, without a word: the listener has left or is being told."""
        self.sound.stop()
        self.text.stop()
        if self.text.speech:
            self.text.speech.cancel()
        task, self._task = self._task, None
        if task and task is not asyncio.current_task():
            task.cancel()

    def heard(self, cancel: Cancel | None, now: float) -> Heard:
        """What the listener heard, in sound and in text."""
        ticks, source, uncertainty = self.sound.playhead(cancel.played_ms if cancel else None, now)
        text_to = self._alignment.text_at(ticks)
        text = self.text.text[:text_to]
        return Heard(ticks / TICKS_PER_SECOND, source, uncertainty, text_to, text)

    # -------------------------------------------------- from the engine

    def _begin(self) -> Speech:
        common, manner = self._common, self._manner
        house, terms = common.house, common.terms
        before = common.predecessor(self) if self.mode == "queue" else None
        self.sound.listener.after = before.sound.listener if before else None
        self._asked_at = time.monotonic()
        self.engine_id = house.new_id()
        speech = house.engine.open(
            Open(
                self.engine_id,
                manner.voice,
                manner.language,
                manner.instructions,
                manner.seed,
                after=before.engine_id if before else None,
                acks=terms.hello.acks,
                status="stats" in terms.hello.want,
                max_lead=terms.max_lead,
                max_audio=manner.max_audio,
                key=common.key,
            )
        )
        self._task = common.spawn(self._run(speech))
        return speech

    async def _run(self, speech: Speech) -> None:
        self.sound.prepare()  # the engine is at work meanwhile
        async for event in speech:
            if isinstance(event, Status):
                self._tell_status(event)
            else:
                await self._voice(event)
        assert speech.ended
        await self._conclude(speech.ended)

    async def _voice(self, audio: Audio) -> None:
        self._samples = max(self._samples, audio.start + len(audio.pcm) // 2)
        self._alignment.add(self._samples * TICKS_PER_SAMPLE, audio.text_to)
        reached = self.text.flushed(self._alignment.text_to)
        await self.sound.send(audio.pcm, last=audio.last, segment_end=bool(reached))
        self._sent_to = self._alignment.text_to
        self._tell_marks()
        self._tell_flushed([*reached, *self.text.flushed(self._sent_to)])

    async def _conclude(self, ended: Ended) -> None:
        if ended.reason in SPOKEN:
            if not self.sound.drained:
                await self._voice(Audio("", self._samples, b"", ended.text_to, last=True))
            if self._samples:
                self._finish(ended.reason)
            else:
                self.fail(ProtocolError("no_audio", "the text gave no sound; try again"))
        elif ended.reason == "empty":
            self._finish("empty")
        else:
            self.fail(_problem(ended))

    def _give_up(self) -> None:
        idle = self._common.house.config.text_idle
        text = f"no text for {idle:g} s: ended as if `last`"
        warning = messages.warning("text_idle", text, utterance=self.utterance)
        self._common.outbox.put(warning)
        self.add("", last=True)

    # -------------------------------------------------- words to the client

    def _tell_started(self) -> None:
        now = time.monotonic()
        self._first_audio = now - self._asked_at
        after, link = self.sound.listener.after, self._common.link
        load = self._common.house.engine.load
        message = messages.started(
            self.utterance,
            self.n,
            queued=after.dry(link, now) - now if after else 0.0,
            hold=min(load.lateness, LONGEST_HOLD) if load else 0.0,
        )
        self._common.outbox.put(message)

    def _tell_marks(self) -> None:
        if "marks" not in self._common.terms.hello.want:
            return
        words = self._alignment.words(self.text.text)
        if words:
            self._common.outbox.put(messages.marks(self.utterance, self.n, words))

    def _tell_flushed(self, reached: list[int]) -> None:
        ticks = self.sound.ticks
        for text_to in reached:
            message = messages.flushed(self.utterance, self.n, text_to=text_to, ticks=ticks)
            self._common.outbox.put(message)

    def _tell_status(self, status: Status) -> None:
        link = self._common.link
        message = messages.stats(
            self.n,
            seq=self.sound.listener.last_seq,
            lead=status.lead,
            slack=status.slack,
            round_trip=link.round_trip,
            jitter=link.jitter,
            offset=link.offset(time.monotonic()),
            drift=link.clock.drift,
            model=status.model if link.trusted else "untrusted",
        )
        self._common.outbox.put(message)

    def _finish(self, reason: str) -> None:
        whole = len(self.text.text)
        self._tell_flushed(self.text.flushed(whole))
        message = messages.done(
            self.utterance,
            self.n,
            reason=reason,
            ticks=self.sound.ticks,
            last_seq=self.sound.last_seq,
            text_to=whole if reason in ("complete", "empty") else self._alignment.text_to,
            first_audio=self._first_audio,
        )
        self._end(message, reason)

    def _let_go(self) -> None:
        """Keep no sound, and nothing that holds this: it is remembered for long, then goes at once.

        The collector would come for it after a thousand others. An ended task holds its frames, and
        they the last sound.
        """
        self._task = None
        self.text.stop()
        self.sound.let_go()

    def _end(self, message: str, outcome: str) -> None:
        assert self.open, self.utterance
        self.open = False
        self._let_go()
        logger.info(
            "spoke utterance=%s engine=%s outcome=%s characters=%d seconds=%.2f first_audio=%.3f",
            self.utterance,
            self.engine_id or "-",
            outcome,
            len(self.text.text),
            self._samples / SAMPLE_RATE,
            self._first_audio or 0.0,
        )
        self._common.outbox.put(message)
        self._common.over(self)


def _problem(ended: Ended) -> ProtocolError:
    known = ended.detail in _KNOWN_CODES
    code = ended.detail if known else _OTHER_CODES.get(ended.reason, "generation_failed")
    return ProtocolError(
        code,
        f"the engine ended the utterance: {ended.reason}: {code}",
        param=code.removeprefix("unsupported_") if code.startswith("unsupported_") else None,
        retry_after=ended.retry_after,
    )
