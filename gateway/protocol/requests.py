"""What a `voice.v1` client may say, as frozen dataclasses with the bounds of each field.

Milliseconds stay milliseconds until the session takes them, so that an error names what the client
wrote. `protocol.parse` makes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from engine.api import PlaybackState

ID_PATTERN = r"^[A-Za-z0-9._:-]{1,64}\Z"

# Bounds also keep out NaN and infinities, which no comparison admits.
Duration: TypeAlias = Annotated[float, Meta(ge=0, le=86_400_000)]  # ms
Instant: TypeAlias = Annotated[float, Meta(ge=-1e15, le=1e15)]  # ms on the client's own clock
Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]
Id: TypeAlias = Annotated[str, Meta(pattern=ID_PATTERN)]
Name: TypeAlias = Annotated[str, Meta(max_length=64)]
Language: TypeAlias = Annotated[str, Meta(max_length=32)]
Instructions: TypeAlias = Annotated[str, Meta(max_length=1000)]
Seed: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What every client message may carry."""

    ref: Name | None = None  # echoed in a resulting error


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown(Message):
    """A message type of a later version; warned about, otherwise ignored."""

    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioWish:
    """The sound a client can take, in order of preference."""

    codecs: Annotated[list[Name], Meta(min_length=1, max_length=16)] = field(
        default_factory=lambda: ["opus", "pcm_s16le"]
    )
    sample_rate: Literal[8000, 16000, 24000, 48000] = 24000
    bitrate: Annotated[int, Meta(ge=16_000, le=64_000)] | None = None  # Opus, bit/s


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayerWish:
    """How the client's player buffers."""

    prebuffer_ms: Annotated[float, Meta(ge=0, le=2000)] = 0
    max_lead_ms: Annotated[float, Meta(ge=200, le=10_000)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientName:
    """Who connects; for logs."""

    name: Name = ""
    version: Name = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello(Message):
    """The first message: what the client can do and wants."""

    token: Annotated[str, Meta(max_length=4096)] | None = None
    audio: AudioWish = field(default_factory=AudioWish)
    acks: bool = False  # the client promises to report its playhead
    player: PlayerWish = field(default_factory=PlayerWish)
    voice: Name | None = None
    language: Language | None = None
    instructions: Instructions | None = None
    seed: Seed | None = None
    want: Annotated[list[Name], Meta(max_length=16)] = field(default_factory=list)
    client: ClientName = field(default_factory=ClientName)


@dataclass(frozen=True, slots=True, kw_only=True)
class Say(Message):
    """Open an utterance."""

    utterance: Id
    voice: Name | None = None
    language: Language | None = None
    instructions: Instructions | None = None
    seed: Seed | None = None
    text: str = ""
    last: bool = False
    mode: Literal["queue", "replace", "parallel"] = "queue"
    before: Annotated[str, Meta(max_length=500)] = ""
    max_audio_ms: Annotated[float, Meta(ge=1000, le=600_000)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Message):
    """More text of an utterance, joined exactly as sent."""

    utterance: Id
    text: str = ""
    last: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Flush(Message):
    """Speak what is there now; more may follow."""

    utterance: Id


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel(Message):
    """Barge-in: stop one utterance, or all with `*`."""

    utterance: Annotated[str, Meta(pattern=r"^(\*|[A-Za-z0-9._:-]{1,64})\Z")]
    played_ms: Duration | None = None
    t_ms: Instant | None = None
    reason: Name = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack(Message):
    """How much of an utterance has been heard."""

    n: Annotated[int, Meta(ge=0, le=65_535)]
    seq: Annotated[int, Meta(ge=-1, lt=2**32)]  # last chunk received
    played_ms: Duration  # at the ear
    t_ms: Instant  # client's clock when that was true
    latency_ms: Annotated[float, Meta(ge=0, le=2000)]  # rendered = played + latency
    state: PlaybackState = "playing"
    buffered_ms: Annotated[float, Meta(ge=0, le=60_000)] | None = None
    stalls: Count = 0
    stalled_ms: Duration = 0
    rx_ms: Instant | None = None  # client's clock when chunk `seq` arrived
    echo: Annotated[int, Meta(ge=0, lt=2**32)] | None = None  # `sent_at` of chunk `seq`
    dropped_ms: Duration = 0
    rate: Annotated[float, Meta(ge=1, le=1)] = 1.0  # reserved: playback at another speed
    hidden: bool = False
    reason: Name = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping(Message):
    """Answered at once; page scripts cannot send WebSocket pings."""

    id: Annotated[int, Meta(ge=0, le=2**53)] = 0
    t_ms: Instant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bye(Message):
    """The client leaves; `drain` lets open utterances end first."""

    drain: bool = False


KINDS: dict[str, type[Message]] = {
    "hello": Hello,
    "say": Say,
    "text": Text,
    "flush": Flush,
    "cancel": Cancel,
    "ack": Ack,
    "ping": Ping,
    "bye": Bye,
}
