"""What separates visible text: blanks, commas, sentence ends, decided when the next visible code
point is known.

The rules of `engine.text.markup` say text, pauses and line ends here in order; nothing is given out
for a pause before something visible follows it. So a unit that is a separator always has its
follower right behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple
from unicodedata import category

from engine.text.characters import CLOSERS, STOPS, WIDE


class Unit(NamedTuple):
    """Cleaned text and where it came from: a separator (" ", or "\\n" at a sentence end) or visible
    text.
    """

    text: str
    origin: int  # code point of the original text where it begins
    rewritten: bool = False  # its code points do not match the original one by one


class Pause(IntEnum):
    """What stands between the last visible code point and the next, weakest first."""

    NONE = 0
    SPACE = 1
    COMMA = 2
    ASIDE = 3  # a sentence end if a capital follows: *Holds out hand* Nice to meet you.
    LINE = 4  # a sentence end unless the sentence seems to go on
    STOP = 5


MARKS_ALIKE = 3  # of one mark in a row that are said: a model babbles through hundreds …
MARKS = 12  # … and of any marks
FULL_LINE = 60  # columns: a longer line was probably wrapped, its end says nothing
_TIGHT = ".,;:!?)]}…"  # no blank before these where an emoji stood


class Layout:
    """The visible text so far and the pause that has built up behind it."""

    def __init__(self) -> None:
        self._units: list[Unit] = []
        self._width = 0  # columns of the last non-empty line
        self.start_over()

    def start_over(self) -> None:
        """Forget what was said: the text behind a flush begins anew."""
        self.last = ""  # last visible code point given out
        self.line_start = True
        self.starred = False  # an emphasis is open
        self._alike = self._marks = 0  # in a row: of the last mark, and of any
        self._core = ""  # last visible code point that is no closing quote or bracket
        self._pause = Pause.NONE
        self._gap = False  # something was removed since
        self._newlines = 0
        self._column = 0
        self._block = False  # this line is a heading, a list item or a table row
        self._bracket = False  # the last code point is a `<` that must not become a tag
        self._aside = -1  # blanks given out before an emphasis that began a sentence
        self._blanks = 0

    def take(self) -> list[Unit]:
        """Hand over the units given out since the last call."""
        units, self._units = self._units, []
        return units

    @property
    def apart(self) -> bool:
        """Whether what comes next stands apart from the last visible code point."""
        return self._gap or self._pause > Pause.NONE or not self.last

    def say(self, text: str, origin: int, bracket: bool = False) -> None:
        """Give out visible text; `bracket`: it is a `<` that must not become a tag."""
        if self._too_many(text[-1]):
            return
        self._separate(text[0], origin)
        self._units.append(Unit(text, origin))
        self.last = text[-1]
        if self.last not in CLOSERS:
            self._core = self.last
        self._column += len(text)
        self._pause, self._gap, self._bracket = Pause.NONE, False, bracket
        self.line_start, self._newlines = False, 0

    def _too_many(self, character: str) -> bool:
        """Count marks in a row; whether this one is beyond what is said of them."""
        if character.isalnum():
            self._alike = self._marks = 0
            return False
        if category(character)[0] not in "PS":
            return False
        self._marks += 1
        self._alike = self._alike + 1 if character == self.last else 1
        return self._alike > MARKS_ALIKE or self._marks > MARKS

    def _separate(self, first: str, origin: int) -> None:
        separators = self._separators(first) if self.last else ""
        for separator in separators:
            self._units.append(Unit(separator, origin))
        self._blanks += bool(separators)
        if self._newlines or not self.last:
            self._column = 0

    def _separators(self, first: str) -> str:
        """Resolve what was passed over, now that the next visible code point is known."""
        pause = self._pause
        if pause == Pause.ASIDE:
            pause = Pause.STOP if first.isupper() else Pause.SPACE
        if pause == Pause.LINE:
            wrapped = first.islower() or self._width >= FULL_LINE
            pause = Pause.SPACE if wrapped else Pause.STOP
        if pause == Pause.STOP:
            missing = self._core.isalnum() or self._core in ("%", "°")
            return (("。" if WIDE.match(self._core) else ".") if missing else "") + "\n"
        if pause == Pause.COMMA:
            return ", " if self.last.isalnum() or self.last in CLOSERS else " "
        if self._gap:
            return "" if first in _TIGHT else " "
        if pause == Pause.SPACE:
            return " "
        joined = self._bracket and (first == "/" or first.isalpha())
        return " " if joined or (self.last == "<" and first == "|") else ""

    def rest(self, pause: Pause) -> None:
        """Pause at least this long before what comes next."""
        self._pause = max(self._pause, pause)

    def removed(self) -> None:
        """Keep the neighbours of something taken out apart, as a blank would."""
        self._gap = True

    def end_line(self) -> None:
        """A line ends; whether a sentence does depends on this line and the next."""
        self._newlines += 1
        if self._column and self._newlines == 1:
            self._width = self._column
        self.rest(Pause.STOP if self._block or self._newlines > 1 else Pause.LINE)
        self.line_start, self._block, self.starred = True, False, False

    def begin_block(self) -> None:
        """This line is a heading, list item or table row: sentences end before and behind it."""
        self._block = True
        if self._newlines:
            self.rest(Pause.STOP)

    def after_letter(self) -> bool:
        """Whether a letter or digit stands directly before what comes next."""
        return not self.apart and self.last.isalnum()

    def shapes(self) -> bool:
        """Whether a joiner here shapes letters (Persian, Indic scripts) rather than emoji."""
        return not self.apart and self.last >= "\u0600" and self.last.isalpha()

    def toggle_star(self, opening: bool) -> None:
        """An emphasis begins or ends; one that was a sentence by itself ends as one."""
        if not self.starred and opening:
            begins = self.last == "" or self._core in STOPS or self._pause >= Pause.LINE
            self._aside = self._blanks + (self.last != "") if begins else -1
        elif self.starred and 0 <= self._aside < self._blanks:
            self.rest(Pause.ASIDE)
        self.starred = not self.starred and opening


def joined(units: Sequence[Unit]) -> str:
    """Return the text of `units` as one string."""
    return "".join(unit.text for unit in units)
