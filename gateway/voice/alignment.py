"""Which text sounds when: straight lines between the engine's pairs of sound and text. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right

from gateway.protocol.messages import Mark

_WORD = re.compile(r"\S+")


class Alignment:
    """Grows with the sound of one utterance; positions are ticks and code points."""

    def __init__(self) -> None:
        self._ticks = [0]
        self._texts = [0]
        self._marked = 0  # code points: words up to here have been told
        self._marked_ticks = 0.0  # where the last of them ends

    @property
    def text_to(self) -> int:
        """Code points spoken by the end of the sound so far."""
        return self._texts[-1]

    def add(self, ticks: int, text_to: int) -> None:
        """The sound up to `ticks` speaks the text up to `text_to`; neither ever goes back."""
        text_to = max(text_to, self._texts[-1])
        if ticks > self._ticks[-1]:
            self._ticks.append(ticks)
            self._texts.append(text_to)
        else:
            self._texts[-1] = text_to

    def text_at(self, ticks: float) -> int:
        """Code points spoken at a moment of the sound."""
        return int(_between(self._ticks, self._texts, ticks))

    def words(self, text: str) -> list[Mark]:
        """The words that have been spoken whole since the last call."""
        items = []
        for match in _WORD.finditer(text, self._marked, self.text_to):
            if (
                match.end() < len(text)
                and match.end() == self.text_to
                and _inside(text, match.end())
            ):
                break  # its end has not been spoken yet
            start, end = (_between(self._texts, self._ticks, place) for place in match.span())
            start = max(start, self._marked_ticks)  # the line may have been bent since
            self._marked_ticks = end = max(start, end)
            items.append(Mark(match.start(), match.end(), start, end))
            self._marked = match.end()
        return items


def _inside(text: str, place: int) -> bool:
    return not text[place - 1].isspace() and not text[place].isspace()


def _between(xs: list[int], ys: list[int], x: float) -> float:
    """The `y` that belongs to `x` on the line through the points; flat outside it."""
    index = bisect_right(xs, x)
    if index == 0:
        return ys[0]
    if index == len(xs):
        return ys[-1]
    x0, x1, y0, y1 = xs[index - 1], xs[index], ys[index - 1], ys[index]
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
