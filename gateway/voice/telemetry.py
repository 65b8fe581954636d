"""What a session does with acks: believes them, within limits, until a client has lied enough."""

from __future__ import annotations

import logging
from collections.abc import Callable

from gateway.protocol import ProtocolError, messages
from gateway.protocol.requests import Ack
from gateway.voice.acks import AckRefused
from gateway.voice.limits import TokenBucket
from gateway.voice.link import Link
from gateway.voice.outbox import End, Outbox
from gateway.voice.register import Register

logger = logging.getLogger(__name__)

FLOOD = 100  # acks a second, for ten seconds, close the session


class Telemetry:
    """One session's acks."""

    def __init__(
        self, link: Link, utterances: Register, outbox: Outbox, end: Callable[[End], None]
    ) -> None:
        self._link = link
        self._utterances = utterances
        self._outbox = outbox
        self._end = end
        self._flood = TokenBucket(FLOOD, 10 * FLOOD)

    def acked(self, ack: Ack, now: float) -> None:
        """Pass an ack to its utterance, or say which field cannot be true."""
        if self._flood.take(now):
            self._end(End(1008, "rate_limited", ProtocolError("rate_limited", "too many acks")))
        elif self._link.trusted:
            try:
                self._believe(ack, now)
            except AckRefused as refusal:
                self._outbox.put(messages.error(_problem(refusal, ack)))
                self.distrust(now)

    def distrust(self, now: float) -> None:
        """Count an ack that states what cannot be; too many, and no more are believed."""
        if self._link.strike(now):
            logger.warning("distrusted refused=%d", self._link.refused)
            text = "acks are ignored from now on: too many of them state what cannot be"
            self._outbox.put(messages.warning("telemetry_untrusted", text))

    def _believe(self, ack: Ack, now: float) -> None:
        try:
            speaking = self._utterances.numbered(ack.n)
        except LookupError as error:
            raise AckRefused("n", f"no such utterance: {ack.n}") from error
        if speaking is None or speaking.sound.stopped:
            return  # an ack that crossed a `cancelled`, or of long ago
        last = speaking.sound.listener.last
        news = last is None or ack.state != last.state
        if not speaking.acks.take(now) or news:
            speaking.acked(ack, now)


def _problem(refusal: AckRefused, ack: Ack) -> ProtocolError:
    return ProtocolError(
        "invalid_message",
        f"ack: `{refusal.param}`: {refusal.message}",
        param=refusal.param,
        ref=ack.ref,
    )
