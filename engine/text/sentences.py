"""Where cleaned text may be divided: sentence ends, clause marks, words, and cuts that keep tokens
the same.

Input is `engine.text.markup`'s text: single blanks, "\\n" where the layout ended a sentence. A
separator always has the next visible code point behind it, so every answer here is final,
however much text follows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from engine.text.characters import CLOSERS, DIGIT, NO_BREAK, is_mark, words

PIECE = 64  # code points: a longer run without a safe place is cut, so that it never waits for ever

# Never the end of a sentence: something always follows.
_TITLES = words(
    "mr mrs ms dr prof st rev hon gen col sgt capt lt sen rep gov mt messrs fig figs eq vol pp ed "
    "eds vs cf e.g i.e viz ca approx esp incl tel ext hr fr bzw z.b d.h u.a nr sr.a"
)
_NAMES = words("u.s u.k u.n e.u d.c u.s.a")  # more often "the U.S. Army" than an end
# An end only before a capital.
_MAYBE = words(
    "etc inc ltd co corp jr sr bros dept est a.m p.m ph.d b.c a.d m.d b.a m.a ave blvd rd jan feb "
    "mar apr jun jul aug sep sept oct nov dec"
)
_NUMBERED = words("no nos art sec ch p")  # never an end before a digit

_CLOSING = re.escape(CLOSERS)
_END = re.compile(
    rf"[.!?…]+[{_CLOSING}]*(?=[ \n])|[。！？｡]+[{_CLOSING}]*(?![。！？｡{_CLOSING}]|$)|(?=\n)"  # noqa: RUF001
)
_WORD_BEFORE = re.compile(r"[^\s(\[\"'“‘«—/]*$")
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
    follower = text[behind + 1 : behind + 2]  # no further: the word behind may still be growing
    if marks[0] in "!?":
        return len(marks) > 1 and marks[-1] in CLOSERS and follower.islower()
    if follower.islower():
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
        return follower.isdigit()
    return lower in _NAMES or (lower in _MAYBE and follower.isalnum() and not follower.isupper())


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
        place = match.start()
        if place - previous > PIECE:
            _cut_run(text, previous, place, forced)
        previous = place
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


def packed_cut(text: str, start: int, begin: int, full: int) -> int:
    """Return the last good end in `(begin, full]`: of a sentence, else a clause, else a word."""
    for ends in (sentence_ends, clause_ends):
        found = [place for place in ends(text, begin, full + 1) if begin < place <= full]
        if found:
            return found[-1]
    return word_cut(text, start, begin, full)


def first_cut(text: str, begin: int, *, half: int, late: int, full: int) -> int | None:
    """Return the first sentence end from `half` or clause end from `late` on, up to `full`."""
    sentences = (place for place in sentence_ends(text, begin, full + 1) if place >= half)
    clauses = (place for place in clause_ends(text, begin, full + 1) if place >= late)
    found = [next(sentences, full + 1), next(clauses, full + 1)]
    return min(found) if min(found) <= full else None


def word_cut(text: str, start: int, begin: int, full: int) -> int:
    """Return the last end of a word up to `full`, else the last safe place for tokens.

    Tokens up to `begin` are given away, so the segment from `start` may end there, but not before.
    """
    word = last_word_end(text, max(start, begin - 1), full)
    forced, place = settled(text, begin, full + 1)
    if word is None and not forced:
        return place if place > start else full
    return max(word or 0, *forced[-1:], 0)
