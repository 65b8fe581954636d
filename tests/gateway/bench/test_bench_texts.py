"""The texts: the committed sets are what the writer writes, and spread as they should."""

from __future__ import annotations

import json
import math
from pathlib import Path
from statistics import fmean, median, pstdev

import pytest

from engine.api import ConfigError
from gateway.bench.texts.write import SEED, SENTENCES, lines, long_texts, sentences
from gateway.bench.textsets import FOLDER, SETS, read_texts


def test_committed_sentences_are_what_the_seed_gives() -> None:
    short = sentences(SEED)

    assert (FOLDER / "sentences.jsonl").read_text(encoding="utf-8") == lines(short)
    assert (FOLDER / "long.jsonl").read_text(encoding="utf-8") == lines(long_texts(SEED, short))


def test_sentences_are_as_many_and_as_long_as_the_public_benchmark_has_them() -> None:
    texts = read_texts("sentences")
    lengths = [len(text) for text in texts]

    assert len(set(texts)) == SENTENCES == 1_088
    assert fmean(lengths) == pytest.approx(68, abs=1.5)
    assert median(lengths) < fmean(lengths)  # more room above than below


def test_lengths_are_log_normal() -> None:
    logarithms = [math.log(len(text)) for text in read_texts("sentences")]
    mean, spread = fmean(logarithms), pstdev(logarithms)

    skew = fmean(((value - mean) / spread) ** 3 for value in logarithms)
    within = fmean(abs(value - mean) < spread for value in logarithms)
    assert abs(skew) < 0.3
    assert within == pytest.approx(0.683, abs=0.05)


@pytest.mark.parametrize("name", SETS)
def test_every_set_has_texts_that_can_be_sent(name: str) -> None:
    texts = read_texts(name)

    assert len(texts) >= 30
    assert all(text.strip() and len(text) <= 10_000 for text in texts)
    json.dumps(texts).encode()


def test_own_file_has_a_text_a_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("One.\n\nTwo.\n", encoding="utf-8")

    assert read_texts(str(file)) == ["One.", "Two."]


@pytest.mark.parametrize("content", [None, "\n\n"])
def test_file_without_texts_is_refused(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "mine.txt"
    if content is not None:
        file.write_text(content, encoding="utf-8")

    with pytest.raises(ConfigError, match="--texts"):
        read_texts(str(file))
