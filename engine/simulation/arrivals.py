"""Pretended load: when replies are asked for, and what they say. Pure; all chance is seeded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import pi, sin
from random import Random
from typing import TypeAlias

from engine.simulation.listeners import Listener, Population

Moments: TypeAlias = Callable[[float, float, Random], Iterator[float]]

WORDS = (  # of everyday English, the frequent ones first
    *("the", "a", "and", "of", "to", "in", "is", "it", "that", "was", "for", "on", "with"),
    *("as", "at", "by", "from", "they", "we", "say", "her", "she", "or", "an", "will"),
    *("one", "all", "would", "there", "their", "what", "so", "up", "out", "if", "about"),
    *("who", "get", "which", "go", "me", "when", "make", "can", "like", "time", "no", "just"),
    *("him", "know", "take", "people", "into", "year", "your", "good", "some", "could"),
    *("them", "see", "other", "than", "then", "now", "look", "only", "come", "its", "over"),
    *("think", "also", "back", "after", "use", "two", "how", "our", "work", "first", "well"),
    *("way", "even", "new", "want", "because", "any", "these", "give", "day", "most", "morning"),
    *("evening", "account", "number", "balance", "appointment"),
)
CHARACTERS = 68.0  # mean length of a text …
SPREAD = 18.0  # … and its standard deviation: short English sentences
SHORTEST = 20
LONGEST = 140
BURST = 10  # replies that arrive together in `bursts`
DAY = 20.0  # s: one day of `diurnal`


@dataclass(frozen=True, slots=True)
class Arrival:
    """One reply to speak."""

    at: float
    text: str
    listener: Listener = field(default_factory=Listener)
    key: str = ""  # whose it is


def poisson(rate: float, duration: float, random: Random) -> Iterator[float]:
    """Replies that know nothing of each other."""
    at = random.expovariate(rate)
    while at < duration:
        yield at
        at += random.expovariate(rate)


def bursts(rate: float, duration: float, random: Random) -> Iterator[float]:
    """The same rate, ten at a time."""
    for at in poisson(rate / BURST, duration, random):
        yield from [at] * BURST


def diurnal(rate: float, duration: float, random: Random) -> Iterator[float]:
    """A rate that swings between nothing and twice its mean, like days."""
    for at in poisson(2 * rate, duration, random):
        if random.random() < (1 - sin(2 * pi * at / DAY)) / 2:
            yield at


PATTERNS: dict[str, Moments] = {"poisson": poisson, "bursts": bursts, "diurnal": diurnal}


def arrivals(
    rate: float,
    duration: float,
    *,
    population: Population,
    seed: int,
    pattern: Moments = poisson,
    characters: float = CHARACTERS,
) -> list[Arrival]:
    """Return the replies of `duration` s; each has a chance of its own, drawn from `seed`."""
    moments = list(pattern(rate, duration, Random(f"{seed}/moments"))) if rate else []
    replies = []
    for number, at in enumerate(moments):
        random = Random(f"{seed}/{number}")
        first, listener = sentence(random, characters), population.draw(random)
        others = (sentence(random, characters) for _ in range(listener.sentences - 1))
        replies.append(Arrival(at, " ".join([first, *others]), listener))
    return replies


def sentence(random: Random, characters: float = CHARACTERS) -> str:
    """Return words up to a length drawn around `characters`, ending in a full stop."""
    scale = characters / CHARACTERS
    length = random.gauss(characters, SPREAD * scale)
    length = max(SHORTEST * scale, min(LONGEST * scale, length))
    words = [random.choice(WORDS)]
    size = len(words[0]) + 1
    while size < length:
        words.append(random.choice(WORDS))
        size += len(words[-1]) + 1
    return f"{' '.join(words).capitalize()}."
