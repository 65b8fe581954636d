"""How numbers are said in English: pure functions from digits to words, over num2words.

Words are joined by NO_BREAK, so that no segment ends inside a number; hyphens and commas of
num2words become blanks.
"""

from __future__ import annotations

from functools import lru_cache

from num2words import num2words

from engine.text.characters import NO_BREAK

MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_LONGEST = 15  # digits: a longer number is read digit by digit
_DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def join(*words: str) -> str:
    """Join words that belong to one number."""
    return NO_BREAK.join(word for word in words if word)


@lru_cache(maxsize=4096)
def _in_words(value: int, kind: str) -> str:
    words: str = num2words(value, to=kind, lang="en")
    return words.replace(",", "").replace("-", " ").replace(" ", NO_BREAK)


def digits(text: str) -> str:
    """`"0123"` → zero one two three; other code points are passed over."""
    return join(*(_DIGITS[int(digit)] for digit in text if digit in "0123456789"))


def cardinal(text: str) -> str:
    """`"1,299"` → one thousand two hundred and ninety nine; leading zeros and long runs digit by
    digit.
    """
    plain = text.replace(",", "")
    if len(plain) > _LONGEST or (len(plain) > 1 and plain[0] == "0"):
        return digits(plain)
    return _in_words(int(plain), "cardinal")


def ordinal(value: int) -> str:
    """21 → twenty first."""
    return _in_words(value, "ordinal")


def year(value: int) -> str:
    """1905 → nineteen oh five."""
    return _in_words(value, "year")


def decimal(text: str) -> str:
    """`"1,299.05"` → the whole part, then "point" and each digit; without a point a cardinal."""
    whole, point, fraction = text.partition(".")
    said = cardinal(whole) if whole else ""
    return join(said, "point", digits(fraction)) if point else said


def quantity(text: str) -> str:
    """A decimal with its sign: `"-3.5"` → minus three point five."""
    if text[0] in "-−":
        return join("minus", decimal(text[1:]))
    return join("plus", decimal(text[1:])) if text[0] == "+" else decimal(text)


def plain_number(text: str) -> str:
    """A bare run of digits: a year where it looks like one, else a cardinal."""
    if len(text) == 4 and 1100 <= int(text) <= 2099:
        return year(int(text))
    return digits(text) if len(text) >= 10 else cardinal(text)


def plural(amount: str, one: str, many: str) -> str:
    """The form of a unit that goes with an amount."""
    return one if amount in ("1", "+1", "-1") else many


def date(day: int, month: int, year_text: str) -> str | None:
    """3, 4, "2025" → April third twenty twenty five; None if there is no such day."""
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    full = "20" + year_text if len(year_text) == 2 else year_text
    return join(MONTHS[month - 1], ordinal(day), year(int(full)) if full else "")


def clock(hour: int, minute: int, half: str) -> str | None:
    """7, 45, "p m" → seven forty five p m; None if there is no such time."""
    if hour > 24 or minute > 59:
        return None
    if minute == 0 and half:
        return join(cardinal(str(hour)), half)
    if minute == 0:
        return join(cardinal(str(hour)), "o'clock" if 1 <= hour <= 12 else "hundred hours")
    minutes = join("oh", cardinal(str(minute))) if minute < 10 else cardinal(str(minute))
    return join(cardinal(str(hour)), minutes, half)


_PARTS = {2: ("half", "halves"), 4: ("quarter", "quarters")}


def fraction(top: int, bottom: int) -> str:
    """3, 4 → three quarters."""
    if bottom == 0 or bottom > 100 or top > 100:
        return join(cardinal(str(top)), "over", cardinal(str(bottom)))
    one, many = _PARTS.get(bottom, (ordinal(bottom), ordinal(bottom) + "s"))
    return join(cardinal(str(top)), one if top == 1 else many)


_CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "¥": ("yen", "yen", "sen", "sen"),
    "₹": ("rupee", "rupees", "paisa", "paise"),
}
CURRENCY_SIGNS = "".join(_CURRENCIES)


def money(sign: str, amount: str, scale: str) -> str:
    """`"$"`, `"1,299.99"` → … dollars and ninety nine cents; `"3.5"` with "million" → … million
    dollars.
    """
    one, many, small_one, small_many = _CURRENCIES[sign]
    if scale:
        return join(decimal(amount), scale, many)
    whole, _, cents = amount.replace(",", "").partition(".")
    if len(cents) > 2:
        return join(decimal(amount), many)
    said = join(cardinal(whole), plural(whole, one, many)) if int(whole or 0) or not cents else ""
    count = int(cents.ljust(2, "0")) if cents else 0
    if not count:
        return said or join("zero", many)
    small = join(cardinal(str(count)), plural(str(count), small_one, small_many))
    return join(said, "and", small) if said else small
