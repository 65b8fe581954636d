"""Writes the sets of English sentences beside it: `python -m gateway.bench.texts.write`.

Seeded, so that a test can hold the files to it. 1,088 short English sentences, whose lengths
spread as those of the field's public benchmark do (about 68 characters in the mean, log-normal),
and long texts made of them. All words are our own.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path

SEED = 20
SENTENCES = 1_088
MEDIAN, SPREAD = 63.5, 0.37  # characters; standard deviation of the logarithm: the mean is 68
SHORTEST, LONGEST = 18, 220  # characters
TRIES = 40  # sentences from which the one nearest to the wanted length is taken
LONG_TEXTS, LONG_SHORTEST, LONG_LONGEST = 32, 400, 3_600  # texts, characters

WHO = (
    *("the driver", "your neighbour", "my sister", "the night nurse", "a young engineer"),
    *("the baker", "our guide", "the whole team", "the old clockmaker", "someone at the desk"),
    *("the manager", "a friend of mine", "the pilot", "their teacher", "the gardener"),
    *("the support team", "the librarian", "a quiet stranger", "the mayor", "the ferry captain"),
)
DID = (
    *("found", "repaired", "ordered", "forgot", "described", "delivered", "cancelled", "painted"),
    *("borrowed", "returned", "checked", "photographed", "packed", "replaced", "praised", "moved"),
)
WHAT = (
    *("the blue suitcase", "a box of apples", "the second key", "the broken lamp", "the invoice"),
    *("a map of the harbour", "the spare battery", "the green umbrella", "two tickets", "the list"),
    *("the kitchen window", "a very long letter", "the wrong parcel", "the garden gate"),
    *("the meeting notes", "a bag of coffee", "the winter tyres", "the tall ladder", "the piano"),
)
WHERE = (
    *("at the station", "near the bridge", "in the back room", "on the third floor", "by the lake"),
    *("behind the school", "next to the pharmacy", "in the old town", "at the airport"),
    *("under the stairs", "across the square", "outside the museum", "in the car park"),
)
WHEN = (
    *("this morning", "late last night", "on Tuesday", "before lunch", "a week ago", "yesterday"),
    *("in the early spring", "during the storm", "after the concert", "shortly before closing"),
    *("at half past seven", "when the rain stopped", "over the weekend"),
)
WHY = (
    *("because the lift was out of order", "so nobody had to wait", "although it was snowing"),
    *("because the train was late again", "while the others were still asleep"),
    *("so that we could leave on time", "even though the shop was closed"),
    *("because two people had called in sick", "as everyone had hoped"),
)
QUESTIONS = (
    *("Could you tell me", "Do you know", "Have you heard", "Can you remember", "Did they say"),
    *("Would you mind asking", "Has anyone mentioned", "Are you sure you know"),
)
WONDER = ("whether", "why", "how", "when")
ADVICE = (
    *("Please bring", "Do not forget", "Take", "Remember to ask for", "You may keep", "Look for"),
    *("Let me know if you need", "Feel free to use", "Please sign for", "I will look after"),
)
STARTS = (
    *("Good news:", "As far as I know,", "To be honest,", "In the end,", "Luckily,", "Of course,"),
    *("If I am not mistaken,", "According to the notes,", "Sure,", "One moment:", "As you asked,"),
)
SHORT = (
    *(
        "Yes, that works for me.",
        "One moment, please.",
        "Thank you for calling.",
        "I am listening.",
    ),
    *("No, not yet.", "Sorry, say that again.", "That is a good idea.", "It is on its way."),
    *("We open at nine.", "Shall we begin?", "Your table is ready.", "All is well here."),
)


def sentences(seed: int) -> list[str]:
    """SENTENCES different ones; their lengths are drawn first, then words are found for them."""
    draw = random.Random(seed)
    found: list[str] = []
    known: set[str] = set()
    while len(found) < SENTENCES:
        wanted = draw.lognormvariate(math.log(MEDIAN), SPREAD)
        if not SHORTEST <= wanted <= LONGEST:
            continue
        tries = [sentence for _ in range(TRIES) if (sentence := _sentence(draw)) not in known]
        best = min(tries, key=lambda sentence: abs(len(sentence) - wanted))
        known.add(best)
        found.append(best)
    return found


def long_texts(seed: int, material: list[str]) -> list[str]:
    """LONG_TEXTS texts of several sentences, from LONG_SHORTEST to LONG_LONGEST characters."""
    draw = random.Random(seed)
    texts = []
    for index in range(LONG_TEXTS):
        growth = (LONG_LONGEST / LONG_SHORTEST) ** (index / (LONG_TEXTS - 1))
        wanted = LONG_SHORTEST * growth
        text = draw.choice(material)
        while len(text) < wanted:
            text += " " + draw.choice(material)
        texts.append(text)
    return texts


def _sentence(draw: random.Random) -> str:
    kinds: tuple[Callable[[random.Random], str], ...] = (_statement, _story, _question, _advice)
    sentence = draw.choice((*kinds, *kinds, _short))(draw)
    return sentence[0].upper() + sentence[1:]


def _short(draw: random.Random) -> str:
    return draw.choice(SHORT)


def _statement(draw: random.Random) -> str:
    start = f"{draw.choice(STARTS)} " if draw.random() < 0.4 else ""
    return f"{start}{_fact(draw)}."


def _story(draw: random.Random) -> str:
    link = draw.choice((", and", ", but", "; later", ", and then"))
    reason = f" {draw.choice(WHY)}" if draw.random() < 0.6 else ""
    return f"{_fact(draw)}{link} {_fact(draw)}{reason}."


def _question(draw: random.Random) -> str:
    return f"{draw.choice(QUESTIONS)} {draw.choice(WONDER)} {_fact(draw)}?"


def _advice(draw: random.Random) -> str:
    more = f" and {draw.choice(WHAT)}" if draw.random() < 0.5 else ""
    place = f" {draw.choice(WHERE)}" if draw.random() < 0.6 else ""
    reason = f", {draw.choice(WHY)}" if draw.random() < 0.3 else ""
    return f"{draw.choice(ADVICE)} {draw.choice(WHAT)}{more}{place}{reason}."


def _fact(draw: random.Random) -> str:
    words = [draw.choice(WHO), draw.choice(DID), draw.choice(WHAT)]
    words += [draw.choice(WHERE)] if draw.random() < 0.5 else []
    words += [draw.choice(WHEN)] if draw.random() < 0.5 else []
    words += [draw.choice(WHY)] if draw.random() < 0.2 else []
    return " ".join(words)


def lines(texts: list[str]) -> str:
    """One JSON string a line."""
    return "".join(json.dumps(text, ensure_ascii=False) + "\n" for text in texts)


def main() -> None:
    """Write both files."""
    folder = Path(__file__).parent
    short = sentences(SEED)
    (folder / "sentences.jsonl").write_text(lines(short), encoding="utf-8")
    (folder / "long.jsonl").write_text(lines(long_texts(SEED, short)), encoding="utf-8")


if __name__ == "__main__":
    main()
