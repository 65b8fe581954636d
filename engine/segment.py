"""The unit of text that is spoken from one prompt, and how it is fed to the Talker. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

FRAMES_PER_CHARACTER = 0.73  # first estimate of speaking rate, corrected at each segment's end
MIN_FRAMES = 2  # no end of speech earlier (the official `min_new_tokens`)

END_OF_TEXT = -1  # `Segment.feed`: feed tts_eos
PADDING = -2  # `Segment.feed`: feed tts_pad


@dataclass(slots=True)
class Segment:
    """A stretch of text spoken from one prompt: to a flush, a sentence end or the end of text.

    The text feed appends `tokens` and sets `closed` while the segment is already being spoken.
    """

    text_from: int  # code points of the utterance's text
    text_to: int  # exclusive; grows until closed
    tokens: list[int] = field(default_factory=list)  # body ids; never change once appended
    closed: bool = False  # no more tokens will come
    frames_limit: int = 0  # runaway guard, from the text so far
    whole: bool = False  # non-streaming layout; decided when the prefill is launched

    def feed(self, index: int) -> int:
        """Return the text id that joins step `index + 1`'s input, END_OF_TEXT or PADDING."""
        if self.whole:
            return PADDING
        if index + 1 < len(self.tokens):
            return self.tokens[index + 1]
        return END_OF_TEXT if index + 1 == len(self.tokens) else PADDING

    def starved(self, step: int) -> bool:
        """Whether frame `step` needs text that has not arrived."""
        return not self.closed and step >= len(self.tokens)

    def eos_allowed(self, step: int) -> bool:
        """End of speech may come once all text and tts_eos were fed, never before two frames."""
        return step >= MIN_FRAMES and self.closed and (self.whole or step >= len(self.tokens))
