"""What all sessions of one gateway share: the engine, the settings, the encoders and each other."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.client import EngineClient
from gateway.config import GatewayConfig
from gateway.seats import Seats
from gateway.voice.coding import Coder

if TYPE_CHECKING:
    from gateway.voice.session import Session


@dataclass(slots=True, kw_only=True)
class House:
    """One per gateway process."""

    seats: Seats
    engine: EngineClient
    config: GatewayConfig
    new_opus: Callable[[int], Coder] | None  # bit/s; None: no libopus, PCM only
    pre_skip: int = 0  # ticks an Opus listener drops at the start
    sessions: set[Session] = field(default_factory=set)
    draining: bool = False
    _prefix: str = field(default_factory=lambda: secrets.token_hex(4))
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def new_id(self) -> str:
        """An utterance id that no other gateway of the same engine uses."""
        return f"{self._prefix}-{next(self._numbers):x}"
