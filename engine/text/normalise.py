"""Cleaned text → English words: numbers, dates, money, units and abbreviations written out, while
text streams in.

A word is read once it is complete, one with digits or an abbreviation once the word behind it is
complete too; so the result does not depend on how the text was cut. What a number sounds like is
`engine.text.readings`'s.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from engine.text.characters import NO_BREAK
from engine.text.layout import Unit
from engine.text.readings import read, read_parts
from engine.text.spoken import MONTHS, digits, join, ordinal

LONGEST = 64  # code points: a longer word is read in parts


class Word(NamedTuple):
    """A run of visible text between two separators."""

    before: str  # separator in front: "", " ", "\n" or NO_BREAK
    text: str
    origin: int
    behind: str  # separator behind; "" at the end or where a long word was divided


_EDGES = re.compile(
    r"((?:[(\"“‘\[{¿¡«]|'(?![0-9]0s))*)(.*?)([.,;:!?…)\"'”’\]}»]*)",
    re.DOTALL,
)
_NUMERIC = re.compile(r"[0-9½¼¾⅓⅔⅛]")
_SYMBOLIC = re.compile(r"[&=@÷×±+]|^[%*]$|^\w[\w-]*\.\w")
_DAY = re.compile(r"[1-9]|[12][0-9]|3[01]")
_PHONE_GROUP = re.compile(r"[0-9]{2,4}(?:[-.][0-9]{2,4})*")
_PHONE_START = re.compile(r"\+[0-9]{1,3}|[0-9]{3}")
_PHONE_NEXT = re.compile(r"[0-9]{3,4}(?:[-.][0-9]{3,4})*")

# Always followed by what they belong to: the full stop goes.
_TITLES = {
    "mr": "Mister",
    "mrs": "Missus",
    "ms": "Miz",
    "dr": "Doctor",
    "prof": "Professor",
    "rev": "Reverend",
    "gen": "General",
    "col": "Colonel",
    "sgt": "Sergeant",
    "capt": "Captain",
    "lt": "Lieutenant",
    "sen": "Senator",
    "gov": "Governor",
}
_INNER = {"e.g": "for example", "i.e": "that is", "vs": "versus", "approx": "approximately"}
_LAST = {  # may end a sentence: the full stop stays before a capital
    "etc": "et cetera",
    "jr": "Junior",
    "sr": "Senior",
    "inc": "Incorporated",
    "ltd": "Limited",
    "corp": "Corporation",
    "dept": "Department",
    "ave": "Avenue",
    "blvd": "Boulevard",
}
_BEFORE_NUMBER = {
    "no": "number",
    "nos": "numbers",
    "fig": "figure",
    "vol": "volume",
    "ch": "chapter",
}
_MONTHS = {
    "jan": "January",
    "feb": "February",
    "mar": "March",
    "apr": "April",
    "jun": "June",
    "jul": "July",
    "aug": "August",
    "sep": "September",
    "sept": "September",
    "oct": "October",
    "nov": "November",
    "dec": "December",
}
_ABBREVIATIONS = {*_TITLES, *_INNER, *_LAST, *_BEFORE_NUMBER, *_MONTHS, "st"}


@dataclass(slots=True)
class _Context:
    """What stands around a word: the follower is "" at the end of a sentence or of the text."""

    previous: str = ""
    phone: bool = False  # the previous word was a group of a phone number
    follower: str = ""


class Normaliser:
    """One text's way from cleaned to spoken words."""

    def __init__(self) -> None:
        self._open = ""  # the word still growing
        self._origin = 0
        self._before = ""
        self._words: list[Word] = []
        self._context = _Context()

    def push(self, units: Sequence[Unit], last: bool) -> list[Unit]:
        """Read more cleaned units; `last` says that a flush or the end of the text follows them."""
        for unit in units:
            if unit.text in (" ", "\n"):
                self._close(unit.text)
                self._before = unit.text
            else:
                self._extend(unit)
        if last:
            self._close("")
        said = self._drain(last)
        if last:
            self._before, self._context = "", _Context()
        return said

    def _extend(self, unit: Unit) -> None:
        if not self._open:
            self._origin = unit.origin
        self._open += unit.text
        while len(self._open) > LONGEST:
            cut = len(self._open[:LONGEST].rstrip("0123456789.,:")) or LONGEST
            rest, self._open = self._open[cut:], self._open[:cut]
            self._close("")
            self._open, self._origin = rest, self._origin + cut
            self._before = NO_BREAK if _NUMERIC.search(self._words[-1].text[-1] + rest[0]) else ""

    def _close(self, behind: str) -> None:
        if self._open:
            self._words.append(Word(self._before, self._open, self._origin, behind))
        self._open = ""

    def _drain(self, last: bool) -> list[Unit]:
        said: list[Unit] = []
        words, index = self._words, 0
        while index < len(words):
            word = words[index]
            follower = words[index + 1] if index + 1 < len(words) else None
            paired = word.behind == " " and _asks_for_follower(word.text)
            if paired and follower is None and not last:
                break
            joined = follower if paired else None
            text, used = self._say(word.text, joined.text if joined else "")
            if word.before:
                said.append(Unit(word.before, word.origin))
            said.append(Unit(text, word.origin, text != word.text))
            index += 2 if used else 1
        del words[:index]
        return said

    def _say(self, text: str, follower: str) -> tuple[str, bool]:
        """Read a word; return what is said and whether the follower was read with it."""
        lead, core, tail = _edges(text)
        context = self._context
        context.follower = follower
        said, used = core, False
        if core.rstrip(".").lower() in _ABBREVIATIONS:
            said, tail = _abbreviation(core, tail, context)
            context.phone = False
        elif _NUMERIC.search(core):
            said, tail, used = _number(core, tail, context)
        elif core:
            context.phone = False
            said = (read(core) or read_parts(core)) if _SYMBOLIC.search(core) else core
        context.previous = said + tail if not used else ""
        return lead + said + tail, used


def _edges(text: str) -> tuple[str, str, str]:
    match = _EDGES.fullmatch(text)
    assert match, "the pattern matches any text"
    return match[1], match[2], match[3]


def _asks_for_follower(text: str) -> bool:
    return bool(_NUMERIC.search(text)) or _edges(text)[1].lower() in _ABBREVIATIONS


def _number(core: str, tail: str, context: _Context) -> tuple[str, str, bool]:
    _, follower, behind = _edges(context.follower)
    if (tail in ("", ")") and _begins_phone(core, follower)) or (
        context.phone and _PHONE_GROUP.fullmatch(core)
    ):
        context.phone = not tail or tail == ")"
        return join("plus" if core[0] == "+" else "", digits(core)), tail, False
    context.phone = False
    if not tail and follower and context.follower.startswith(follower):
        both = read(f"{core} {follower}")
        if both:
            return both, behind, True
    dated = context.previous in MONTHS or (not tail and follower in MONTHS)
    if dated and _DAY.fullmatch(core):
        return ordinal(int(core)), tail, False
    return read(core) or read_parts(core), tail, False


def _begins_phone(core: str, follower: str) -> bool:
    if not _PHONE_NEXT.fullmatch(follower):
        return core[0] == "+" and follower.isdecimal()
    return _PHONE_START.fullmatch(core) is not None


def _abbreviation(core: str, tail: str, context: _Context) -> tuple[str, str]:
    """Write out an abbreviation where it is one: most need their full stop, titles a name."""
    lower = core.lower()
    stopped = tail.startswith(".")
    follower = _edges(context.follower)[1]
    capital = follower[:1].isupper()
    if lower in _TITLES and core[0].isupper() and (stopped or lower in ("mr", "mrs", "ms", "dr")):
        plain = lower in ("mr", "mrs") or capital  # "Gen. of the": who knows
        return (_TITLES[lower], tail[1:] if stopped else tail) if plain else (core, tail)
    if lower in _BEFORE_NUMBER:
        numbered = stopped and follower[:1].isdigit()
        return (_BEFORE_NUMBER[lower], tail[1:]) if numbered else (core, tail)
    if lower in _MONTHS:
        dated = follower[:1].isdigit() and core[0].isupper()
        return (_MONTHS[lower], tail[1:] if stopped else tail) if dated else (core, tail)
    if not stopped:
        return core, tail
    if lower in _INNER:
        return _INNER[lower], tail[1:]
    if lower == "st":
        return _saint_or_street(core, tail, context.previous, capital)
    if lower in _LAST:
        return _LAST[lower], tail if capital or not follower else tail[1:]
    return core, tail


def _saint_or_street(core: str, tail: str, previous: str, capital: bool) -> tuple[str, str]:
    named = previous[:1].isupper() and previous[-1].isalpha()
    if capital and not named:
        return "Saint", tail[1:]
    if named:
        return "Street", tail if capital or len(tail) > 1 else tail[1:]
    return core, tail
