import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.characters import NO_BREAK
from engine.text.layout import joined
from engine.text.markup import Cleaner
from engine.text.normalise import Normaliser


def said(*parts: str) -> str:
    cleaner, normaliser = Cleaner(), Normaliser()
    units = [unit for part in parts for unit in normaliser.push(cleaner.push(part, False), False)]
    units += normaliser.push(cleaner.push("", True), True)
    return joined(units).replace(NO_BREAK, " ")


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("3 apples", "three apples"),
        ("-5 and +5", "minus five and plus five"),
        ("100,000", "one hundred thousand"),
        ("2005,2006", "two thousand and five, two thousand and six"),
        ("1,2005", "one, two thousand and five"),
        ("2005,200", "two thousand and five, two hundred"),
        ("1000000", "one million"),
        ("3.14.", "three point one four."),
        ("0.05", "zero point zero five"),
        (".5 and 007", "point five and zero zero seven"),
        ("21st, 2nd", "twenty first, second"),
        (
            "in 2005, 1905 and 2025",
            "in two thousand and five, nineteen oh five and twenty twenty five",
        ),
        ("the 1990s and '80s", "the nineteen nineties and eighties"),
        ("1/2, 3/4, 5 1/2, 2½", "one half, three quarters, five and one half, two and one half"),
        ("10-12 km, 5–10%", "ten to twelve kilometers, five to ten percent"),
        ("2010-2015", "twenty ten to twenty fifteen"),
        ("#1", "number one"),
        ("v1.2.3", "version one point two point three"),
        ("GPT-4 on H200", "GPT four on H two hundred"),
        ("3-year-old", "three year-old"),
        (
            "1920x1080, 3x",
            "one thousand nine hundred and twenty by one thousand and eighty, three times",
        ),
        ("~5, >5, <10%", "about five, more than five, less than ten percent"),
        ("24/7", "twenty four seven"),
    ],
)
def test_numbers(written, spoken):
    assert said(written) == spoken


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("03/04/2025", "March fourth twenty twenty five"),
        ("13/04/2025", "April thirteenth twenty twenty five"),
        ("2025-03-04", "March fourth twenty twenty five"),
        ("March 3, 2025", "March third, twenty twenty five"),
        ("3 March", "third March"),
        ("Jan. 5", "January fifth"),
        ("7:45 pm", "seven forty five p m"),
        ("7pm, 19:45, 7:05", "seven p m, nineteen forty five, seven oh five"),
        ("7:00", "seven o'clock"),
        ("7:00-8:30 pm", "seven o'clock to eight thirty p m"),
        ("at 3:2", "at three to two"),
    ],
)
def test_dates_and_times(written, spoken):
    assert said(written) == spoken


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("$1,299.99", "one thousand two hundred and ninety nine dollars and ninety nine cents"),
        ("€3.50, €3,50", "three euros and fifty cents, three euros and fifty cents"),
        ("£5 or $1 or $.50", "five pounds or one dollar or fifty cents"),
        ("$3.5 million", "three point five million dollars"),
        ("-$5, $5-10", "minus five dollars, five to ten dollars"),
        ("5€, 20 USD, $5/month", "five euros, twenty dollars, five dollars per month"),
        ("50%, 50 %", "fifty percent, fifty percent"),
        (
            "98.6°F, 22,1 °C.",
            "ninety eight point six degrees Fahrenheit, twenty two point one degrees Celsius.",
        ),
        ("at 200° for 15 min", "at two hundred degrees for fifteen minutes"),
        (
            "1 km, 5kg, 60 mph, 16 GB",
            "one kilometer, five kilograms, sixty miles per hour, sixteen gigabytes",
        ),
        ("5 in the box, 5in", "five in the box, five inches"),
    ],
)
def test_money_and_units(written, spoken):
    assert said(written) == spoken


@pytest.mark.parametrize(
    "written", ["555-123-4567", "(555) 123-4567", "555 123 4567", "5551234567", "555.123.4567"]
)
def test_telephone_numbers_are_read_digit_by_digit(written):
    plain = said(written).replace("(", "").replace(")", "")

    assert plain == "five five five one two three four five six seven"


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("Mr. Smith met Dr. Jones", "Mister Smith met Doctor Jones"),
        ("St. Louis, on Main St. today", "Saint Louis, on Main Street today"),
        ("e.g. this, i.e. that", "for example this, that is that"),
        ("and so on, etc. with more", "and so on, et cetera with more"),
        ("apples etc. They", "apples et cetera. They"),
        ("No. 5. No. Yes.", "number five. No. Yes."),
        ("AT&T, R&D, C++, a = b", "AT and T, R and D, C plus plus, a equals b"),
        ("me@x.com or example.com.", "me at x dot com or example dot com."),
        ("World War II, Henry VIII, my_var_name", "World War II, Henry VIII, my_var_name"),
        ("may I mark it", "may I mark it"),
    ],
)
def test_words_and_abbreviations(written, spoken):
    assert said(written) == spoken


@pytest.mark.parametrize(
    ("parts", "spoken"),
    [
        (["It is 3", ".", "14 now"], "It is three point one four now"),
        (["It is $3", ".50 now"], "It is three dollars and fifty cents now"),
        (["at 7:45", " p", "m today"], "at seven forty five p m today"),
        (["5", " k", "m away"], "five kilometers away"),
    ],
)
def test_a_number_that_may_still_grow_waits(parts, spoken):
    assert said(*parts) == spoken


def test_a_number_at_a_sentence_end_does_not_wait_beyond_the_next_word():
    cleaner, normaliser = Cleaner(), Normaliser()

    spoken = joined(normaliser.push(cleaner.push("It is 5. Then we", False), False))

    assert spoken == "It is five. Then"


def test_words_inside_a_number_do_not_divide():
    spoken = joined(Normaliser().push(Cleaner().push("costs $12.50 today", True), True))

    assert spoken.split(" ") == [
        "costs",
        NO_BREAK.join(["twelve", "dollars", "and", "fifty", "cents"]),
        "today",
    ]


FRAGMENTS = [
    *["1", "12", "2005", ",", ".", ":", "/", "-", "–", "$", "€", "%", "#", "+", "(", ")", "45"],
    *["00", "p", "m", "pm", "km", "°C", "St.", "Mr.", "No.", "Jan.", "March", "x", "v", "A", "the"],
    *["&", "@", "=", "½", "好", " ", " ", " ", "\n", "7" * 70],
]
texts = st.lists(st.sampled_from(FRAGMENTS), max_size=20).map("".join)


@given(texts)
def test_cuts_do_not_matter(text):
    assert said(*text) == said(text)


@given(texts)
def test_no_digit_is_left(text):
    assert not any("0" <= character <= "9" for character in said(text))


@given(st.text(st.characters() | st.sampled_from("0123456789²³٣½.,:/-$€%+# "), max_size=40))
def test_any_text_is_accepted(text):
    assert said(*text) == said(text)
