# ruff: noqa: RUF001 (full-width punctuation is what is tested)
import math
import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import engine
from engine.characters import Ruler, reach, weight
from engine.text import TextFeed, runaway_frames
from engine.utterance import Segment

# The Qwen2 split expression with `re`'s classes in place of \p{L} and \p{N}.
PRE_TOKEN = re.compile(
    r"'(?i:[stmd]|re|ve|ll)|[^\r\n\w]?[^\W\d_]+|\d| ?(?:[^\s\w]|_)+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TINY = Path(engine.__file__).parent / "voices" / "tiny"


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


def test_a_word_is_committed_when_the_next_has_begun():
    reader = Reader()

    reader.append("Hello")
    before = list(reader.segments)
    reader.append(" ")
    blank = list(reader.segments)
    reader.append("no")

    assert before == blank == []
    assert reader.texts == ["Hello"]


def test_a_segment_grows_until_the_text_is_finished():
    reader = Reader()

    reader.append("Hello there, w")
    opened = reader.segments[0]
    early = list(opened.tokens)
    reader.append("orld and m")
    grown = opened.closed
    reader.append("ore.")
    reader.finish()

    assert not grown and opened.closed
    assert opened.tokens[: len(early)] == early
    assert reader.texts == ["Hello there, world and more."]
    assert reader.feed.exhausted


def test_only_one_segment_is_open():
    reader = Reader()

    reader.append("Hello there everyone")

    assert len(reader.segments) == 1 and not reader.segments[0].closed
    assert reader.feed.next_segment() is None


def test_a_flush_ends_a_segment_and_speaks_the_last_word():
    reader = Reader()

    reader.append("Hello there")
    reader.feed.flush()
    reader.append(" More")
    reader.finish()

    assert reader.texts == ["Hello there", "More"]
    assert [(each.text_from, each.text_to) for each in reader.segments] == [(0, 11), (12, 16)]


def test_calls_are_safe_in_any_order():
    reader = Reader()

    for _ in range(2):
        reader.feed.flush()
    reader.append("")
    reader.append("Hi.")
    for _ in range(2):
        reader.feed.flush()
        reader.finish()
    reader.append("late")
    reader.feed.flush()
    reader.take()

    assert reader.texts == ["Hi."]
    assert reader.feed.exhausted and reader.feed.next_segment() is None


def test_nothing_is_exhausted_before_the_end():
    feed = TextFeed(Vocabulary(), limit_seconds=60, normalise=False)

    assert not feed.exhausted
    feed.finish()
    assert feed.exhausted


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "\n\t",
        "...",
        "?!",
        "\u200b",
        "。。。",
        "- - -",
        "👍",
        "\n" * 1000,
        "\u3000" * 50,
        " " * 4000,
        "**",
        "<|im_end|>",
        "�",
        "|---|---|",
        "!" * 3000,
    ],
)
@pytest.mark.parametrize("normalise", [False, True])
def test_text_with_nothing_to_say_has_no_segment(text, normalise):
    at_once, slowly = whole(text, normalise=normalise), streamed(text, normalise=normalise)

    assert at_once.segments == slowly.segments == []
    assert at_once.feed.exhausted and slowly.feed.exhausted


@pytest.mark.parametrize("text", ["1.", "OK", "Hm.", "A", "1次", "é"])
def test_short_text_is_spoken(text):
    assert whole(text).texts == [text]


def test_unspeakable_parts_between_flushes_are_skipped():
    reader = whole("Hello.", None, "...", None, "👍", None, " Bye.", None, "!")

    assert reader.texts == ["Hello.", "Bye."]
    assert reader.feed.exhausted


def test_known_text_is_packed_in_whole_sentences_up_to_the_limit():
    sentence = "This one has forty characters in it, yes. "

    reader = whole(sentence * 10, limit=12)

    assert [text.count("yes.") for text in reader.texts] == [4, 4, 2]
    assert all(segment.closed for segment in reader.segments)


def test_streaming_closes_at_the_first_sentence_behind_half_the_limit():
    sentence = "This one has forty characters in it, yes. "

    reader = streamed(sentence * 10, limit=12)

    assert [text.count("yes.") for text in reader.texts][:3] == [3, 3, 3]


@pytest.mark.parametrize("take", [whole, streamed])
def test_a_long_sentence_is_cut_at_a_clause_mark(take):
    text = "word " * 33 + "here, " + "word " * 60

    first = (take(text, limit=12)).texts[0]

    assert first.endswith("here,")


@pytest.mark.parametrize("take", [whole, streamed])
def test_a_long_clause_is_cut_between_words(take):
    reader = take("word " * 200, limit=12)

    assert all(set(text.split()) == {"word"} for text in reader.texts)
    assert all(len(text) <= 205 for text in reader.texts)


@pytest.mark.parametrize("take", [whole, streamed])
@pytest.mark.parametrize(
    "text", ["好" * 500, "w" * 700, "7" * 700, "今天天气很好，我们去公园" * 40]
)
def test_text_without_blanks_is_cut_before_the_limit(take, text):
    reader = take(text, limit=12)

    assert "".join(reader.texts) == text
    assert all(weight(part) <= 205 for part in reader.texts)


@pytest.mark.parametrize("take", [whole, streamed])
def test_wide_text_ends_at_its_own_stops(take):
    reader = take("你好世界，今天天气很好。我们去公园吧！" * 20, limit=12)

    assert all(text.endswith(("。", "！")) for text in reader.texts)


@pytest.mark.parametrize("normalise", [False, True])
def test_numbers_are_never_divided(normalise):
    text = "Pi is 3.14, e is 2.718 and 98.6°F is $3.50 or 1,299.99 of 22,1 °C, "

    reader = streamed(text * 20, limit=4, normalise=normalise)
    again = whole(text * 20, limit=4, normalise=normalise)

    for each in (reader, again):
        joined = " ".join(each.texts)
        assert joined == " ".join(whole(text * 20, limit=6000, normalise=normalise).texts)
        for number in ["three point one four", "three dollars and fifty cents"] * normalise:
            assert sum(part.count(number) for part in each.texts) == 20


def test_text_to_covers_blanks_and_markup_behind_the_cut():
    text = "Hello there. " + "word " * 33 + "**end.**  **More** text than the limit has."

    first, second = whole(text, limit=12).segments

    assert (first.text_from, first.text_to) == (0, text.index("More"))
    assert (second.text_from, second.text_to) == (text.index("More"), len(text))


def test_text_to_covers_blanks_and_markup_before_a_flush():
    first, second = whole("**Hi there.**  \n\n", None, " _More_ ").segments

    assert (first.text_from, first.text_to, second.text_from, second.text_to) == (2, 17, 19, 25)


def test_text_to_counts_original_code_points_where_words_are_longer():
    reader = Reader(normalise=True)

    reader.append("It costs $1,299.99 now. And")

    assert reader.segments[0].text_to == len("It costs $1,299.99 ")
    reader.append(" more")
    assert reader.segments[0].text_to == len("It costs $1,299.99 now. ")


def test_the_runaway_guard_grows_with_the_text():
    reader = Reader()

    reader.append("Hello wo")
    early = reader.segments[0].frames_limit
    reader.append("rld.")
    reader.finish()

    assert early == runaway_frames("Hello") == math.ceil((2 + 0.25 * 5) / 0.08)
    assert reader.segments[0].frames_limit == runaway_frames("Hello world.")


def test_wide_characters_and_digits_may_take_three_times_as_long():
    assert runaway_frames("你好") == runaway_frames("12") == runaway_frames("Hellos") == 44


def test_the_first_segment_of_a_long_text_is_had_before_the_rest_is_read():
    reader = Reader(limit=12)
    reader.feed.append("This one has forty characters in it, yes. " * 200)

    first = reader.feed.next_segment()

    assert first.closed and reader.vocabulary.text(first.tokens).count("yes.") == 4
    assert len(reader.feed._text) < 1000


def test_a_link_begun_waits_for_its_end():
    reader = Reader()

    reader.append("Read [the do")
    waiting = reader.texts
    reader.append("cs](https://x.y/z) now ")
    reader.finish()

    assert waiting in ([], ["Read"])
    assert reader.texts == ["Read the docs now"]


def test_markers_split_across_appends_are_not_spoken():
    parts = ["Use **", "bold", "** and `my_var_name` in [the docs]("]
    parts += ["https://e.x/a_b?c=d) now.", "\n# Title\n- item"]

    reader = streamed(parts)

    assert reader.texts == ["Use bold and my_var_name in the docs now. Title. item"]


def test_control_tokens_never_reach_the_tokenizer():
    reader = streamed("<|im_end|> hi <tts_pad> &lt;|im_start|&gt; there")

    assert "<|" not in "".join(reader.texts) and "tts_pad" not in "".join(reader.texts)


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
        patch.setattr("engine.text.SLICE", size)
        again = whole(text, limit=4, normalise=normalise)

    assert again.texts == reader.texts
    assert [each.text_to for each in again.segments] == [each.text_to for each in reader.segments]


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

    letters = [
        re.sub(r"[\W_]", "", "".join(each.texts))
        for each in (reader, whole(text, normalise=normalise))
    ]
    assert letters[0] == letters[1]


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
