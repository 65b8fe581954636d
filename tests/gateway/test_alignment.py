"""Which text sounds when: straight lines between what the engine told."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.voice.alignment import Alignment


def test_text_is_proportional_between_the_points():
    alignment = Alignment()
    alignment.add(1_000, 10)
    alignment.add(3_000, 14)

    assert [alignment.text_at(ticks) for ticks in (0, 500, 1_000, 2_000, 3_000, 9_999)] == [
        *(0, 5, 10, 12, 14, 14)
    ]


def test_text_never_goes_back():
    alignment = Alignment()
    alignment.add(1_000, 10)
    alignment.add(2_000, 4)

    assert alignment.text_to == 10


def test_sound_without_length_only_moves_the_text():
    alignment = Alignment()
    alignment.add(1_000, 10)
    alignment.add(1_000, 12)

    assert alignment.text_at(1_000) == 12


def test_word_is_told_when_all_of_it_has_been_spoken():
    alignment = Alignment()
    alignment.add(1_000, 3)
    early = alignment.words("Hello you")
    alignment.add(2_000, 6)

    words = alignment.words("Hello you")

    assert early == []
    assert [(word.text_from, word.text_to) for word in words] == [(0, 5)]


@given(
    st.text("ab c", max_size=30),
    st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 6)), max_size=12),
)
def test_words_come_once_in_order_and_whole(text, steps):
    alignment, ticks, told = Alignment(), 0, []
    for more_ticks, more_text in [*steps, (1, 30)]:
        ticks += more_ticks
        alignment.add(ticks, min(len(text), alignment.text_to + more_text))
        told += alignment.words(text)

    assert [text[word.text_from : word.text_to] for word in told] == text.split()
    times = [time for word in told for time in (word.start, word.end)]
    assert times == sorted(times)
