"""Text as written → text as said aloud: markdown, tags, entities, URLs, emoji and control
characters out.

Works on a stream: what it gives out never changes and does not depend on how the text was cut
(the one rule: decide only on code points that are there; see `engine.spans`). Numbers and
abbreviations are `engine.normalise`'s.

Rules that could surprise: a bare URL is said as its host ("example.com", or "link" where that is
no readable name); known SSML and plain HTML tags go, other angle brackets stay; code blocks keep
their text; a line end, heading, list item or table row ends a sentence, unless the next line
goes on in lower case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from engine.characters import compose, fate, is_mark, join_surrogates
from engine.layout import Layout, Pause, Unit
from engine.spans import Incomplete, Source, address, checkbox, entity, link, rule_cell, tag

MOST_MARKS = 16  # combining marks kept on one character

# Letters that NFC leaves alone by themselves: the fast path.
_LETTERS = re.compile(
    "[0-9A-Za-zÀ-ÖØ-öø-ɏЀ-ҁҊ-ԯ\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3]+"
)
_FENCE = re.compile(r"[\w+#. \t-]{0,40}")
_ADDRESS_REST = re.compile(r"[A-Za-z0-9/&=%#+@$-]+")
_ADDRESS_MARKS = re.compile(r"[.,;:!?)\]}'\"*_|~]{0,8}")
_ESCAPABLE = "\\`*_{}[]()#+-.!|<>~&\"'$"


class Cleaner:
    """One text's way through the rules; `push` it in, take the units out."""

    def __init__(self) -> None:
        self._source = Source()
        self._base = 0  # code points read before `_source.text`
        self._layout = Layout()
        self._skip = -1, -1  # index of a confirmed link's `](target)`, and its end
        self._in_address = False

    @property
    def read(self) -> int:
        """Code points of the original text that were decided on."""
        return self._base

    def push(self, text: str, last: bool) -> list[Unit]:
        """Read more text; `last` says that a flush or the end of the text follows it."""
        source = self._source
        source.text += text
        source.last = last
        index = 0
        try:
            while index < len(source.text):
                index = self._step(index)
        except Incomplete:
            pass  # `index` stays before what is held back
        self._base += index
        source.text = source.text[index:]
        self._skip = self._skip[0] - index, self._skip[1] - index
        if last:
            self._in_address = False
            self._layout.start_over()
        return self._layout.take()

    def _step(self, index: int) -> int:
        if index == self._skip[0]:
            self._in_address = False
            return self._skip[1]
        if self._in_address:
            return self._read_address(index)
        letters = _LETTERS.match(self._source.text, index)
        if letters:
            return self._read_letters(index, letters.end())
        rule = _RULES.get(self._source.text[index])
        end = rule(self, index) if rule else None
        return self._read_plain(index) if end is None else end

    # ----------------------------------------------------------- plain text

    def _read_letters(self, index: int, end: int) -> int:
        text = self._source.text
        word = text[index:end].lower()
        ends_here = end == len(text) and not self._source.last
        if not self._layout.after_letter():
            if ends_here and ("https".startswith(word) or word == "w" or word == "ww"):
                raise Incomplete
            if word in ("http", "https", "www"):
                found = address(self._source, index, word)
                if found:
                    self._layout.say(found[0], self._base + index)
                    self._in_address = True
                    return found[1]
        if ends_here or (end < len(text) and is_mark(text[end])):
            end -= 1  # the last one may still take a mark
        if end > index:
            self._layout.say(text[index:end], self._base + index)
            return end
        return self._read_plain(index)

    def _read_plain(self, index: int) -> int:
        text = self._source.text
        character, end = text[index], index + 1
        if "\ud800" <= character <= "\udbff":
            low = self._source.at(end)
            if "\udc00" <= low <= "\udfff":
                character, end = join_surrogates(character, low), end + 1
        base = end
        what = fate(character)
        if what == "keep":
            while end - base < MOST_MARKS and (mark := self._source.at(end)) and is_mark(mark):
                end += 1
            marks = text[base:end] if character.isalpha() else ""
            self._layout.say(compose(character + marks), self._base + index)
        elif what == "newline":
            self._layout.end_line()
        elif what == "drop":
            if character in "\u200c\u200d" and self._layout.shapes():
                self._layout.say(character, self._base + index)
        elif what == "gap":
            self._layout.removed()
        else:
            self._layout.rest(Pause.COMMA if what == "pause" else Pause.SPACE)
        return end

    def _read_address(self, index: int) -> int:
        rest = _ADDRESS_REST.match(self._source.text, index)
        if rest:
            return rest.end()
        end = self._source.scan(index, _ADDRESS_MARKS, 8)
        if index < self._skip[0] < end:
            return self._skip[0]
        behind = self._source.at(end)
        if (
            end > index
            and behind
            and not behind.isspace()
            and behind.isascii()
            and behind not in "<>"
        ):
            return end
        self._in_address = False
        if behind == ">" and end == index:
            return index + 1  # the bracket of an autolink
        return self._step(index)

    # ---------------------------------------------------------------- rules
    # Each returns the end of what it read, or None for a plain character.

    def _emphasis(self, index: int) -> int | None:
        end = self._source.run(index)
        behind = self._source.at(end)
        before = not self._layout.apart
        after = behind != "" and not behind.isspace()
        if end - index > 1:
            if self._layout.after_letter() and self._layout.last.isdigit() and behind.isdigit():
                self._layout.say(self._source.text[index:end], self._base + index)
            return end
        if not before and not after:
            if self._layout.line_start:
                self._layout.begin_block()
                return end
            return None
        if self._layout.after_letter() and behind.isalnum() and not self._layout.starred:
            return None
        self._layout.toggle_star(after)
        return end

    def _underscore(self, index: int) -> int | None:
        end = self._source.run(index)
        if not (self._layout.after_letter() and self._source.at(end).isalnum()):
            return end
        self._layout.say(self._source.text[index:end], self._base + index)
        return end

    def _backtick(self, index: int) -> int:
        end = self._source.run(index)
        if end - index >= 3 and self._layout.line_start:
            info = self._source.scan(end, _FENCE, 40)
            if self._source.at(info) in "\n":
                self._layout.begin_block()
                return info
        return end

    def _heading(self, index: int) -> int | None:
        if not self._layout.line_start:
            return None
        end = self._source.run(index, 7)
        behind = self._source.at(end)
        if end - index > 6 or (behind and not behind.isspace()):
            return None
        self._layout.begin_block()
        return end

    def _dash(self, index: int) -> int | None:
        """`- item`, `+ item`, `---` and `====`."""
        end = self._source.run(index)
        if end - index >= 3:
            self._layout.rest(Pause.COMMA)
            if self._layout.line_start:
                self._layout.begin_block()
            return end
        if end - index == 1 and self._layout.line_start and self._source.text[index] != "=":
            behind = self._source.at(end)
            if behind == "" or behind.isspace():
                self._layout.begin_block()
                return end
        return None

    def _tilde(self, index: int) -> int | None:
        end = self._source.run(index)
        return end if end - index >= 2 else None

    def _quote(self, index: int) -> int | None:
        return index + 1 if self._layout.line_start else None

    def _bar(self, index: int) -> int:
        end = rule_cell(self._source, index + 1)
        if self._layout.line_start:
            self._layout.begin_block()
        self._layout.rest(Pause.COMMA)
        return end or index + 1

    def _link(self, index: int) -> int | None:
        begin = index + (self._source.text[index] == "!")
        if self._source.at(begin) != "[":
            return None
        ticked = checkbox(self._source, begin) if self._layout.line_start else None
        if ticked:
            return ticked
        found = link(self._source, begin)
        if not found:
            return None
        self._skip = found
        return begin + 1

    def _angle(self, index: int) -> int:
        kind, end = tag(self._source, index)
        if kind == "break":
            self._layout.rest(Pause.STOP)
        elif kind in ("other", "literal"):
            text = self._source.text[index:end]
            self._layout.say(text, self._base + index, bracket=kind == "literal")
        return end

    def _entity(self, index: int) -> int | None:
        found = entity(self._source, index)
        if not found:
            return None
        for character in found[0]:
            what = fate(character)
            if what == "keep":
                origin = self._base + index
                self._layout.say(compose(character), origin, bracket=character == "<")
            elif what != "drop":
                self._layout.rest(Pause.SPACE)
        return found[1]

    def _escape(self, index: int) -> int | None:
        behind = self._source.at(index + 1)
        if behind == "" or behind not in _ESCAPABLE:
            return None
        self._layout.say(behind, self._base + index, bracket=behind == "<")
        return index + 2


_RULES: dict[str, Callable[[Cleaner, int], int | None]] = {
    "*": Cleaner._emphasis,
    "_": Cleaner._underscore,
    "`": Cleaner._backtick,
    "#": Cleaner._heading,
    "-": Cleaner._dash,
    "+": Cleaner._dash,
    "=": Cleaner._dash,
    "~": Cleaner._tilde,
    ">": Cleaner._quote,
    "|": Cleaner._bar,
    "[": Cleaner._link,
    "!": Cleaner._link,
    "<": Cleaner._angle,
    "&": Cleaner._entity,
    "\\": Cleaner._escape,
}


def clean(text: str) -> str:
    """Clean a whole text at once; sentence ends found in its layout are line ends."""
    return joined(Cleaner().push(text, True))


def joined(units: Sequence[Unit]) -> str:
    """Return the text of `units` as one string."""
    return "".join(unit.text for unit in units)
