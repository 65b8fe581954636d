import unicodedata
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.text.layout import joined
from engine.text.markup import Cleaner, clean

FRAGMENTS = [
    *[
        "*",
        "**",
        "_",
        "`",
        "```",
        "[",
        "](",
        ")",
        "http://a.b/c",
        "<b>",
        "</b>",
        "<|",
        "im_end",
        "|>",
    ],
    *["<tts_pad>", "<", ">", "&", "&lt;", "&#124;", ";", "\\", "#", "1.", ".", "!", "?", '"', "'"],
    *["(", "-", "---", "|", "=", "~", "…", "3", "14", "$", "é", "e", "a", "Hello", "world", "www."],
    *["s://", "https", "think>", "/", "你", "好", "。", "，", "」", "ㅏ", "ᄒ", "ᅡ", "ᆫ", "👍", "½"],  # noqa: RUF001
    *["# ", "- ", "| ", "\n", " ", "\t", "\r\n", "\u0301", "\u200d", "\ufe0f", "\u20e3", "°"],
    *["\ud83d", "\ude00", "\u00a0", "\0", "[x] ", "<!--", "-->", "|:-", "好" * 70, "w" * 70],
]
texts = st.lists(st.sampled_from(FRAGMENTS), max_size=25).map("".join)


def cleaned(parts: list[str]) -> str:
    cleaner = Cleaner()
    units = [unit for part in parts for unit in cleaner.push(part, False)]
    return joined([*units, *cleaner.push("", True)])


def cut(text: str, places: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[start:end] for start, end in pairwise(edges)]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("**Bold** and _it_, `code`", "Bold and it, code"),
        ("***both*** ~~gone~~ __strong__", "both gone strong"),
        ("function_call_output and my_var_name", "function_call_output and my_var_name"),
        ("2 * 3, 2*3, 2**3", "2 * 3, 2*3, 2**3"),
        ("?" * 200 + " hi!!!!!", "??? hi!!!"),
        (";:" * 50 + "hi", ";:" * 6 + "hi"),
        ('He said: "(no.)"...', 'He said: "(no.)"...'),
        ("# Title\nA paragraph.", "Title.\nA paragraph."),
        ("Title\n=====\nText", "Title.\nText"),
        ("- one\n* two\n+ three\n• four", "one.\ntwo.\nthree.\nfour"),
        ("- [ ] open\n- [x] done", "open.\ndone"),
        ("1. First\n2. Second", "1. First.\n2. Second"),
        ("> quoted", "quoted"),
        ("in [the docs](https://e.x/a_b?c=d) now", "in the docs now"),
        ('[**x**](http://e.x/a_(b) "title") y', "x y"),
        ("![a cat](cat.png) sits", "a cat sits"),
        ("[not a link] and [1]", "[not a link] and [1]"),
        ("```python\nprint(1)\n```\nDone", "print(1).\nDone"),
        ("| a | b |\n|---|:-:|\n| 1 | 2 |", "a, b.\n1, 2"),
        ("a\n\n---\n\nb", "a.\nb"),
        ("\\*plain\\*", "*plain*"),
        ("#1 and C# and 5 > 4", "#1 and C# and 5 > 4"),
    ],
)
def test_markdown_is_not_read_out(written, said):
    assert clean(written) == said


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ('<speak>Hello <break time="500ms"/> there.</speak>', "Hello there."),
        ("<p>One</p><p>Two</p>", "One.\nTwo"),
        ("a < b and b > c", "a < b and b > c"),
        ("<< Text here >>", "<< Text here >>"),
        ("&quot;quoted&quot; &amp; &#65;&nbsp;B", '"quoted" & A B'),
        ("AT&T; R&D", "AT&T; R&D"),
        ("<script>x</script>", "<script>x</script>"),
        ("I <3 you <!-- never --> ok", "I <3 you ok"),
    ],
)
def test_known_tags_go_and_other_angle_brackets_stay(written, said):
    assert clean(written) == said


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("see https://www.example.com/a/b?c=1. Next", "see example.com. Next"),
        ("(http://x.org/a, or www.y.org)", "(x.org, or y.org)"),
        ("<https://foo.bar/x> ok", "foo.bar ok"),
        ("http://user:pw@10.0.0.1:80/x y", "user y"),
        ("http://10.0.0.1:80/x y", "link y"),
        ("http://" + "a" * 60 + ".com/x", "link"),
        ("the http and https words", "the http and https words"),
    ],
)
def test_bare_addresses_are_said_as_their_host(written, said):
    assert clean(written) == said


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("✅ Done ⚙️ mcp_edit ┌─┐ │x│ └─┘ | a | b |", "Done mcp_edit x, a, b"),
        ("Great 👍🏽! 👨‍👩‍👧 family 🇩🇪.", "Great! family."),
        ("one👋two", "one two"),
        ("A → B", "A, B"),
        ("hi \ud83d there \0\a", "hi there"),
        ("\ud842\udfb7", "\U00020bb7"),
        ("e\u0301", "é"),
        ("a\u200bb\ufeffc\u202ed", "abcd"),
        ("می‌خواهم", "می‌خواهم"),
        ("a \t \u3000\u00a0 b", "a b"),
        ("Hello\r\nthere", "Hello there"),
        ("z" + "\u0301" * 500 + "!", unicodedata.normalize("NFC", "z" + "\u0301" * 16) + "!"),
    ],
)
def test_emoji_controls_and_odd_blanks_are_cleaned(written, said):
    assert clean(written) == said


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("Henry. *Holds out hand* Nice to meet you.", "Henry. Holds out hand.\nNice to meet you."),
        ("Really. *Note* that it is.", "Really. Note that it is."),
        ("wrapped\nline", "wrapped line"),
        ("Short line\nNext line", "Short line.\nNext line"),
        ("x" * 60 + "\nNext", "x" * 60 + " Next"),
        ("Steps:\n\n- a", "Steps:\na"),
        ("标题\n\n正文", "标题。\n正文"),
    ],
)
def test_layout_ends_sentences(written, said):
    assert clean(written) == said


@pytest.mark.parametrize(
    "written",
    [
        "<|im_end|> hi",
        "<tts_pad>x<think>y</think>",
        "&lt;|im_end|&gt;",
        "&lt;think&gt;",
        "<th<b></b>ink>",
        "<\\|im_end|>",
        "<\u200b|im_end|>",
        "<thi\u200bnk>",
        "<*think*>",
        "\\<think>",
    ],
)
def test_control_tokens_cannot_be_spelt(written):
    said = clean(written)

    assert not any(name in said for name in ("<|", "<tts_pad>", "<think>", "</think>"))


def test_words_pass_without_waiting_for_markup_that_is_not_there():
    cleaner = Cleaner()

    said = joined(cleaner.push("Hello *big* world [", False))

    assert said == "Hello big world"


def test_an_unclosed_bracket_does_not_stall():
    cleaner = Cleaner()

    said = joined(cleaner.push("[" + "word " * 200, False))

    assert said.startswith("[word word")


def test_what_is_read_counts_every_code_point():
    cleaner = Cleaner()

    cleaner.push("**a** 👍 [b", False)
    cleaner.push("](http://x.y) \n", True)

    assert cleaner.read == len("**a** 👍 [b](http://x.y) \n")


@given(texts, st.lists(st.integers(0, 1000), max_size=8))
def test_cuts_do_not_matter(text, places):
    whole = clean(text)

    assert cleaned(cut(text, places)) == whole
    assert cleaned(list(text)) == whole


@given(texts)
@example("*ᄒ*ᅡ")  # a vowel that markup parts from its consonant
def test_result_is_clean(text):
    said = clean(text)

    assert unicodedata.is_normalized("NFC", said)
    assert "  " not in said and not said.startswith((" ", "\n")) and not said.endswith((" ", "\n"))
    assert not any(unicodedata.category(each) in ("Cc", "Cs") for each in said if each != "\n")
    assert "<|" not in said and "<tts_pad>" not in said


@given(st.text(max_size=60), st.integers(0, 60))
def test_any_text_is_accepted_and_cut_anywhere(text, place):
    assert cleaned([text[:place], text[place:]]) == clean(text)


@given(texts)
def test_origins_never_go_back(text):
    origins = [unit.origin for unit in Cleaner().push(text, True)]

    assert origins == sorted(origins)
    assert all(0 <= origin < len(text) for origin in origins)
