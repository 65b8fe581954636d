"""Text → segments of tokens while it streams in: what may be spoken now, and where one prompt ends.

The rule: a token once given is never taken back. Words pass `markup` (as written → as said),
`normalise` (English numbers) and `sentences` (where to divide). Each holds back only
what more text could change: at most `spans.HOLD` code points of markup, two words of
`normalise.LONGEST` and a `sentences.PIECE`. No model here: the tokenizer comes in as a function.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from engine.api import FRAME_SECONDS
from engine.segment import FRAMES_PER_CHARACTER, Segment
from engine.text.characters import DIGIT, NO_BREAK, Ruler, is_speakable, reach, weight
from engine.text.layout import joined
from engine.text.markup import Cleaner
from engine.text.normalise import Normaliser
from engine.text.sentences import first_cut, packed_cut, sentence_ends, settled, word_cut

RUNAWAY_SECONDS = 2.0  # s of speech allowed to any segment
RUNAWAY_PER_CHARACTER = 0.25  # s more for each; three times for Han, kana, Hangul and digits
SLICE = 512  # code points read at once: the first segment of a long text need not wait for the rest
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

    Args:
        encode: the tokenizer's body encoder; a text's ids must be those of its pre-tokens in a row.
        limit_seconds: most speech in one prompt, at the first estimate of the speaking rate.
        normalise: write numbers and abbreviations out as English words.
    """

    def __init__(
        self, encode: Callable[[str], list[int]], *, limit_seconds: float, normalise: bool
    ) -> None:
        self._encode = encode
        self._limit = max(8, int(limit_seconds / (FRAMES_PER_CHARACTER * FRAME_SECONDS)))
        self._budgets = self._limit // 2, int(self._limit * CLAUSE_SHARE), self._limit
        self._ruler = Ruler(0, self._budgets)  # over `_text`, of the open segment
        self._cleaner = Cleaner()
        self._normaliser = Normaliser() if normalise else None
        self._text = ""  # spoken text from `_gone` on
        self._gone = 0  # position of `_text[0]` in the spoken text of the whole utterance
        self._length = 0  # spoken text in all
        self._positions: list[int] = []  # where each unit begins in the spoken text …
        self._origins: list[tuple[int, bool]] = []  # … in the original, and whether rewritten
        self._breaks: deque[_Break] = deque()
        self._inbox: deque[str | None] = deque()  # text not yet read; None is a break
        self._finished = False
        self._by_sentence = False
        self._segment: Segment | None = None  # the open one
        self._start = 0  # in `_text`: where the open segment, or the next, begins
        self._committed = 0  # in `_text`: up to where it has tokens

    def append(self, text: str) -> None:
        """Add text behind what came before; ignored once finished."""
        if self._finished:
            return
        if self._inbox and (waiting := self._inbox[-1]):
            self._inbox.pop()
            text = waiting + text  # many small appends are read at once
        self._inbox.extend(text[at : at + SLICE] for at in range(0, len(text), SLICE))
        self._grow()

    def flush(self) -> None:
        """End the segment here: speak all there is."""
        if not self._finished:
            self._inbox.append(None)
            self._grow()

    def finish(self) -> None:
        """No more text follows."""
        self.flush()
        self._finished = True

    def by_sentence(self) -> None:
        """Give whole sentences from here on, for text that comes more slowly than it is spoken.

        The open segment gets no token until the end of its sentence has come, and ends there; the
        next ones begin closed.
        """
        self._by_sentence = True

    @property
    def exhausted(self) -> bool:
        """Whether the text is finished and no segment remains to begin or to grow."""
        if not self._finished or self._segment:
            return False
        while not is_speakable(self._text[self._start :]):
            if not self._advance():
                return True
        return False

    def next_segment(self) -> Segment | None:
        """Begin the next segment; None while one is open or nothing speakable is settled.

        The segment goes on growing with later appends until it is `closed`.
        """
        if self._segment:
            return None
        while True:
            self._skip_separators()
            cut = self._known_cut()
            if cut is None and self._advance():
                continue
            if self._can_begin(cut):
                return self._take(cut)
            if cut is None:
                return None
            self._pass(cut)

    # ----------------------------------------------------------- text coming in

    def _advance(self) -> bool:
        """Read a slice of the text, or a break; False if all was read."""
        if not self._inbox:
            return False
        text = self._inbox.popleft()
        last = text is None
        units = self._cleaner.push(text or "", last)
        if self._normaliser:
            units = self._normaliser.push(units, last)
        for unit in units:
            self._positions.append(self._length)
            self._origins.append((unit.origin, unit.rewritten))
            self._length += len(unit.text)
        self._text += joined(units)
        if last:
            self._breaks.append(_Break(self._length, self._cleaner.read))
        return True

    # ------------------------------------------------------------ segments

    def _skip_separators(self) -> None:
        end = self._end()
        while self._start < end and self._text[self._start] in _SEPARATORS:
            self._start += 1
        self._committed = self._start

    def _end(self) -> int:
        """Where text of one segment must end, in `_text`: the next break or what has come."""
        return self._breaks[0].position - self._gone if self._breaks else len(self._text)

    def _can_begin(self, cut: int | None) -> bool:
        """Whether something speakable is settled before `cut`."""
        if cut is None and self._by_sentence:
            return False
        if cut is None:
            cut = settled(self._text, self._start, self._end())[1]
        return is_speakable(self._text[self._start : cut])

    def _pass(self, cut: int) -> None:
        """Step over a segment with nothing to say."""
        if self._breaks and cut == self._end():
            self._breaks.popleft()
        self._start = cut

    def _take(self, cut: int | None) -> Segment:
        origin = self._origin(self._gone + self._start)
        self._segment = segment = Segment(text_from=origin, text_to=origin)
        self._ruler = Ruler(self._start, self._budgets)
        self._give(segment, cut)
        return segment

    def _grow(self) -> None:
        """Give the open segment what has come, and close it where it ends."""
        while self._segment and self._advance():
            known = self._breaks or self._by_sentence
            cut = self._known_cut() if known else self._streaming_cut()
            if cut is not None or not self._by_sentence:
                self._give(self._segment, cut)

    def _give(self, segment: Segment, cut: int | None) -> None:
        """Commit tokens up to `cut`, or as far as they are settled."""
        forced, place = settled(self._text, self._committed, self._end() if cut is None else cut)
        for end in [*forced, place if cut is None else cut]:
            if end > self._committed:
                piece = self._text[self._committed : end].translate(_AS_BLANKS)
                segment.tokens += self._encode(piece)
                segment.text_to = self._origin(self._gone + end)
                segment.frames_limit = runaway_frames(self._text[self._start : end])
                self._committed = end
        if cut is not None:
            self._close(segment, cut)

    def _close(self, segment: Segment, cut: int) -> None:
        segment.closed = True
        self._segment = None
        self._start = cut
        self._skip_separators()
        if self._breaks and not is_speakable(self._text[self._start : self._end()]):
            self._start = self._end()
            segment.text_to = self._breaks.popleft().origin
        else:
            segment.text_to = self._origin(self._gone + self._start)
        self._text = self._text[self._start :]
        self._gone += self._start
        self._start = self._committed = 0

    def _origin(self, position: int) -> int:
        """Where in the original text a position of the spoken text came from."""
        if position >= self._length:
            return self._cleaner.read
        index = bisect_right(self._positions, position) - 1
        origin, rewritten = self._origins[index]
        return origin if rewritten else origin + position - self._positions[index]

    def _known_cut(self) -> int | None:
        """Where the segment from `_start` ends, with all its text here; None if it is not."""
        end, full = self._end(), reach(self._text, self._start, self._limit)
        if full < end:
            return packed_cut(self._text, self._start, self._committed, full)
        if self._breaks:
            return end
        return self._last_sentence() if self._by_sentence else None

    def _last_sentence(self) -> int | None:
        """Where the last sentence ends that has come whole, if not all before has its tokens."""
        ends = sentence_ends(self._text, self._start, len(self._text))
        return max((place for place in ends if place >= self._committed), default=None)

    def _streaming_cut(self) -> int | None:
        """Where the open segment ends while its text is still coming; None if not yet."""
        half, late, full = [*self._ruler.measure(self._text), None, None, None][:3]
        if half is None:
            return None
        begin, end = max(self._committed, half - 1), len(self._text) if full is None else full
        late = end + 1 if late is None else late
        place = first_cut(self._text, begin, half=half, late=late, full=end)
        if place is None and full is not None:
            return word_cut(self._text, self._start, self._committed, full)
        return place
