"""What the utterances of a session share, and how each of them is spoken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.client import EngineClient
from gateway.config import GatewayConfig
from gateway.voice.acks import Link
from gateway.voice.coding import Coder
from gateway.voice.outbox import Outbox

if TYPE_CHECKING:
    from gateway.voice.speaking import Speaking


@dataclass(slots=True, kw_only=True)
class Common:
    """What all utterances of one session share."""

    engine: EngineClient
    config: GatewayConfig
    link: Link
    outbox: Outbox
    acks: bool  # the client reports its playhead
    wanted: frozenset[str]  # "marks", "stats"
    max_lead: float  # s
    key: str  # whose utterances, for fairness
    new_coder: Callable[[], Coder]
    new_id: Callable[[], str]  # unique in the engine
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
