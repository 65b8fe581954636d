"""Text → segments of tokens while it streams in: what may be spoken now, and where one prompt ends.

The rule: a token once given is never taken back. Words pass `engine.markup` (as written → as said),
`engine.normalise` (English numbers) and `engine.sentences` (where to divide). Each holds back only
what more text could change: at most `spans.HOLD` code points of markup, two words of
`normalise.LONGEST` and a `sentences.PIECE`. No model here: the tokenizer comes in as a function.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from engine.api import FRAME_SECONDS
from engine.characters import DIGIT, NO_BREAK, is_speakable, reach, weight
from engine.layout import Unit
from engine.markup import Cleaner
from engine.normalise import Normaliser
from engine.sentences import clause_ends, last_word_end, sentence_ends, settled
from engine.utterance import FRAMES_PER_CHARACTER, Segment

RUNAWAY_SECONDS = 2.0  # s of speech allowed to any segment
RUNAWAY_PER_CHARACTER = (
    0.25  # s more for each Latin letter; three times for Han, kana, Hangul, digits
)
CLAUSE_SHARE = 0.75  # of the limit, after which a streaming segment also ends at a clause mark
_SEPARATORS = " \n" + NO_BREAK
_AS_BLANKS = str.maketrans("\n" + NO_BREAK, "  ")


class _Break(NamedTuple):
    """A flush or the end of the text."""

    position: int  # in the spoken text
    origin: int  # in the original text


def runaway_frames(text: str) -> int:
    """Frames no sane reading of `text` exceeds."""
    letters = weight(text) + 2 * len(DIGIT.findall(text))
    return math.ceil((RUNAWAY_SECONDS + RUNAWAY_PER_CHARACTER * letters) / FRAME_SECONDS)


class TextFeed:
    """One utterance's text: append to it, take segments from it.

    Args: encode: the tokenizer's body encoder; its result for a text must be that of its
    pre-tokens in a row. limit_seconds: most speech in one prompt, at the first estimate of the
    speaking rate. normalise: write numbers and abbreviations out as English words.
    """

    def __init__(
        self, encode: Callable[[str], list[int]], *, limit_seconds: float, normalise: bool
    ) -> None:
        self._encode = encode
        self._limit = max(8, int(limit_seconds / (FRAMES_PER_CHARACTER * FRAME_SECONDS)))
        self._cleaner = Cleaner()
        self._normaliser = Normaliser() if normalise else None
        self._arrived: list[str] = []  # spoken text not yet joined to `_text`
        self._text = ""  # spoken text from `_gone` on
        self._gone = 0  # position of `_text[0]` in the spoken text of the whole utterance
        self._length = 0  # spoken text in all
        self._positions: list[int] = []  # where each unit begins in the spoken text …
        self._origins: list[tuple[int, bool]] = []  # … in the original, and whether rewritten
        self._breaks: deque[_Break] = deque()
        self._appended = 0  # code points of the original text
        self._finished = False
        self._segment: Segment | None = None  # the open one
        self._start = 0  # in `_text`: where the open segment, or the next, begins
        self._committed = 0  # in `_text`: up to where it has tokens

    def append(self, text: str) -> None:
        """Add text behind what came before; ignored once finished."""
        if self._finished or not text:
            return
        self._appended += len(text)
        self._read(text, last=False)
        self._grow()

    def flush(self) -> None:
        """End the segment here: speak all there is."""
        if self._finished:
            return
        self._read("", last=True)
        self._break()

    def finish(self) -> None:
        """No more text follows."""
        if self._finished:
            return
        self._read("", last=True)
        self._finished = True
        self._break()

    @property
    def exhausted(self) -> bool:
        """Whether the text is finished and no segment remains to begin or to grow."""
        if not self._finished or self._segment:
            return False
        self._join()
        return not is_speakable(self._text[self._start :])

    def next_segment(self) -> Segment | None:
        """Begin the next segment; None while one is open or nothing speakable is settled.

        The segment goes on growing with later appends until it is `closed`.
        """
        if self._segment:
            return None
        self._join()
        while self._start < len(self._text) or self._breaks:
            self._skip_separators()
            if self._begin():
                return self._take()
            if not self._pass_silence():
                return None
        return None

    # ----------------------------------------------------------- text coming in

    def _read(self, text: str, last: bool) -> None:
        units = self._cleaner.push(text, last)
        if self._normaliser:
            units = self._normaliser.push(units, last)
        for unit in units:
            self._store(unit)

    def _store(self, unit: Unit) -> None:
        self._positions.append(self._length)
        self._origins.append((unit.origin, unit.rewritten))
        self._arrived.append(unit.text)
        self._length += len(unit.text)

    def _break(self) -> None:
        self._breaks.append(_Break(self._length, self._appended))
        self._grow()

    def _join(self) -> None:
        if self._arrived:
            self._text += "".join(self._arrived)
            self._arrived.clear()

    # ------------------------------------------------------------ segments

    def _skip_separators(self) -> None:
        end = self._end()
        while self._start < end and self._text[self._start] in _SEPARATORS:
            self._start += 1
        self._committed = self._start

    def _end(self) -> int:
        """Where the text that may be in one segment ends, in `_text`: the next break or what has
        arrived.
        """
        return self._breaks[0].position - self._gone if self._breaks else len(self._text)

    def _begin(self) -> bool:
        """Whether a segment can begin: something speakable is settled."""
        cut = self._known_cut()
        if cut is None:
            cut = settled(self._text, self._start, self._end())[1]
        return is_speakable(self._text[self._start : cut])

    def _pass_silence(self) -> bool:
        """Step over a segment with nothing to say; False if more text may still change that."""
        cut = self._known_cut()
        if cut is None:
            return False
        self._start = self._committed = cut
        if self._breaks and cut == self._end():
            self._breaks.popleft()
        return True

    def _take(self) -> Segment:
        self._text = self._text[self._start :]
        self._gone += self._start
        self._start = self._committed = 0
        origin = self._origin(self._gone)
        self._segment = segment = Segment(text_from=origin, text_to=origin)
        self._give(segment, self._known_cut())
        return segment

    def _grow(self) -> None:
        """Give the open segment what has come, and close it where it ends."""
        if self._segment:
            self._join()
            self._give(self._segment, self._known_cut() if self._breaks else self._streaming_cut())

    def _give(self, segment: Segment, cut: int | None) -> None:
        """Commit tokens up to `cut`, or as far as they are settled."""
        forced, place = settled(self._text, self._committed, self._end() if cut is None else cut)
        for end in [*forced, place if cut is None else cut]:
            if end > self._committed:
                piece = self._text[self._committed : end].translate(_AS_BLANKS)
                segment.tokens += self._encode(piece)
                segment.text_to = self._origin(self._gone + end)
                segment.frames_limit = runaway_frames(self._text[:end])
                self._committed = end
        if cut is not None:
            self._close(segment, cut)

    def _close(self, segment: Segment, cut: int) -> None:
        segment.closed = True
        self._segment = None
        self._start = cut
        self._skip_separators()
        if self._breaks and not is_speakable(self._text[self._start : self._end()]):
            self._start = self._committed = self._end()
            segment.text_to = self._breaks.popleft().origin
        else:
            segment.text_to = self._origin(self._gone + self._start)

    def _origin(self, position: int) -> int:
        """Where in the original text a position of the spoken text came from."""
        if position >= self._length:
            return self._cleaner.read
        index = bisect_right(self._positions, position) - 1
        origin, rewritten = self._origins[index]
        return origin if rewritten else origin + position - self._positions[index]

    # --------------------------------------------------------------- where to end

    def _known_cut(self) -> int | None:
        """Pack whole sentences up to the limit; None if what has come does not reach it."""
        end, full = self._end(), reach(self._text, self._start, self._limit)
        if full >= end:
            return end if self._breaks else None
        begin = self._committed
        for ends in (sentence_ends, clause_ends):
            place = _last(ends(self._text, begin, full + 1), full)
            if place is not None and place > begin:
                return place
        return self._word_cut(full)

    def _streaming_cut(self) -> int | None:
        """End at the first good place behind half the limit, as the text comes."""
        text, start = self._text, self._start
        full = reach(text, start, self._limit)
        half = reach(text, start, self._limit // 2)
        late = reach(text, start, int(self._limit * CLAUSE_SHARE))
        begin = max(self._committed, half - 1)
        sentence = _first(sentence_ends(text, begin, full + 1), half)
        clause = _first(clause_ends(text, begin, full + 1), late)
        found = min(place for place in (sentence, clause, full + 1) if place is not None)
        if found <= full:
            return found
        return self._word_cut(full) if full < len(text) else None

    def _word_cut(self, full: int) -> int:
        """The last place before the limit between words, else between any two characters."""
        begin = self._committed
        word = last_word_end(self._text, begin, full)
        if word is not None:
            return word
        place = settled(self._text, begin, full + 1)[1]
        return place if begin < place or begin > self._start else full


def _first(places: Iterator[int], least: int) -> int | None:
    return next((place for place in places if place >= least), None)


def _last(places: Iterator[int], most: int) -> int | None:
    return max((place for place in places if place <= most), default=None)
