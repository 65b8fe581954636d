"""What a load process is told: where to speak, how, how often, and how the listeners behave.

It travels to the processes as JSON and stands in every result, so that a run can be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from gateway.bench.arrivals import Habits


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The server and what it is asked for."""

    url: str  # http://host:port
    transport: str = "http"  # or "voice"
    codec: str = "pcm"  # or "opus"
    acks: bool = True  # voice: report playback
    voice: str = ""
    model: str = ""
    token: str = ""
    fields: dict[str, Any] = field(default_factory=dict)  # more for the HTTP body or for `say`
    words_per_second: float = 0.0  # 0: the text at once
    listen: bool = False  # HTTP: stay until the sound was heard
    patience: float = 60.0  # s without any sign of a reply before it is given up

    def public(self) -> dict[str, Any]:
        """For results: all but the token."""
        return {**asdict(self), "token": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How much of it. Either `rate` (open loop) or `listeners` (closed loop) is set."""

    rate: float = 0.0  # replies/s, Poisson
    listeners: int = 0  # each asks again when it has heard its reply
    think: float = 0.0  # s between two replies of a listener
    warmup: float = 5.0  # s, not measured
    duration: float = 30.0  # s measured
    seed: int = 0
    processes: int = 1
    process: int = 0  # which of them
    texts: str = "sentences"
    soak: bool = False  # beside the load: clients that leave, break and misbehave

    @property
    def until(self) -> float:
        """s after the start: no reply is asked for any more."""
        return self.warmup + self.duration

    def mine(self, number: int) -> bool:
        """Whether this process makes this one."""
        return number % self.processes == self.process


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One run of one load process."""

    target: Target
    load: Load
    habits: Habits

    def fields(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Order:
        """From `fields`."""
        return cls(
            target=Target(**fields["target"]),
            load=Load(**fields["load"]),
            habits=Habits(**fields["habits"]),
        )
