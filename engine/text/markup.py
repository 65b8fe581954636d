"""Text as written → text as said aloud: markdown, tags, URLs, emoji and control characters out.

Works on a stream: what is given out never changes and does not depend on how the text was cut.
Numbers and abbreviations are `normalise`'s. Rules that could surprise: a bare URL is said
as its host ("example.com", or "link" where that is no readable name); known SSML and HTML tags
go, other angle brackets stay; code blocks keep their text; a line end, heading, list item or table
row ends a sentence, unless the next line goes on in lower case.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from engine.text.blocks import BLOCK_RULES
from engine.text.characters import compose, fate, is_mark, join_surrogates
from engine.text.layout import Layout, Pause, Unit, joined
from engine.text.spans import (
    Incomplete,
    Source,
    address,
    address_rest,
    checkbox,
    entity,
    link,
    tag,
)

MOST_MARKS = 16  # combining marks kept on one character

# Letters that NFC leaves alone by themselves: the fast path.
_LETTER = "[0-9A-Za-zÀ-ÖØ-öø-ɏЀ-ҁҊ-ԯ\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3]"
_LETTERS = re.compile(f"{_LETTER}+")
_WORDS = re.compile(f"(?:{_LETTER}+ )+")  # no rule takes a word that a blank stands behind
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
        if words := _WORDS.match(self._source.text, index):
            return self._read_words(index, words.group())
        letters = _LETTERS.match(self._source.text, index)
        if letters:
            return self._read_letters(index, letters.end())
        end = self._read_mark(index)
        return self._read_plain(index) if end is None else end

    def _read_mark(self, index: int) -> int | None:
        character = self._source.text[index]
        block, inline = BLOCK_RULES.get(character), _RULES.get(character)
        if block:
            return block(self._source, self._layout, index)
        return inline(self, index) if inline else None

    def _say(self, text: str, index: int, bracket: bool = False) -> None:
        self._layout.say(text, self._base + index, bracket)

    # ----------------------------------------------------------- plain text

    def _read_words(self, index: int, words: str) -> int:
        for word in words.split(" ")[:-1]:
            self._layout.say(word, self._base + index)
            self._layout.rest(Pause.SPACE)
            index += len(word) + 1
        return index

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
                    self._say(found[0], index)
                    self._in_address = True
                    return found[1]
        if ends_here or (end < len(text) and is_mark(text[end])):
            end -= 1  # the last one may still take a mark
        if end > index:
            self._say(text[index:end], index)
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
            self._say(compose(character + marks), index)
        elif what == "newline":
            self._layout.end_line()
        elif what == "drop":
            if character in "\u200c\u200d" and self._layout.shapes():
                self._say(character, index)
        elif what == "gap":
            self._layout.removed()
        else:
            self._layout.rest(Pause.COMMA if what == "pause" else Pause.SPACE)
        return end

    def _read_address(self, index: int) -> int:
        end = address_rest(self._source, index)
        if end is not None:
            inside_link = index < self._skip[0] < end
            return self._skip[0] if inside_link else end
        self._in_address = False
        closes = self._source.text[index] == ">"  # the bracket of an autolink
        return index + 1 if closes else self._step(index)

    # ---------------------------------------------------------------- rules
    # Each returns the end of what it read, or None for a plain character.

    def _emphasis(self, index: int) -> int | None:
        end = self._source.run(index)
        behind = self._source.at(end)
        before = not self._layout.apart
        after = behind != "" and not behind.isspace()
        if end - index > 1:
            if self._layout.after_letter() and self._layout.last.isdigit() and behind.isdigit():
                self._say(self._source.text[index:end], index)
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
        self._say(self._source.text[index:end], index)
        return end

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
            self._say(text, index, bracket=kind == "literal")
        return end

    def _entity(self, index: int) -> int | None:
        found = entity(self._source, index)
        if not found:
            return None
        for character in found[0]:
            what = fate(character)
            if what == "keep":
                self._say(compose(character), index, bracket=character == "<")
            elif what != "drop":
                self._layout.rest(Pause.SPACE)
        return found[1]

    def _escape(self, index: int) -> int | None:
        behind = self._source.at(index + 1)
        if behind == "" or behind not in _ESCAPABLE:
            return None
        self._say(behind, index, bracket=behind == "<")
        return index + 2


_RULES: dict[str, Callable[[Cleaner, int], int | None]] = {
    "*": Cleaner._emphasis,
    "_": Cleaner._underscore,
    "[": Cleaner._link,
    "!": Cleaner._link,
    "<": Cleaner._angle,
    "&": Cleaner._entity,
    "\\": Cleaner._escape,
}


def clean(text: str) -> str:
    """Clean a whole text at once; sentence ends found in its layout are line ends."""
    return joined(Cleaner().push(text, True))
