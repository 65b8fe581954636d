"""What is compared with the official package: shared by the generator and the tests."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

TEXTS = (
    "Thank you for calling.",
    "A second, somewhat longer sentence: iPhone and McDonald's!",
)
INSTRUCTIONS = "Speak slowly, with a warm smile."
VOICES = (
    ("auto", "ryan"),
    ("english", "ryan"),
    ("chinese", "eric"),  # speaks the dialect
    ("auto", "dylan"),  # the same
    ("german", "dylan"),  # another language beats the dialect
)


@dataclass(frozen=True, slots=True)
class Case:
    """One generation by the official package."""

    name: str
    checkpoint: str  # "1b7" or "0b6": random; "eos": ends at once; "embedded"
    text: str
    language: str
    speaker: str
    instructions: str
    whole: bool
    tokens: int  # `max_new_tokens`: at most one frame less comes out
    seed: int | None = None  # None: greedy
    top_p: float = 1.0
    details: bool = False  # keep prompt rows and logits too


def greedy_cases() -> list[Case]:
    """Every layout, with and without instructions, for voices with and without a dialect."""
    cases = []
    for size, whole, (language, speaker), instructions in product(
        ("1b7", "0b6"), (True, False), VOICES, ("", INSTRUCTIONS)
    ):
        if size == "0b6" and instructions:
            continue  # the official wrapper drops them
        number = len(cases)
        name = f"greedy-{number:02}"
        text = TEXTS[number % 2]
        details = number in (2, 13)
        cases.append(
            Case(name, size, text, language, speaker, instructions, whole, 8, details=details)
        )
    return cases


def sampled_cases() -> list[Case]:
    """The official order of draws from one generator: code 0, codes 1 to 15, the next code 0."""
    options = ((0, 1.0), (1, 1.0), (2, 0.8), (3, 0.5))
    return [
        Case(f"sampled-{seed}", "1b7", TEXTS[1], "english", "ryan", "", True, 13, seed, top_p)
        for seed, top_p in options
    ]


def ending_cases() -> list[Case]:
    """Where generation stops."""
    return [
        Case("ends-at-once", "eos", TEXTS[0], "auto", "ryan", "", True, 8),
        Case("budget", "1b7", TEXTS[0], "auto", "ryan", "", True, 5),
    ]


def embedded_cases() -> list[Case]:
    """The voice that ships with the engine, greedy, in both layouts, to its own end of speech."""
    return [
        Case(f"embedded-{int(whole)}", "embedded", TEXTS[0], "english", "rms", "", whole, 60)
        for whole in (True, False)
    ]


def all_cases() -> list[Case]:
    """Every case, each with a unique name."""
    return [*greedy_cases(), *sampled_cases(), *ending_cases(), *embedded_cases()]


TOKENIZED = (
    "Hello, world.",
    "iPhone McDonald's WiFi eBay don't WE'LL",
    "\nleading newline",
    "trailing newline\n",
    "  two spaces  inside and after  ",
    "tab\tand\r\nwindows\n\n\nlines",
    "1234 3.50 7:45 x²",
    "你好\uff0c世界。これは日本語です。안녕하세요.",
    "e\u0301 and é: composed alike; ﬁ stays",
    "emoji 👩‍👩‍👧 and dashes — … “quoted”",
    "Привет, мир! ¿Qué tal?",
    " ",
    "a",
)
