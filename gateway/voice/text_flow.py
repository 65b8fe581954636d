"""One utterance's text on its way to the engine: gathered until speakable, flushed when it pauses.

A language model that stops to think must not leave half a sentence unspoken: text at rest is spoken
as if flushed.
"""

from __future__ import annotations

import asyncio
import unicodedata
from collections import deque
from collections.abc import Callable

from engine.client import Speech
from gateway.config import GatewayConfig
from gateway.protocol import ProtocolError

SENTENCE_ENDS = ".!?…。！？\n"  # noqa: RUF001 - full-width marks end Chinese and Japanese sentences
CLOSERS = "\"')]}»”’」』"  # what may follow them
# Unicode categories with a sound of their own; not So: emoji are silent
SPOKEN_CATEGORIES = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Nd", "Nl", "No", "Sc", "Sm"})


class TextFlow:
    """Text in, commands out to a `Speech` that opens with the first speakable text."""

    def __init__(
        self, open: Callable[[], Speech], idle: Callable[[], None], config: GatewayConfig
    ) -> None:
        """`open` begins the speech; `idle` is called when no text has come for too long."""
        self.text = ""
        self.done = False  # no more text follows
        self.speech: Speech | None = None
        self._open: Callable[[], Speech] | None = open
        self._idle: Callable[[], None] | None = idle
        self._config = config
        self._flushed_to = 0  # code points
        self._spoken_to = 0  # the last flush that had something to say
        self._pending: deque[tuple[int, int]] = deque()  # flushes: where sound ends, where asked
        self._timer: asyncio.TimerHandle | None = None

    def add(self, text: str, last: bool) -> None:
        """Take the next piece, joined exactly as sent.

        Raises: ProtocolError `text_too_long`, or `utterance_closed` after the last piece.
        """
        if self.done:
            raise ProtocolError(
                "utterance_closed", "text: nothing may follow `last`", param="utterance"
            )
        limit = self._config.limits.text
        if len(self.text) + len(text) > limit:
            raise ProtocolError(
                "text_too_long",
                f"`text`: want at most {limit} code points in one utterance, "
                f"got: {len(self.text) + len(text)}",
                param="text",
            )
        self._pass_on(clean_text(text))
        if last:
            self.done = True
            if self.speech:
                self.speech.finish()
        self._await_text()

    def flush(self) -> None:
        """Speak what is here."""
        self._flush()
        self._pending.append((self._spoken_to, len(self.text)))

    def flushed(self, text_to: int) -> list[int]:
        """Flushes whose text has been spoken now that `text_to` is reached; each is told once."""
        reached = []
        while self._pending and self._pending[0][0] <= text_to:
            reached.append(self._pending.popleft()[1])
        return reached

    def stop(self) -> None:
        """No text follows and no timer fires; whoever was to be called may go."""
        self._stop_timer()
        self._open = self._idle = None

    def _pass_on(self, text: str) -> None:
        self.text += text
        if self.speech:
            if text:
                self.speech.append(text)
        elif speakable(text):
            assert self._open, "text after the end"
            self.speech = self._open()
            self.speech.append(self.text)

    def _await_text(self) -> None:
        """Arrange for what happens if nothing more comes."""
        self._stop_timer()
        if self.done:
            return
        config = self._config
        if self.speech and speakable(self.text[self._flushed_to :]):
            ended = self.text.rstrip().rstrip(CLOSERS)[-1:] in SENTENCE_ENDS
            pause = config.text_pause if ended else config.text_wait
            self._later(pause, lambda: self._rest(config.text_idle - pause))
        else:
            self._later(config.text_idle, self._give_up)

    def _rest(self, remaining: float) -> None:
        self._flush()
        self._later(max(remaining, 0.0), self._give_up)

    def _give_up(self) -> None:
        if self._idle:
            self._idle()

    def _flush(self) -> None:
        if self.speech and not self.done and len(self.text) > self._flushed_to:
            self.speech.flush()
        if self.speech and speakable(self.text[self._flushed_to :]):
            self._spoken_to = len(self.text)
        self._flushed_to = len(self.text)

    def _stop_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _later(self, delay: float, action: Callable[[], None]) -> None:
        self._timer = asyncio.get_running_loop().call_later(delay, action)


def clean_text(text: str) -> str:
    """Blank control characters one for one, so that positions in the text stay the client's."""
    if text.isprintable():
        return text
    return "".join(
        " " if unicodedata.category(letter) == "Cc" and letter not in "\n\t\r" else letter
        for letter in text
    )


def speakable(text: str) -> bool:
    """Whether there is anything to say: a letter, a digit, a currency or a mathematical sign."""
    return any(unicodedata.category(letter) in SPOKEN_CATEGORIES for letter in text)
