"""What a session does with each message, and the utterances it holds. No socket here."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any

from gateway.doors import token_valid
from gateway.protocol import ProtocolError, messages
from gateway.protocol.messages import Heard
from gateway.protocol.parsing import parse
from gateway.protocol.requests import (
    Ack,
    Bye,
    Cancel,
    Flush,
    Hello,
    Message,
    Ping,
    Say,
    Text,
    Unknown,
)
from gateway.voice import greeting
from gateway.voice.common import Common
from gateway.voice.house import House
from gateway.voice.limits import Strikes, TokenBucket
from gateway.voice.link import Link
from gateway.voice.outbox import End, Outbox
from gateway.voice.register import Register
from gateway.voice.sound_flow import SoundFlow
from gateway.voice.speaking import Speaking
from gateway.voice.telemetry import Telemetry

logger = logging.getLogger(__name__)

BAD_MESSAGES = 10  # within a minute close the session


class Conversation:
    """Obeys one client's messages and keeps its utterances."""

    def __init__(
        self,
        house: House,
        outbox: Outbox,
        *,
        session: str,
        key: str,
        authorised: bool,
        end: Callable[[End], None],
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        """`end` is called when the session has to close; `spawn` owns the tasks of utterances."""
        self._link = Link(house.config.ack_interval)
        self._house = house
        self._outbox = outbox
        self._session = session
        self._key = key
        self._authorised = authorised
        self._end = end
        self._spawn = spawn
        self._common: Common | None = None
        self._leaving: End | None = None  # how to close once nothing is spoken any more
        self._utterances = Register()
        self._telemetry = Telemetry(self._link, self._utterances, outbox, end)
        limits = house.config.limits
        self._messages = TokenBucket(limits.messages_per_second, limits.message_burst)
        # a bucket of their own, so that no flood delays a barge-in
        self._cancels = TokenBucket(limits.messages_per_second, limits.message_burst)
        self._bad = Strikes(BAD_MESSAGES, 60.0)

    @property
    def greeted(self) -> bool:
        """Whether `hello` has been agreed on."""
        return self._common is not None

    @property
    def speaking(self) -> list[Speaking]:
        """Utterances without their final message."""
        return list(self._utterances.open.values())

    @property
    def sounding(self) -> list[SoundFlow]:
        """What may still be heard, of open utterances and of those that are over."""
        return self._utterances.sounding()

    def hear(self, raw: str, now: float) -> None:
        """Obey one text message, or answer why not."""
        try:
            message = parse(raw)
            self._obey(message, now)
        except ProtocolError as problem:
            if problem.kind == "ack" and self.greeted:
                self._telemetry.distrust(now)
            if problem.kind == "say" and self._utterances.used(problem.utterance or ""):
                problem.utterance = None  # the one of that name goes on
            self._refuse(problem, now)

    def leave(self, end: End) -> None:
        """Close with `end` once the open utterances have ended; take no new ones."""
        self._leaving = end
        self._maybe_leave()

    def stop(self) -> None:
        """Cancel everything without a word and forget it: nobody listens any more."""
        for speaking in self._utterances.all():
            speaking.stop()
        self._utterances.clear()
        self._common = None

    def give_up_paused(self, now: float) -> None:
        """End utterances whose listener has paused for too long."""
        limit = self._house.config.pause_limit
        for speaking in self.speaking:
            since = speaking.sound.listener.paused_since
            if since is not None and now - since > limit:
                speaking.fail(
                    ProtocolError("paused_too_long", f"the listener has paused for {limit:g} s")
                )

    # ------------------------------------------------------------------ messages

    def _obey(self, message: Message, now: float) -> None:
        if isinstance(message, Ack) and self._common:
            self._telemetry.acked(message, now)
            return
        bucket = self._cancels if isinstance(message, Cancel) else self._messages
        if wait := bucket.take(now):
            self._limit(message, wait)
            return
        try:
            self._dispatch(message, now)
        except ProtocolError as problem:
            problem.ref = message.ref
            raise

    def _limit(self, message: Message, wait: float) -> None:
        """Refuse; what would be spoken with a hole in its text is not spoken on."""
        problem = ProtocolError(
            "rate_limited", "too many messages", ref=message.ref, retry_after=wait
        )
        if isinstance(message, Text):
            speaking = self._utterances.open.get(message.utterance)
            if speaking:
                speaking.fail(problem)
                return
        elif isinstance(message, Say) and not self._utterances.used(message.utterance):
            problem.utterance = message.utterance
        raise problem

    def _dispatch(self, message: Message, now: float) -> None:
        if isinstance(message, Hello):
            self._hello(message)
            return
        if self._common is None:
            raise ProtocolError("invalid_message", "want `hello` first", param="type")
        match message:
            case Say():
                self._say(message, self._common, now)
            case Text():
                self._text(message)
            case Flush():
                self._utterances.find(message.utterance).flush()
            case Cancel():
                self._cancel(message, now)
            case Ping():
                if message.t_ms is not None:
                    self._link.clock.glimpsed(message.t_ms / 1000, now)
                self._outbox.put(messages.pong(message.id, message.t_ms, now))
            case Bye(drain=True):
                self.leave(End(1000, "bye"))
            case Bye():
                self._end(End(1000, "bye"))
            case Unknown():
                text = f"`type`: unknown, ignored: {message.type}"
                self._outbox.put(messages.warning("unknown_type", text, ref=message.ref))

    def _hello(self, hello: Hello) -> None:
        if self.greeted:
            raise ProtocolError("invalid_message", "hello: want it once, first", param="type")
        self._authorise(hello)
        house = self._house
        terms = greeting.agree(hello, house)
        self._common = Common(
            house=house,
            terms=terms,
            link=self._link,
            outbox=self._outbox,
            key=self._key,
            spawn=self._spawn,
            predecessor=self._predecessor,
            over=self._ended,
        )
        self._outbox.put(greeting.answer(terms, house, self._session))
        logger.info(
            "greeted session=%s codec=%s acks=%s client=%r",
            self._session,
            terms.codec,
            hello.acks,
            f"{hello.client.name} {hello.client.version}",
        )

    def _authorise(self, hello: Hello) -> None:
        if self._authorised:
            return
        if not token_valid(hello.token or "", self._house.config.tokens):
            raise ProtocolError("unauthorized", "hello: `token`: want a valid one", param="token")
        self._authorised = True

    def _say(self, say: Say, common: Common, now: float) -> None:
        try:
            self._admit(say)
            limits = self._house.config.limits
            info = self._house.engine.info
            manner = greeting.manner(say, common.terms, info, max_audio=limits.max_audio)
            if len(say.text) > limits.text:
                raise ProtocolError(
                    "text_too_long",
                    f"say: `text`: want at most {limits.text} code points, got: {len(say.text)}",
                    param="text",
                )
        except ProtocolError as problem:
            if problem.code != "utterance_exists":
                problem.utterance = say.utterance
            raise
        if say.mode == "replace":
            for other in self.speaking:
                other.cancel(other.heard(None, now))
        speaking = Speaking(say, self._utterances.next_n(), manner, common)
        self._utterances.add(speaking)
        speaking.add(say.text, say.last)

    def _admit(self, say: Say) -> None:
        limits = self._house.config.limits
        if self._utterances.used(say.utterance):
            raise ProtocolError(
                "utterance_exists",
                f"say: `utterance`: want one not used before, got: {say.utterance}",
                param="utterance",
            )
        if self._leaving or self._house.draining:
            raise ProtocolError("engine_unavailable", "the session is closing", param="type")
        if len(self._utterances.open) >= limits.utterances and say.mode != "replace":
            raise ProtocolError(
                "too_many_utterances",
                f"say: want at most {limits.utterances} open utterances",
                param="utterance",
            )
        if not self._house.engine.alive:
            raise ProtocolError("engine_unavailable", "the engine is not running", retry_after=1.0)

    def _text(self, text: Text) -> None:
        speaking = self._utterances.find(text.utterance)
        limit = self._house.config.limits.text_message
        if len(text.text) <= limit or speaking.text.done:
            speaking.add(text.text, text.last)
            return
        problem = ProtocolError(
            "text_too_long",
            f"text: `text`: want at most {limit} code points a message, got: {len(text.text)}",
            param="text",
            ref=text.ref,
        )
        speaking.fail(problem)

    def _cancel(self, cancel: Cancel, now: float) -> None:
        if cancel.utterance != "*":
            self._cancel_one(cancel, now)
            return
        for speaking in self.speaking:
            speaking.cancel(speaking.heard(None, now))
        for over in self._utterances.all():
            if not over.sound.stopped and over.sound.unheard(now) > 0:
                self._tell_closed(over, over.heard(None, now), cancel.ref)

    def _cancel_one(self, cancel: Cancel, now: float) -> None:
        speaking = self._utterances.open.get(cancel.utterance)
        if speaking:
            speaking.cancel(speaking.heard(cancel, now))
            return
        over = self._utterances.over.get(cancel.utterance)
        if over is None or over.sound.stopped:  # what was heard has been told
            self._utterances.find(cancel.utterance)
            return
        self._tell_closed(over, over.heard(cancel, now), cancel.ref)

    def _tell_closed(self, over: Speaking, heard: Heard, ref: str | None) -> None:
        """All was sent before the barge-in, but not all was heard: tell how much."""
        problem = ProtocolError(
            "utterance_closed",
            "cancel: the utterance has ended; `heard` tells how much was heard",
            param="utterance",
            utterance=over.utterance,
            ref=ref,
        )
        self._outbox.put(messages.error(problem, n=over.n, heard=heard))

    # ------------------------------------------------------------------ utterances

    def _predecessor(self, speaking: Speaking) -> Speaking | None:
        return self._utterances.predecessor(speaking, time.monotonic())

    def _ended(self, speaking: Speaking) -> None:
        self._utterances.ended(speaking)
        self._maybe_leave()

    def _maybe_leave(self) -> None:
        if self._leaving and not self._utterances.open:
            self._end(self._leaving)

    # ------------------------------------------------------------------ refusals

    def _refuse(self, problem: ProtocolError, now: float) -> None:
        if problem.code == "unauthorized":
            self._end(End(4401, problem.code, problem))
        elif not self.greeted:
            self._end(End(4400, problem.code, problem))
        else:
            self._outbox.put(messages.error(problem))
            if problem.code.startswith("invalid_") and self._bad.add(now):
                self._end(End(1008, problem.code, problem))
