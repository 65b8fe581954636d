"""What the gateway is told: `[gateway]` and its tables, read with `[engine]` from one file.

Defaults stand here, once; `configs/default.toml` shows each with a comment, and a test keeps the
two equal. Durations are seconds, here as everywhere but on the wire.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.api import ConfigError
from engine.config import EngineConfig, load, not_negative, within

MOST_SESSIONS = 100_000  # of one process: all are looked through for each newcomer


@dataclass(frozen=True, slots=True)
class LimitsConfig:
    """What one client may ask for; announced in `hello.limits`."""

    message_bytes: int = 65_536  # longest JSON message or HTTP body
    text: int = 10_000  # code points of one utterance
    text_message: int = 2_000  # code points of one `text` message
    utterances: int = 4  # open at once in one session
    messages_per_second: float = 200.0  # acks apart
    message_burst: int = 400  # messages at once before the rate counts
    acks_per_second: float = 20.0  # more are coalesced
    sessions: int = 1_000  # open at once, in all processes together
    sessions_per_token: int = 8
    max_audio: float = 600.0  # s of sound of one utterance

    def __post_init__(self) -> None:
        not_negative(self)
        within("sessions", self.sessions, 0, MOST_SESSIONS)
        for key in ("messages_per_second", "acks_per_second"):
            if not getattr(self, key):
                raise ConfigError(f"`{key}`: want more than 0, got: 0")


@dataclass(frozen=True, slots=True)
class OpusConfig:
    """How Opus is encoded."""

    bitrate: int = 32_000  # bit/s, 16000 to 64000; a client may ask for another
    complexity: int = 5  # 0 to 10
    threads: int = 0  # that encode, in each process; 0: one per core, at most 4
    library: str = ""  # path of libopus; empty: searched

    def __post_init__(self) -> None:
        within("bitrate", self.bitrate, 16_000, 64_000)
        within("complexity", self.complexity, 0, 10)
        within("threads", self.threads, 0, 256)


@dataclass(frozen=True, slots=True)
class OpenAIConfig:
    """How the OpenAI speech route answers."""

    aliases: dict[str, str] = field(default_factory=dict)  # their voice name -> our voice
    default_format: str = "wav"  # `response_format` when the request names none

    def __post_init__(self) -> None:
        _one_of("default_format", self.default_format, ("wav", "pcm", "opus"))


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """Everything a gateway needs, in one process or several."""

    host: str = "127.0.0.1"
    port: int = 8000  # 0: any free one, printed once listening
    processes: int = 1  # on the same port; more need an engine process and Linux
    engine: str = "local"  # "local" (a thread here), "unix:/path" or "tcp://host:port"
    tokens: tuple[str, ...] = ()  # accepted bearer tokens; empty: open to everyone
    origins: tuple[str, ...] = ()  # browser origins besides the host itself; "*": all
    max_lead: float = 3.0  # s of unheard sound of a listener that acks
    max_lead_open_loop: float = 2.0  # s of unheard sound of one that does not
    ack_interval: float = 0.1  # s between acks asked of a client
    hello_timeout: float = 10.0  # s until `hello` must have come
    text_pause: float = 0.5  # s without new text after a sentence end, then it is spoken
    text_wait: float = 3.0  # s without new text in mid-sentence, then it is spoken
    text_idle: float = 30.0  # s an open utterance may stay without new text, then it ends
    pause_limit: float = 300.0  # s a listener may stay paused, then the utterance ends
    heartbeat: float = 20.0  # s between WebSocket pings
    slow_client: float = 10.0  # s without ack or pong while sound is outstanding, then closed
    idle: float = 300.0  # s without message and utterance, then the session is closed
    age: float = 3_600.0  # s a session lives; open utterances drain
    drain: float = 20.0  # s open utterances may take to end on SIGTERM
    self_test: str = "Ready."  # spoken once at start, before readiness is told; empty: none
    log_format: str = "text"  # "text" or "json"
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    opus: OpusConfig = field(default_factory=OpusConfig)
    openai: OpenAIConfig = field(default_factory=OpenAIConfig)

    def __post_init__(self) -> None:
        within("port", self.port, 0, 65_535)
        within("processes", self.processes, 1, 256)
        if self.processes > 1 and (self.engine == "local" or sys.platform != "linux"):
            raise ConfigError(
                "`processes`: several share an engine process, on Linux; start "
                "`playhead engine` and name its address in `gateway.engine`, or want 1, "
                f"got: {self.processes}"
            )
        not_negative(self)
        _one_of("log_format", self.log_format, ("text", "json"))
        if self.engine != "local" and not self.engine.startswith(("unix:", "tcp://")):
            raise ConfigError(
                f"`engine`: want `local`, `unix:/path` or `tcp://host:port`, got: {self.engine!r}"
            )


@dataclass(frozen=True, slots=True)
class Config:
    """One file: the gateway and, if it runs in this process, its engine."""

    engine: EngineConfig
    gateway: GatewayConfig


def read(path: Path | None, overrides: Sequence[str]) -> Config:
    """Read a file and `--set table.key=value` overrides; None is defaults alone.

    Raises: ConfigError naming file, key and what would be right.
    """
    sections: dict[str, type[Any]] = {"engine": EngineConfig, "gateway": GatewayConfig}
    return Config(**load(path, overrides, sections))


def _one_of(key: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ConfigError(f"`{key}`: want one of {', '.join(choices)}, got: {value!r}")
