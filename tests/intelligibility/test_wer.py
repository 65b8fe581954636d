"""The yardstick itself: a wrong count here would praise a voice nobody understands."""

from __future__ import annotations

import pytest

from tests.intelligibility.wer import edits, word_error_rate, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello,  World!", ["hello", "world"]),
        ("at 6:30", ["at", "six", "thirty"]),
        ("at 630", ["at", "six", "thirty"]),
        ("25 people", ["twenty", "five", "people"]),
        ("I’m OK.", ["i'm", "okay"]),
        ("", []),
    ],
)
def test_words_ignore_case_punctuation_and_the_way_numbers_are_written(
    text: str, expected: list[str]
) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    ("reference", "heard", "expected"),
    [
        ("a b c", "a b c", 0),
        ("a b c", "a x c", 1),
        ("a b c", "a c", 1),
        ("a b c", "a b b c", 1),
        ("a b c", "", 3),
        ("", "a b", 2),
        ("a b c d", "b c d e", 2),
    ],
)
def test_edits_are_the_fewest_changes(reference: str, heard: str, expected: int) -> None:
    assert edits(reference.split(), heard.split()) == expected


def test_rate_weighs_words_not_sentences() -> None:
    rate = word_error_rate(["one two three four five six seven eight nine", "yes"], ["", "yes"])

    assert rate == pytest.approx(0.9)
