"""What the utterances of a session share, and how each of them is spoken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gateway.protocol.requests import Hello
from gateway.voice.acks import Link
from gateway.voice.coding import Coder
from gateway.voice.house import House
from gateway.voice.outbox import Outbox

if TYPE_CHECKING:
    from gateway.voice.speaking import Speaking


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What client and server agreed on in `hello`."""

    hello: Hello  # the client's wishes, and the defaults of each `say`
    codec: str
    bitrate: int  # bit/s
    pre_skip: int  # ticks
    new_coder: Callable[[], Coder]
    max_lead: float  # s


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """What all utterances of one session share."""

    house: House
    terms: Terms
    link: Link
    outbox: Outbox
    key: str  # whose utterances, for fairness
    spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
    predecessor: Callable[[Speaking], Speaking | None]  # heard before it, if queued
    over: Callable[[Speaking], None]  # told once, after the last message


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How an utterance is spoken, resolved from `say`, `hello` and the engine's defaults."""

    voice: str
    language: str
    instructions: str
    seed: int
    max_audio: float  # s
