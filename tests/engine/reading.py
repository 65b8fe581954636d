"""A reader of segments and a tokenizer that can be read back, for the tests of the text feed."""

import re
from itertools import pairwise

from engine.segment import Segment
from engine.text.feed import TextFeed

# The Qwen2 split expression with `re`'s classes in place of \p{L} and \p{N}.
PRE_TOKEN = re.compile(
    r"'(?i:[stmd]|re|ve|ll)|[^\r\n\w]?[^\W\d_]+|\d| ?(?:[^\s\w]|_)+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


class Vocabulary:
    """A tokenizer of whole pre-tokens that can turn ids back into text."""

    def __init__(self):
        self.words = []

    def __call__(self, text):
        found = PRE_TOKEN.findall(text)
        self.words += [word for word in dict.fromkeys(found) if word not in self.words]
        return [self.words.index(word) for word in found]

    def text(self, tokens):
        return "".join(self.words[token] for token in tokens)


class Reader:
    """Takes every segment as soon as it can be had."""

    def __init__(self, *, limit=60.0, normalise=False):
        self.vocabulary = Vocabulary()
        self.feed = TextFeed(self.vocabulary, limit_seconds=limit, normalise=normalise)
        self.segments: list[Segment] = []

    def take(self):
        while segment := self.feed.next_segment():
            self.segments.append(segment)

    def append(self, text):
        self.feed.append(text)
        self.take()

    def finish(self):
        self.feed.finish()
        self.take()

    @property
    def texts(self):
        return [self.vocabulary.text(segment.tokens) for segment in self.segments]


def whole(*parts, limit=60.0, normalise=False):
    """Segments of a text that is all there before the first is taken; None flushes."""
    reader = Reader(limit=limit, normalise=normalise)
    for part in parts:
        if part is None:
            reader.feed.flush()
        else:
            reader.feed.append(part)
    reader.finish()
    return reader


def streamed(parts, limit=60.0, normalise=False):
    reader = Reader(limit=limit, normalise=normalise)
    for part in parts:
        reader.append(part)
    reader.finish()
    return reader


def cut(text, places):
    edges = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[start:end] for start, end in pairwise(edges)]
