"""What the utterances of a session share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gateway.voice.greeting import Terms
from gateway.voice.house import House
from gateway.voice.link import Link
from gateway.voice.outbox import Outbox

if TYPE_CHECKING:
    from gateway.voice.speaking import Speaking


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """One per session, made when `hello` has been agreed on."""

    house: House
    terms: Terms
    link: Link
    outbox: Outbox
    key: str  # whose utterances, for fairness
    spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
    predecessor: Callable[[Speaking], Speaking | None]  # heard before it, if queued
    over: Callable[[Speaking], None]  # told once, after the last message
