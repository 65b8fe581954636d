"""Recognise links, tags, entities and addresses at one place of a text that is still arriving.

The one rule: an answer may depend only on code points that are there, or on the end of the text.
Where it would depend on more, `Incomplete` is raised and the caller asks again later, so no cut
of the text changes an answer. Every scan is bounded; `HOLD` is the most that can ever be held
back.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from typing import Literal

from engine.text.characters import words

HOLD = 640  # code points: longest construct waited for

_LINK_TEXT = re.compile(r"[^\[\]\n]{0,160}")
_LINK_TARGET = re.compile(r"[^()\s]{0,256}")
_LINK_PART = re.compile(r"[^()\s]{0,64}")
_LINK_TITLE = re.compile(r"[^\"\n]{0,80}")
FENCE_INFO = re.compile(r"[\w+#. \t-]{0,40}")
_RULE_CELL = re.compile(r"[ \t:-]{0,64}")
_TAG_NAME = re.compile(r"[A-Za-z][\w:.-]{0,31}", re.ASCII)
_TAG_REST = re.compile(r"[^<>]{0,256}")
_CONTROL = re.compile(r"[\w /.-]{0,64}")
_ENTITY = re.compile(r"[#A-Za-z0-9]{0,12}")
_HOST = re.compile(r"[\w.@-]{0,128}")
_ADDRESS_REST = re.compile(r"[A-Za-z0-9/&=%#+@$-]+")
_ADDRESS_MARKS = re.compile(r"[.,;:!?)\]}'\"*_|~]{0,8}")
_BLANKS = re.compile(r"[ \t]{0,8}")

# Added tokens of Qwen tokenizers that do not look like `<|name|>`.
_CONTROL_NAME = re.compile(r"tts_\w+|think|tool_call|tool_response")
_SSML = words(
    "speak break p s prosody emphasis say-as sub phoneme voice audio mark lang w token desc "
    "lexicon meta metadata par seq media lookup amazon:effect amazon:domain amazon:emotion "
    "mstts:express-as mstts:silence mstts:viseme mstts:backgroundaudio mstts:audioduration "
    "google:style"
)
_HTML = words(
    "b i em strong u span div br li ul ol tr td th table thead tbody h1 h2 h3 h4 h5 h6 hr code "
    "pre small sup del ins mark kbd blockquote font center a"
)
_BREAKING = words("p s br li ul ol tr div h1 h2 h3 h4 h5 h6 hr table blockquote pre")

TagKind = Literal["tag", "break", "other", "literal", "address"]


class Incomplete(Exception):
    """More text is needed before the next code point can be read."""


@dataclass(slots=True)
class Source:
    """The part of a text not yet read, and whether it ends there."""

    text: str = ""
    last: bool = False

    def at(self, index: int) -> str:
        """Return the code point at `index`, or "" behind the end of the text.

        Raises: Incomplete if it has not arrived.
        """
        if index < len(self.text):
            return self.text[index]
        if self.last:
            return ""
        raise Incomplete

    def scan(self, index: int, pattern: re.Pattern[str], most: int) -> int:
        """Return the end of the longest match of a pattern that is one class, repeated up to `most`
        times.
        """
        match = pattern.match(self.text, index)
        end = match.end() if match else index
        if end == len(self.text) and not self.last and end - index < most:
            raise Incomplete
        return end

    def run(self, index: int, most: int = 64) -> int:
        """Return the end of the run of equal code points at `index`."""
        first, end = self.text[index], index + 1
        while end - index < most and self.at(end) == first:
            end += 1
        return end


def link(source: Source, index: int) -> tuple[int, int] | None:
    """Find `[text](target "title")` at `index`; return where `]` is and where the whole ends."""
    close = source.scan(index + 1, _LINK_TEXT, 160)
    if source.at(close) != "]" or source.at(close + 1) != "(":
        return None
    end = source.scan(close + 2, _LINK_TARGET, 256)
    if source.at(end) == "(":  # one level of brackets, as in encyclopedia addresses
        end = source.scan(end + 1, _LINK_PART, 64)
        if source.at(end) != ")":
            return None
        end = source.scan(end + 1, _LINK_PART, 64)
    end = source.scan(end, _BLANKS, 8)
    if source.at(end) == '"':
        end = source.scan(end + 1, _LINK_TITLE, 80) + 1
    return (close, end + 1) if source.at(end) == ")" else None


def checkbox(source: Source, index: int) -> int | None:
    """Return the end of a task list's `[ ]` or `[x]` at `index`, or None."""
    ticked = source.at(index + 1)
    if ticked == "" or ticked not in " xX" or source.at(index + 2) != "]":
        return None
    return index + 3 if source.at(index + 3).isspace() else None


def rule_cell(source: Source, index: int) -> int | None:
    """Return the end of a table's `:---:` cell at `index`, the bar behind it excluded, or None."""
    end = source.scan(index, _RULE_CELL, 64)
    cell = source.text[index:end].strip(" \t:")
    return end if cell and source.at(end) in "|\n" else None


def tag(source: Source, index: int) -> tuple[TagKind, int]:
    """Classify what begins with `<` at `index`; return its kind and end.

    `tag`: SSML, plain HTML formatting, comments and control tokens: to be removed; `break`: also
    ends a sentence; `other`: an unknown tag's `<` and name, to be left as they are; `address`:
    `<https://…>`; `literal`: a mere `<`.
    """
    following = source.at(index + 1)
    if following == "|":
        end = source.scan(index + 2, _CONTROL, 64)
        closed = source.at(end) == "|" and source.at(end + 1) == ">"
        return ("tag", end + 2) if closed else ("literal", index + 1)
    if following == "!":
        return _comment(source, index)
    begin = index + 2 if following == "/" else index + 1
    end = source.scan(begin, _TAG_NAME, 32)
    name, behind = source.text[begin:end].lower(), source.at(end)
    if name in ("http:", "https:", "mailto:"):
        return "address", index + 1
    if not name or (behind not in (">", "/") and not behind.isspace()):
        return "literal", index + 1
    if _CONTROL_NAME.fullmatch(name):
        return ("tag", end + 1) if behind == ">" else ("literal", index + 1)
    if name not in _SSML and name not in _HTML:
        return "other", end
    end = source.scan(end, _TAG_REST, 256)
    if source.at(end) != ">":
        return "literal", index + 1
    return ("break" if name in _BREAKING else "tag"), end + 1


def _comment(source: Source, index: int) -> tuple[TagKind, int]:
    end = source.text.find("-->", index, index + HOLD)
    if end >= 0 and source.text.startswith("<!--", index):
        return "tag", end + 3
    whole = "<!--".startswith(source.text[index : index + 4]) or source.text.startswith(
        "<!--", index
    )
    if whole and not source.last and len(source.text) - index < HOLD:
        raise Incomplete
    return "literal", index + 1


def entity(source: Source, index: int) -> tuple[str, int] | None:
    """Decode `&name;`, `&#10;` or `&#xA;` at `index`; return its text and end."""
    end = source.scan(index + 1, _ENTITY, 12)
    if end == index + 1 or source.at(end) != ";":
        return None
    decoded = html.unescape(source.text[index : end + 1])
    return None if decoded.startswith("&") and len(decoded) > 1 else (decoded, end + 1)


def address(source: Source, index: int, letters: str) -> tuple[str, int] | None:
    """Read the host of a bare URL whose first word `letters` stands at `index`.

    Returns: what to say for it (the host without `www.`, or "link" where that is no name) and
    where the host ends.
    """
    begin = index + len(letters)
    if letters == "www":
        if source.at(begin) != ".":
            return None
        begin += 1
    else:
        for offset, expected in enumerate("://"):
            if source.at(begin + offset) != expected:
                return None
        begin += 3
    end = source.scan(begin, _HOST, 128)
    host = source.text[begin:end].rpartition("@")[2].rstrip(".-_").removeprefix("www.")
    end -= len(source.text[begin:end]) - len(source.text[begin:end].rstrip(".-_"))
    if not host or end == begin:
        return None
    readable = len(host) <= 40 and not host.replace(".", "").isdigit()
    return (host if readable else "link"), end


def address_rest(source: Source, index: int) -> int | None:
    """Return the end of the next stretch of a URL whose host was read; None if it ends here.

    Marks at its end ("(see http://x.y/z).") are not part of it.
    """
    rest = _ADDRESS_REST.match(source.text, index)
    if rest:
        return rest.end()
    end = source.scan(index, _ADDRESS_MARKS, 8)
    behind = source.at(end)
    goes_on = behind.isascii() and not behind.isspace() and behind not in "<>"  # "" is in it
    return end if end > index and goes_on else None
