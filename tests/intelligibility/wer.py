"""Word error rate: how many words a recognizer got wrong. Pure; no audio here."""

from __future__ import annotations

import re
from collections.abc import Sequence

from num2words import num2words

SPELLINGS = {"centre": "center", "ok": "okay", "goodbye": "good bye"}  # one spelling of a word


def words(text: str) -> list[str]:
    """Reduce text to comparable words: lower case, numbers spelt out, no punctuation.

    A recognizer writes "6:30" or "630" where the sentence says "six thirty": no error of the voice.
    """
    text = re.sub(r"\b(\d\d?):?(\d\d)\b", r"\1 \2", text.lower().replace("’", "'"))
    text = re.sub(r"\d+", lambda number: f" {num2words(int(number.group()))} ", text)
    text = re.sub(r"[^a-z' ]+", " ", text)
    return " ".join(SPELLINGS.get(word, word) for word in text.split()).split()


def edits(reference: Sequence[str], heard: Sequence[str]) -> int:
    """Count the fewest insertions, deletions and substitutions that turn one into the other."""
    row = list(range(len(heard) + 1))
    for i, expected in enumerate(reference, start=1):
        above, row = row, [i]
        for j, word in enumerate(heard, start=1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (word != expected)))
    return row[-1]


def word_error_rate(references: Sequence[str], transcripts: Sequence[str]) -> float:
    """Divide the edits of all sentences by the words of all references."""
    pairs = [(words(a), words(b)) for a, b in zip(references, transcripts, strict=True)]
    return sum(edits(a, b) for a, b in pairs) / sum(len(a) for a, _ in pairs)
