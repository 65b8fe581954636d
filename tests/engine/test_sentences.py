# ruff: noqa: RUF001 (full-width punctuation is what is tested)
from itertools import pairwise

import pytest

from engine.text.sentences import PIECE, clause_ends, last_word_end, sentence_ends, settled


def sentences(text: str) -> list[str]:
    ends = [0, *sentence_ends(text, 0, len(text)), len(text)]
    return [text[start:end].strip() for start, end in pairwise(ends)]


@pytest.mark.parametrize(
    "parts",
    [
        ["I met Mr. Smith.", "He said hi."],
        ["In the U.S. Army.", "It ends."],
        ["Fruit, e.g. apples.", "Pi is 3.14.", "Next."],
        ["It is 98.6°F.", "Pi is 3.14 and e is 2.718.", "So."],
        ["Es sind 22,1 °C.", "Ja."],
        ["$3.5 for small.", "$3 for two."],
        ["Wait... what?", "No...", "But yes."],
        ['He said "Go."', "Then left."],
        ['"Really?" he asked.', "Yes."],
        ["Done (really.)", "Ok."],
        ["J. K. Rowling wrote it.", "So did I.", "Then more"],
        ["No.", "It is no. 5 of them.", "Yes."],
        ["At 7 p.m.", "We left at 8 p.m. on foot."],
        ["Apples, pears, etc. and so on.", "Bye."],
        ["It cost 5.", "Then 6."],
        ["What?!", "No!!", "Ok"],
        ["See example.com.", "Or v1.2.3 of it."],
        ["1. First.", "2. Second"],
    ],
)
def test_sentence_ends(parts):
    assert sentences(" ".join(parts).replace(" 2. Second", "\n2. Second")) == parts


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("你好。再见！「好。」他说。", ["你好。", "再见！", "「好。」", "他说。"]),
        ("Title\nText", ["Title", "Text"]),
        ("好吗？？行", ["好吗？？", "行"]),
    ],
)
def test_sentences_end_without_blanks(text, parts):
    assert sentences(text) == parts


def test_an_end_needs_the_next_character():
    assert list(sentence_ends("It is 3.", 0, 8)) == []
    assert list(sentence_ends("好。", 0, 2)) == []


def test_clauses_are_not_found_inside_numbers():
    text = "So, 1,299 or 7:45; then — yes，是"

    assert [text[:end][-1] for end in clause_ends(text, 0, len(text))] == [",", ";", "—", "，"]


def test_words_are_not_divided_inside_numbers():
    assert last_word_end("about 1 299 000", 0, 12) == 5


def test_tokens_settle_before_a_blank():
    assert settled("Hello wor", 0, 9) == ([], 5)
    assert settled("Hello", 0, 5) == ([], 0)


def test_tokens_settle_before_wide_punctuation():
    assert settled("你好，世界", 0, 5) == ([], 2)


def test_a_run_without_places_is_cut_at_the_same_places_however_much_follows():
    run = "好" * 200

    early, late = settled(run, 0, PIECE + 2), settled(run, 0, 200)

    assert early == ([PIECE], PIECE)
    assert late[0][0] == PIECE


def test_a_run_is_not_cut_inside_a_number():
    text = "好" * (PIECE - 3) + "12345678" + "好" * 9

    assert settled(text, 0, len(text))[0] == [PIECE - 3]
