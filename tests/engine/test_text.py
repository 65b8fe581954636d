# ruff: noqa: RUF001 (full-width punctuation is what is tested)
import math

import pytest

from engine.text.characters import weight
from engine.text.feed import TextFeed, runaway_frames
from tests.engine.reading import Reader, Vocabulary, streamed, whole


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


def test_late_text_is_given_by_whole_sentences():
    reader = Reader()
    reader.append("The first one is ")
    opened = reader.segments[0]
    early = list(opened.tokens)

    reader.feed.by_sentence()
    reader.append("late. The second ")
    grown = list(opened.tokens), opened.closed
    reader.append("one ")
    waiting = len(reader.segments)
    reader.append("too. A third")

    assert early == grown[0][: len(early)] and len(grown[0]) > len(early)
    assert grown[1] and waiting == 1
    assert reader.texts == ["The first one is late.", "The second one too."]
    assert all(each.closed for each in reader.segments)


def test_an_open_segment_gets_no_word_of_a_late_sentence_before_its_end():
    reader = Reader()
    reader.append("The first one ")
    reader.feed.by_sentence()

    for word in ("is ", "very ", "late"):
        reader.append(word)

    assert reader.texts == ["The first"]
    assert not reader.segments[0].closed


def test_a_sentence_already_given_ends_the_segment_when_late_text_goes_on():
    reader = Reader()
    reader.append("The first one. A")
    reader.feed.by_sentence()

    reader.append("nother ")

    assert reader.texts == ["The first one."]
    assert reader.segments[0].closed


def test_late_sentences_that_come_together_share_a_segment():
    reader = Reader()
    reader.feed.by_sentence()

    reader.append("One is here. Two is here. Three is ")

    assert reader.texts == ["One is here. Two is here."]


@pytest.mark.parametrize("end", ["flush", "finish"])
def test_a_flush_or_the_end_closes_a_late_sentence(end):
    reader = Reader()
    reader.append("The first one ")
    reader.feed.by_sentence()
    reader.append("is")

    getattr(reader.feed, end)()

    assert reader.texts == ["The first one is"]
    assert reader.segments[0].closed and reader.segments[0].text_to == 16


def test_a_late_sentence_is_cut_at_the_limit():
    reader = Reader(limit=12)
    reader.append("word word ")
    reader.feed.by_sentence()

    for _ in range(100):
        reader.append("word ")

    assert len(reader.segments) > 1
    assert all(len(text) <= 205 for text in reader.texts)


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
