"""The seam between gateway and engine: commands, events, constants, errors.

Everything here is frozen and crosses processes. Durations are seconds (float), audio positions
are samples (int); no timestamp crosses. Nothing raises across the seam: a refusal or a
failure is an `Ended`. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

API_VERSION = 1
SAMPLE_RATE = 24_000  # Hz, mono
FRAME_SAMPLES = 1_920  # samples in one codec frame
FRAME_SECONDS = FRAME_SAMPLES / SAMPLE_RATE  # 0.08

PlaybackState: TypeAlias = Literal["waiting", "playing", "stalled", "paused", "ended"]
PlayheadModel: TypeAlias = Literal["acked", "open_loop", "stale", "untrusted"]
EndReason: TypeAlias = Literal[
    "complete", "max_audio", "runaway", "empty", "cancelled", "refused", "failed"
]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How codes are drawn; `None` fields fall back to the checkpoint's generation_config."""

    temperature: float | None = None  # Talker; 0 is greedy
    top_k: int | None = None
    top_p: float | None = None
    repetition_penalty: float | None = None
    predictor_temperature: float | None = None  # Code Predictor; 0 is greedy
    predictor_top_k: int | None = None
    predictor_top_p: float | None = None


# ---------------------------------------------------------------- commands


@dataclass(frozen=True, slots=True)
class Open:
    """Begin an utterance; its text follows in `Append`."""

    utterance: str  # unique among live utterances of the engine
    voice: str
    language: str = "auto"
    instructions: str = ""
    seed: int = 0
    after: str | None = None  # utterance heard before this one: the clock starts where it ends
    acks: bool = False  # the listener reports its playhead; False: open loop
    status: bool = False  # emit `Status`, at most 5 a second
    max_lead: float | None = 2.0  # s of unheard sound before generation rests; None: no limit
    max_audio: float = 600.0  # s of sound, then `Ended("max_audio")`
    max_frames: int | None = None  # exact length for benchmarks
    ignore_eos: bool = False  # never end before `max_frames`
    sampling: Sampling | None = None
    key: str = ""  # whose utterance it is, for fairness


@dataclass(frozen=True, slots=True)
class Append:
    """More text, joined exactly as sent."""

    utterance: str
    text: str


@dataclass(frozen=True, slots=True)
class Flush:
    """Speak what is there now; more text may follow."""

    utterance: str


@dataclass(frozen=True, slots=True)
class Finish:
    """No more text follows."""

    utterance: str


@dataclass(frozen=True, slots=True)
class Playback:
    """What the listener has rendered, validated by the gateway."""

    utterance: str
    rendered: float  # s of this utterance's sound that left the client's buffer
    state: PlaybackState
    delay: float  # s: of this report's way here and of sound's way back, the mean


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop; answered by `Ended("cancelled")`, after which no `Audio` follows."""

    utterance: str


Command: TypeAlias = Open | Append | Flush | Finish | Playback | Cancel

# ------------------------------------------------------------------ events


@dataclass(frozen=True, slots=True)
class Audio:
    """The next piece of sound of an utterance.

    May be empty: then it only carries `text_to` or `last`.
    """

    utterance: str
    start: int  # samples of this utterance sent before
    pcm: bytes  # int16 little-endian mono at SAMPLE_RATE
    text_to: int  # code points spoken by the end of `pcm`: an estimate, exact at segment ends
    last: bool  # nothing but `Ended` follows


@dataclass(frozen=True, slots=True)
class Ended:
    """Always the last event of an utterance."""

    utterance: str
    reason: EndReason
    detail: str = ""  # error code for `refused` and `failed`: "overloaded", "unsupported_voice", …
    retry_after: float | None = None  # s, with "overloaded"
    generated: int = 0  # samples made, heard or not
    text_to: int = 0  # code points spoken


@dataclass(frozen=True, slots=True)
class Status:
    """What the scheduler believes about one utterance."""

    utterance: str
    lead: float  # s of sound sent but unheard
    slack: float  # s until the next work must start; infinite becomes 3600
    model: PlayheadModel


@dataclass(frozen=True, slots=True)
class Load:
    """The engine's heartbeat, ten times a second."""

    utterances: int
    slots: int  # in all
    lateness: float  # s by which the latest recent launch missed its latest start; 0 = none
    ended: dict[str, int] = field(default_factory=dict)  # utterances so far, by reason of their end


Event: TypeAlias = Audio | Ended | Status | Load


@dataclass(frozen=True, slots=True)
class Info:
    """What an engine speaks; known once it is ready."""

    model: str
    voices: tuple[str, ...]
    default_voice: str
    languages: tuple[str, ...]  # without "auto"
    instructions: bool  # False: instructions are refused
    slots: int


# ------------------------------------------------------------------ errors


class EngineError(Exception):
    """Anything the engine reports as an exception inside its own process."""


class EngineGone(EngineError):
    """The engine process ended or stopped answering; its utterances are lost."""


class ConfigError(EngineError):
    """A configuration file or override is wrong; the message lists what is known."""


class CheckpointError(EngineError):
    """A checkpoint is missing or malformed; the message names file and key."""
