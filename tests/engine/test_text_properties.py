# ruff: noqa: RUF001 (full-width punctuation is what is tested)
import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import engine
from engine.text.characters import Ruler, reach, weight
from engine.text.feed import TextFeed
from tests.engine.reading import Reader, cut, streamed, whole

TINY = Path(engine.__file__).parent / "voices" / "tiny"

FRAGMENTS = [
    *[
        "Hello",
        "world",
        "it's",
        "Mr.",
        "U.S.",
        "etc. ",
        "The",
        "a",
        "I",
        "3",
        "14",
        "$",
        ".",
        ",",
        "!",
        "?",
        ";",
        ":",
        "-",
    ],
    *[
        " ",
        " ",
        " ",
        "\n",
        "*",
        "_",
        "`",
        "[",
        "](x)",
        "<b>",
        "<|",
        "|>",
        "&amp;",
        "👍",
        "é",
        "\u0301",
    ],
    *[
        "你好",
        "今天",
        "。",
        "，",
        "！",
        "」",
        "\ud83d",
        "\u200b",
        "http://a.b/c",
        "好" * 70,
        "w" * 70,
    ],
]
texts = st.lists(st.sampled_from(FRAGMENTS), max_size=40).map("".join)
places = st.lists(st.integers(0, 5000), max_size=8)


@given(texts, places, st.booleans(), st.sampled_from([4.0, 12.0, 60.0]))
def test_cuts_do_not_matter_when_nothing_was_begun(text, places, normalise, limit):
    reader = whole(text, limit=limit, normalise=normalise)
    again = whole(*cut(text, places), limit=limit, normalise=normalise)

    assert again.texts == reader.texts
    assert [each.text_to for each in again.segments] == [each.text_to for each in reader.segments]


@given(texts, places)
def test_a_ruler_gives_what_the_whole_text_would(text, places):
    budgets = (5, 8, 8, 20)
    ruler, grown = Ruler(0, budgets), ""

    for part in cut(text, places):
        grown += part
        ruler.measure(grown)

    assert ruler.places == [reach(text, 0, each) for each in budgets if weight(text) > each]


@given(texts, st.integers(1, 40), st.booleans())
def test_slices_do_not_matter(text, size, normalise):
    reader = whole(text, limit=4, normalise=normalise)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("engine.text.feed.SLICE", size)
        again = whole(text, limit=4, normalise=normalise)

    assert again.texts == reader.texts
    assert [each.text_to for each in again.segments] == [each.text_to for each in reader.segments]


@example("Hello" * 6, [], False)
@example("no. 1 299 " * 9, [5, 9, 13], False)
@given(texts, places, st.booleans())
def test_an_open_segment_ends_at_the_same_place_however_its_text_is_cut(text, places, normalise):
    ends = []
    for parts in (cut(text * 2, places), list(text * 2)):
        reader = Reader(limit=4, normalise=normalise)
        reader.append("Well now ")
        reader.append("so ")
        assert not reader.segments[0].closed
        for part in parts:
            reader.append(part)
        first = reader.segments[0]
        ends.append((first.closed, reader.texts[0], first.text_to if first.closed else 0))

    assert ends[0] == ends[1]


@given(texts, places, st.booleans())
def test_tokens_are_never_taken_back(text, places, normalise):
    reader = Reader(limit=12, normalise=normalise)
    for part in cut(text, places):
        seen = [(segment, list(segment.tokens)) for segment in reader.segments]
        reader.append(part)

        assert all(segment.tokens[: len(tokens)] == tokens for segment, tokens in seen)
    reader.finish()

    assert letters(reader) == letters(whole(text, normalise=normalise))


@given(texts, places, st.integers(0, 9), st.booleans())
def test_late_text_loses_nothing_and_begins_no_open_segment(text, places, late, normalise):
    reader, begun = Reader(limit=12, normalise=normalise), 0
    for index, part in enumerate(cut(text, places)):
        if index == late:
            begun = len(reader.segments)
            reader.feed.by_sentence()
        seen = [(segment, list(segment.tokens)) for segment in reader.segments]
        reader.append(part)

        assert all(segment.tokens[: len(tokens)] == tokens for segment, tokens in seen)
        assert index < late or all(each.closed for each in reader.segments[begun:])
    reader.finish()

    edges = [edge for each in reader.segments for edge in (each.text_from, each.text_to)]
    assert edges == sorted(edges)
    assert reader.feed.exhausted and all(each.closed for each in reader.segments)
    assert letters(reader) == letters(whole(text, normalise=normalise))


SENTENCES = "This is one. Here is another, longer one! Is this the third? It is. So long."


@given(places, st.integers(0, 9))
def test_late_segments_end_with_a_sentence(places, late):
    reader, begun = Reader(), 0
    for index, part in enumerate(cut(SENTENCES * 3, places)):
        if index == late:
            begun = max(0, len(reader.segments) - 1)
            reader.feed.by_sentence()
        reader.append(part)
    reader.finish()

    ended = [text for text, each in zip(reader.texts, reader.segments, strict=True) if each.closed]
    assert all(text.endswith((".", "!", "?")) for text in ended[begun:])


def letters(reader):
    """What a reader was given to say, without what is silent."""
    return re.sub(r"[\W_]", "", "".join(reader.texts))


@given(texts, st.booleans())
def test_one_segment_has_the_same_tokens_streamed_or_whole(text, normalise):
    reader = streamed(text, limit=6000, normalise=normalise)

    assert reader.texts == whole(text, limit=6000, normalise=normalise).texts


@given(texts, st.booleans(), st.booleans())
def test_ranges_follow_one_another(text, normalise, slowly):
    reader = (streamed if slowly else whole)(text, limit=4, normalise=normalise)
    edges = [edge for each in reader.segments for edge in (each.text_from, each.text_to)]

    assert edges == sorted(edges)
    assert all(0 <= edge <= len(text) for edge in edges)
    assert reader.feed.exhausted and all(each.closed for each in reader.segments)


@pytest.mark.skipif(not (TINY / "vocab.json").exists(), reason="needs the embedded voice's files")
@given(texts)
def test_pieces_have_the_real_tokenizers_ids(text):
    body = tiny_body()
    seen = []

    def encode(piece):
        seen.append(piece)
        return body(piece)

    feed = TextFeed(encode, limit_seconds=6000, normalise=False)
    for character in re.sub(r"\w{40,}", "x", text):
        feed.append(character)
        segment = feed.next_segment()
        if segment:
            break
    else:
        return
    feed.append(" and it goes on, you know: it's 3.14, 你好，世界。")
    feed.finish()

    assert segment.tokens[:-1] == body("".join(seen))[:-1]


def tiny_body():
    tokenizer = pytest.importorskip("engine.model.tokenizer")
    if not hasattr(tiny_body, "body"):
        tiny_body.body = tokenizer.TextTokenizer(TINY).body
    return tiny_body.body
