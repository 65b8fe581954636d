"""Where cleaned text may be divided: sentence ends, clause marks, words, and cuts that keep tokens
the same.

Input is `engine.markup`'s text: single blanks, "\\n" where the layout ended a sentence. A
separator always has the next visible code point behind it, so every answer here is final,
however much text follows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from engine.characters import CLOSERS, DIGIT, NO_BREAK, is_mark, words

PIECE = 64  # code points: a longer run without a safe place is cut, so that it never waits for ever

# Never the end of a sentence: something always follows.
_TITLES = words(
    "mr mrs ms dr prof st rev hon gen col sgt capt lt sen rep gov mt messrs fig figs eq vol pp ed "
    "eds vs cf e.g i.e viz ca approx esp incl tel ext hr fr bzw z.b d.h u.a nr sr.a"
)
# An end only before a word that usually begins a sentence.
_MAYBE = words(
    "etc inc ltd co corp jr sr bros dept est a.m p.m u.s u.k u.n u.s.a e.u d.c ph.d b.c a.d m.d "
    "b.a m.a ave blvd rd jan feb mar apr jun jul aug sep sept oct nov dec"
)
_STARTERS = words(
    "the a an it he she we i you they this that these those there here but and so or if in on at "
    "as when what why how who where then now my your our his her its their do does did is are was "
    "were no yes please however after before while for to from with let can could would not"
)
_NUMBERED = words("no nos art sec ch p")  # never an end before a digit

_CLOSING = re.escape(CLOSERS)
_END = re.compile(
    rf"[.!?…]+[{_CLOSING}]*(?=[ \n])|[。！？｡]+[{_CLOSING}]*(?![。！？｡{_CLOSING}]|$)|(?=\n)"  # noqa: RUF001
)
_WORD_BEFORE = re.compile(r"[^\s(\[\"'“‘«—/]*$")
_WORD_AFTER = re.compile(r"[\s\"'“‘«(\[¿¡]*([^\W\d_]+|\d)?")
_CLAUSE = re.compile(
    rf"[,;:–—][{_CLOSING}]*(?=[ \n])|(?<= )[–—](?= )|[，、；：](?![{_CLOSING}]|$)"  # noqa: RUF001
)
_WORD = re.compile(r"(?<!\d)[ \n]|[ \n](?!\d)")
_SAFE = re.compile(
    rf"(?<=[^ \n])(?=[ \n{NO_BREAK}])|(?<=[^\W\d_])(?=[，。、！？；：…])"  # noqa: RUF001
)


def sentence_ends(text: str, start: int, end: int) -> Iterator[int]:
    """Yield, in order, the places in `text[start:end]` behind a sentence, before its blank."""
    latest = start
    for match in _END.finditer(text, start, end):
        place = match.end()
        if place > latest and not _goes_on(text, match.start(), place):
            latest = place
            yield place


def _goes_on(text: str, stop: int, behind: int) -> bool:
    """Whether the full stop at `stop` belongs to an abbreviation, a list number or a quotation."""
    marks = text[stop:behind]
    if not marks or text[behind] == "\n" or marks[0] in "。！？｡":  # noqa: RUF001
        return False
    after = _WORD_AFTER.match(text, behind)
    follower = (after and after.group(1)) or ""
    if marks[0] in "!?":
        return len(marks) > 1 and marks[-1] in CLOSERS and follower[:1].islower()
    if follower[:1].islower():
        return True
    word = _word_before(text, stop)
    if marks.startswith("..") or not word:
        return False
    if word.isdigit():
        before = text[stop - len(word) - 1 : stop - len(word)]
        return len(word) < 4 and before in ("", "\n")
    if len(word) == 1 and word.isupper() and word != "I":
        return True
    lower = word.lower()
    if lower in _TITLES:
        return True
    if lower in _NUMBERED:
        return follower[:1].isdigit()
    return lower in _MAYBE and follower.lower() not in _STARTERS


def _word_before(text: str, stop: int) -> str:
    found = _WORD_BEFORE.search(text[max(0, stop - 16) : stop])
    return found.group() if found else ""


def clause_ends(text: str, start: int, end: int) -> Iterator[int]:
    """Yield, in order, the places behind a comma, colon, semicolon or dash."""
    for match in _CLAUSE.finditer(text, start, end):
        yield match.end()


def last_word_end(text: str, start: int, end: int) -> int | None:
    """Return the last place in `(start, end]` before a blank, not inside a number, or None."""
    last = None
    for match in _WORD.finditer(text, start + 1, min(end + 2, len(text))):
        if match.start() <= end:
            last = match.start()
    return last


def settled(text: str, start: int, end: int) -> tuple[list[int], int]:
    """Find how far tokens can no longer change, given that `text[start:end]` has arrived.

    A place is safe between two pre-tokens of the tokenizer: before a blank, between a letter and
    CJK punctuation. A run without any is cut every PIECE code points, not before a mark and not
    in a number.

    Returns: these forced cuts, to be encoded apart, and the last safe place (`start` if there is
    none). More text gives the same places and further ones.
    """
    forced: list[int] = []
    previous = start
    for match in _SAFE.finditer(text, start + 1, end):
        _cut_run(text, previous, match.start(), forced)
        previous = match.start()
    _cut_run(text, previous, end - 1, forced)
    return forced, max(previous, forced[-1] if forced else start)


def _cut_run(text: str, start: int, end: int, forced: list[int]) -> None:
    while end - start > PIECE:
        cut = start + PIECE
        while cut > start + PIECE // 2 and not _divisible(text, cut):
            cut -= 1
        start = cut if cut > start + PIECE // 2 else start + PIECE
        forced.append(start)


def _divisible(text: str, cut: int) -> bool:
    if is_mark(text[cut]) or text[cut - 1] in "\u200c\u200d":
        return False
    number = DIGIT.match(text[cut]) and (DIGIT.match(text[cut - 1]) or text[cut - 1] in ".,:")
    return not number and not (text[cut] in ".,:" and DIGIT.match(text[cut - 1]))
