"""How one written word with digits or symbols is read aloud in English: a table of patterns, first
match wins.

A pattern may also match the word and the one behind it, joined by a blank ("7:45 pm", "5 km",
"$3 million").
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from engine.text.spoken import (
    CURRENCY_SIGNS,
    cardinal,
    clock,
    date,
    decimal,
    digits,
    fraction,
    join,
    money,
    ordinal,
    plain_number,
    plural,
    quantity,
    year,
)
from engine.text.units import CODES, SCALES, SIGNS, SYMBOLS, UNITS, VULGAR

Reading: TypeAlias = "Callable[[re.Match[str]], str | None]"

# A number: 1,299.99; 3.14; 22,1 (decimal comma); .5
_N = r"(?:(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?|[0-9]+,[0-9]{1,2}|\.[0-9]+)"
_DASH = "[-–—]"
_CLOCK = r"([0-9]{1,2})(?::([0-9]{2}))?"

_U = "|".join(re.escape(unit) for unit in sorted(UNITS, key=len, reverse=True))
_SCALE = "|".join(sorted((scale for scale in SCALES if scale), key=len, reverse=True))


def _amount(text: str) -> str:
    """The number with a decimal point, whatever its decimal mark."""
    return re.sub(r"^([-−+]?[0-9]+),([0-9]{1,2})$", r"\1.\2", text)


def _money(match: re.Match[str]) -> str:
    sign, currency, amount, scale = match.groups()
    return join("minus" if sign else "", money(currency, _amount(amount), SCALES[scale]))


def _per(match: re.Match[str]) -> str:
    return join(money(match[1], _amount(match[2]), ""), "per", match[3])


def _range(first: str, second: str) -> str:
    return join(plain_number_or(first), "to", plain_number_or(second))


def plain_number_or(text: str) -> str:
    """Read a number: a bare run of digits as `plain_number` does, any other as a quantity."""
    return plain_number(text) if text.isdigit() else quantity(_amount(text))


def _unit(match: re.Match[str]) -> str | None:
    amount, blank, unit = match.groups()
    if blank and unit == "in":  # "5 in the afternoon"
        return None
    return join(quantity(_amount(amount)), plural(amount, *UNITS[unit]))


def _time(match: re.Match[str]) -> str | None:
    return _hours(*match.groups())


def _times(match: re.Match[str]) -> str | None:
    first, minute, early, second, later, half = match.groups()
    if not (half or (minute and later)):
        return None
    begin = _hours(first, minute, early) if minute or early else cardinal(first)
    end = _hours(second, later, half)
    return join(begin, "to", end) if begin and end else None


def _hours(hour: str, minute: str | None, half: str | None) -> str | None:
    return clock(int(hour), int(minute or 0), f"{half.lower()} m" if half else "")


def _seconds(match: re.Match[str]) -> str:
    return join(*(cardinal(str(int(part))) for part in match.groups()))


def _slash_date(match: re.Match[str]) -> str | None:
    first, second, year_text = match.groups()
    month, day = int(first), int(second)
    if month > 12:  # day first, as outside the United States
        month, day = day, month
    return date(day, month, year_text or "")


def _slashed(match: re.Match[str]) -> str:
    top, bottom = match.groups()
    if (top, bottom) == ("24", "7"):
        return join(cardinal(top), cardinal(bottom))
    if top == bottom:
        return join(cardinal(top), "out of", cardinal(bottom))
    return fraction(int(top[:6]), int(bottom[:6]))


def _mixed(match: re.Match[str]) -> str | None:
    whole, top, bottom = match.groups()
    part = int(top) < int(bottom)
    return join(cardinal(whole), "and", fraction(int(top), int(bottom))) if part else None


def _vulgar(match: re.Match[str]) -> str:
    part = fraction(*VULGAR[match[2]])
    return join(cardinal(match[1]), "and", part) if match[1] else part


def _decade(match: re.Match[str]) -> str:
    said = year(int(match[1])) if match[1] else cardinal(match[2])
    return said[:-1] + "ies" if said.endswith("y") else said + "s"


def _phone(match: re.Match[str]) -> str:
    return join("plus" if match[0][0] == "+" else "", digits(match[0]))


def _short_phone(match: re.Match[str]) -> str:
    round_numbers = match[1].endswith("0") and match[2].endswith("00")
    return _range(match[1], match[2]) if round_numbers else digits(match[0])


def _version(match: re.Match[str]) -> str:
    parts = " point ".join(cardinal(part) for part in match[2].split("."))
    return join("version" if match[1] else "", *parts.split(" "))


def _dotted(match: re.Match[str]) -> str:
    spaced = re.sub(r"[@.]", lambda mark: " at " if mark[0] == "@" else " dot ", match[0])
    return read_parts(spaced)


_READINGS: list[tuple[re.Pattern[str], Reading]] = [
    (re.compile(pattern), reading)
    for pattern, reading in [
        (
            rf"([-−]?)([{CURRENCY_SIGNS}])({_N})(?: ?({_SCALE}))?",
            _money,
        ),
        (
            rf"([{CURRENCY_SIGNS}])({_N}){_DASH}\1?({_N})",
            lambda m: join(decimal(_amount(m[2])), "to", money(m[1], _amount(m[3]), "")),
        ),
        (rf"({_N}) ?([{CURRENCY_SIGNS}])", lambda m: money(m[2], _amount(m[1]), "")),
        (
            rf"({_N}) ?({'|'.join(CODES)})",
            lambda m: money(CODES[m[2]], _amount(m[1]), ""),
        ),
        (r"([0-9]{4})-([0-9]{2})-([0-9]{2})", lambda m: date(int(m[3]), int(m[2]), m[1])),
        (r"([0-9]{1,2})/([0-9]{1,2})/([0-9]{4}|[0-9]{2})", _slash_date),
        (r"(0[1-9])/([0-9]{2})()", _slash_date),
        (r"([0-9]{1,2}):([0-9]{2})(?: ?([aApP])\.?[mM])?", _time),
        (r"([0-9]{1,2})() ?([aApP])\.?[mM]", _time),
        (
            rf"{_CLOCK}(?:([aApP])[mM])?{_DASH}{_CLOCK}(?: ?([aApP])\.?[mM])?",
            _times,
        ),
        (r"([0-9]{1,2}):([0-9]{2}):([0-9]{2})", _seconds),
        (r"([0-9]{1,6}):([0-9]{1,6})", lambda m: _range(m[1], m[2])),
        (r"([12][0-9]{2}0)s|'([1-9]0)s", _decade),
        (rf"([{CURRENCY_SIGNS}])({_N})/([a-z]+)", _per),
        (rf"([-−+]?{_N})( ?)({_U})", _unit),
        (
            rf"({_N}){_DASH}({_N}) ?({_U})",
            lambda m: join(_range(m[1], m[2]), UNITS[m[3]][1]),
        ),
        (rf"({_N})%{_DASH}({_N})%", lambda m: join(_range(m[1], m[2]), "percent")),
        (
            rf"({_N}) ?([mbt]r?illion|thousand)",
            lambda m: join(decimal(_amount(m[1])), m[2]),
        ),
        (
            rf"({_N})([KMB])",
            lambda m: None if m[0] == "4K" else join(decimal(_amount(m[1])), SCALES[m[2]]),
        ),
        (r"([0-9]{1,15})(?:st|nd|rd|th)", lambda m: ordinal(int(m[1]))),
        (r"([0-9]{1,12}) ([0-9]{1,3})/([0-9]{1,3})", _mixed),
        (r"([0-9]+)/([0-9]+)", _slashed),
        (rf"([0-9]*)([{''.join(VULGAR)}])", _vulgar),
        (r"\+[0-9][0-9().-]{5,}|(?:1[-.])?[0-9]{3}[-.][0-9]{3}[-.][0-9]{4}", _phone),
        (r"([0-9]{3})-([0-9]{4})", _short_phone),
        (r"[0-9]+(?:-[0-9]+){2,}", _phone),
        (r"([vV]?)([0-9]+(?:\.[0-9]+){2,})", _version),
        (r"([vV])([0-9]+(?:\.[0-9]+)?)", _version),
        (rf"({_N}){_DASH}({_N})", lambda m: _range(m[1], m[2])),
        (
            rf"({_N})[x×]({_N})",
            lambda m: join(decimal(_amount(m[1])), "by", decimal(_amount(m[2]))),
        ),
        (rf"({_N})[x×]", lambda m: join(decimal(_amount(m[1])), "times")),
        (rf"[-−+]?{_N}", lambda m: plain_number_or(m[0])),
        (rf"#({_N})", lambda m: join("number", decimal(_amount(m[1])))),
        (r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", _dotted),
        (r"(?:[\w-]+\.)+(?:com|org|net|io|ai|dev|edu|gov|app|info|co|uk|de|fr|eu|us|ca)", _dotted),
    ]
]
_PART = re.compile(
    r"[0-9]+(?:st|nd|rd|th)|[0-9]+(?:\.[0-9]+){2,}|"
    r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?|[&+=@%×÷±^]"
)
_SPLIT = re.compile(r"(?<=[0-9])[-_](?=\w)|(?<=\w)[-_](?=[0-9])")


def read(text: str) -> str | None:
    """Read a word, or two joined by a blank, that one pattern covers; None if none does."""
    if text[0] in SIGNS and len(text) > 1:
        rest = read(text[1:])
        return join(SIGNS[text[0]], rest) if rest else None
    for pattern, reading in _READINGS:
        match = pattern.fullmatch(text)
        said = reading(match) if match else None
        if said:
            return said
    return None


def read_parts(text: str) -> str:
    """Read numbers and symbols inside a word that no pattern covers: `"H200"` → H two hundred."""
    if text in SYMBOLS:
        return SYMBOLS[text]
    parted = _PART.sub(_part, _SPLIT.sub(" ", text))
    tight = re.sub(r" +(?=[^\w\s&(\[\"'-])", "", parted)
    return re.sub(r" +", " ", tight).strip()


def _part(match: re.Match[str]) -> str:
    found = match[0]
    said = SYMBOLS.get(found) or read(found) or found
    return f" {said} "
