"""Classes of code points the text modules share: what is spoken, removed, wide, or joins the one
before.

Standard library only. Categories come from `unicodedata`, so they follow the Unicode version of
the interpreter.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

Fate = Literal["keep", "space", "newline", "gap", "pause", "drop"]

NO_BREAK = "\u00a0"  # a space inside one spoken number: tokens may be cut here, segments may not

STOPS = ".!?…。！？｡"  # noqa: RUF001 (full-width stops are meant)
CLOSERS = "\"'”’»›)]}）」』】》"  # noqa: RUF001

# One Han, kana or Hangul character is about a syllable: three times the speech of a Latin letter.
WIDE = re.compile(
    "[\u1100-\u11ff\u2e80-\u2fff\u3040-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003134f]"
)
SPEAKABLE = re.compile(r"[^\W_]")
DIGIT = re.compile(r"\d")

_SPOKEN_SYMBOLS = "°℃℉№"
_EMOJI_MARKS = re.compile("[\ufe00-\ufe0f\u20e3]")  # variation selectors, keycap


def words(text: str) -> frozenset[str]:
    """A set of words written as one string."""
    return frozenset(text.split())


def is_mark(character: str) -> bool:
    """Whether NFC may join this code point to the one before: marks, Hangul vowels, finals."""
    return character >= "\u0300" and (
        "\u1160" <= character <= "\u11ff" or unicodedata.category(character)[0] == "M"
    )


@lru_cache(maxsize=4096)
def fate(character: str) -> Fate:
    """What becomes of a code point that no markup rule took.

    `gap`: removed, but keeps its neighbours apart (emoji, box drawings); `pause`: a comma's
    worth (arrows, bullets). A mark that comes by itself is dropped: it has nothing to stand on.
    """
    if character in "\n\u0085\u2028\u2029":
        return "newline"
    if character.isspace():
        return "space"
    if "\u2190" <= character <= "\u21ff" or character in "•‣":
        return "pause"
    if "\U0001f3fb" <= character <= "\U0001f3ff":  # skin tones are modifier symbols
        return "gap"
    category = unicodedata.category(character)
    if category == "So":
        return "keep" if character in _SPOKEN_SYMBOLS else "gap"
    return "drop" if category[0] == "C" or is_mark(character) else "keep"


def compose(cluster: str) -> str:
    """NFC of a character and its marks, without what only styles an emoji."""
    return unicodedata.normalize("NFC", _EMOJI_MARKS.sub("", cluster))


def join_surrogates(high: str, low: str) -> str:
    """One code point from the two halves that a JSON decoder left apart."""
    return chr(0x10000 + ((ord(high) - 0xD800) << 10) + (ord(low) - 0xDC00))


def is_speakable(text: str) -> bool:
    """Whether there is anything to say: at least one letter or digit."""
    return SPEAKABLE.search(text) is not None


def weight(text: str) -> int:
    """Length of `text` in Latin letters of speech: Han, kana and Hangul count three."""
    return len(text) if text.isascii() else len(text) + 2 * len(WIDE.findall(text))


def reach(text: str, start: int, budget: int) -> int:
    """Return the largest end such that `text[start:end]` weighs at most `budget`."""
    window = text[start : start + budget]
    if weight(window) == len(window):
        return start + len(window)
    spent = 0
    for index, character in enumerate(window):
        spent += 3 if WIDE.match(character) else 1
        if spent > budget:
            return start + index
    return start + len(window)


class Ruler:
    """Where a growing text passes some weights; looks at each code point once."""

    def __init__(self, start: int, budgets: Sequence[int]) -> None:
        self._at = start
        self._spent = 0
        self._budgets = budgets  # ascending
        self.places: list[int] = []  # as `reach` gives them, for the budgets passed so far

    def measure(self, text: str) -> list[int]:
        """Go on to the end of `text`; return `places`."""
        piece = text[self._at :]
        if len(self.places) == len(self._budgets):
            return self.places
        if self._spent + weight(piece) <= self._next():
            self._spent += weight(piece)
            self._at = len(text)
            return self.places
        for character in piece:
            self._spent += 3 if WIDE.match(character) else 1
            while len(self.places) < len(self._budgets) and self._spent > self._next():
                self.places.append(self._at)
            self._at += 1
        return self.places

    def _next(self) -> int:
        return self._budgets[len(self.places)]
