"""What a `voice.v1` server says, as JSON text. Sans-I/O.

Positions come in as 48 kHz ticks or seconds and leave as milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from engine.api import PlayheadModel
from gateway.protocol import ProtocolError
from gateway.sound import TICKS_PER_MS

HeardSource = Literal["client", "ack", "estimate"]
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Heard:
    """How much of an utterance its listener heard, and how sure that is."""

    audio: float  # s
    source: HeardSource
    uncertainty: float  # s, either way
    text_to: int  # code points
    text: str  # the prefix itself: JavaScript counts UTF-16 units

    def fields(self) -> dict[str, Any]:
        """As it stands in `cancelled` and in `error utterance_closed`."""
        return {
            "audio_ms": _ms(self.audio),
            "source": self.source,
            "uncertainty_ms": _ms(self.uncertainty),
            "text_to": self.text_to,
            "text": self.text,
            "text_method": "proportional",
        }


@dataclass(frozen=True, slots=True)
class Mark:
    """A word of the text and where it sounds, proportional inside its segment."""

    text_from: int  # code points
    text_to: int  # exclusive
    start: float  # ticks
    end: float  # ticks


def build(kind: str, fields: Mapping[str, Any]) -> str:
    """A message of `kind` without the fields that are None."""
    present = {name: value for name, value in fields.items() if value is not None}
    return _encode({"type": kind, **present}).decode()


def started(utterance: str, n: int, *, queued: float, hold: float) -> str:
    """Just before the first chunk; `queued` is how long earlier utterances still sound."""
    hold_ms = _ms(hold) if hold else None
    return build(
        "started", {"utterance": utterance, "n": n, "queue_ms": _ms(queued), "hold_ms": hold_ms}
    )


def flushed(utterance: str, n: int, *, text_to: int, ticks: int) -> str:
    """All sound of a flush was sent."""
    return build(
        "flushed", {"utterance": utterance, "n": n, "text_to": text_to, "audio_ms": _from(ticks)}
    )


def marks(utterance: str, n: int, items: Sequence[Mark]) -> str:
    """Where words sound; may trail the sound."""
    return build(
        "marks",
        {
            "utterance": utterance,
            "n": n,
            "method": "proportional",
            "items": [
                {
                    "kind": "word",
                    "from": mark.text_from,
                    "to": mark.text_to,
                    "start_ms": _from(mark.start),
                    "end_ms": _from(mark.end),
                }
                for mark in items
            ],
        },
    )


def done(
    utterance: str,
    n: int,
    *,
    reason: str,
    ticks: int,
    last_seq: int,
    text_to: int,
    first_audio: float | None,
) -> str:
    """After the last chunk. `first_audio` is seconds from the first text to the first chunk."""
    return build(
        "done",
        {
            "utterance": utterance,
            "n": n,
            "reason": reason,
            "audio_ms": _from(ticks),
            "last_seq": last_seq,
            "text_to": text_to,
            "first_audio_ms": None if first_audio is None else _ms(first_audio),
        },
    )


def cancelled(
    utterance: str, n: int, *, last_seq: int, sent: int, generated: int, heard: Heard
) -> str:
    """The fence: no chunk of `n` follows. `sent` and `generated` are ticks."""
    return build(
        "cancelled",
        {
            "utterance": utterance,
            "n": n,
            "last_seq": last_seq,
            "sent_ms": _from(sent),
            "generated_ms": _from(generated),
            "heard": heard.fields(),
        },
    )


def stats(
    n: int,
    *,
    seq: int,
    lead: float,
    slack: float,
    round_trip: float | None,
    jitter: float,
    offset: float | None,
    drift: float | None,
    model: PlayheadModel,
) -> str:
    """What the scheduler believes about one utterance, and of its client's clock; in seconds.

    Args:
        offset: to be added to the client's clock to have ours.
        drift: how much too fast that clock runs, s per s.
    """
    return build(
        "stats",
        {
            "n": n,
            "seq": seq,
            "lead_ms": _ms(lead),
            "slack_ms": _ms(slack),
            "rtt_ms": None if round_trip is None else _ms(round_trip),
            "jitter_ms": _ms(jitter),
            "clock_offset_ms": None if offset is None else _ms(offset),
            "clock_drift_ppm": None if drift is None else round(drift * 1e6, 1),
            "model": model,
        },
    )


def warning(
    code: str, message: str, *, utterance: str | None = None, ref: str | None = None
) -> str:
    """Something was not as it should be; nothing ends."""
    return build("warning", {"code": code, "message": message, "utterance": utterance, "ref": ref})


def error(
    problem: ProtocolError,
    *,
    fatal: bool = False,
    n: int | None = None,
    heard: Heard | None = None,
) -> str:
    """A refusal. If it names an utterance, that utterance is over; if fatal, a close follows."""
    retry = problem.retry_after
    return build(
        "error",
        {
            "code": problem.code,
            "message": problem.message,
            "fatal": fatal,
            "utterance": problem.utterance,
            "n": n,
            "param": problem.param,
            "retry_after_ms": None if retry is None else _ms(retry),
            "ref": problem.ref,
            "heard": heard.fields() if heard else None,
        },
    )


def pong(id: int, t_ms: float | None, now: float) -> str:
    """The answer to `ping`."""
    return build("pong", {"id": id, "t_ms": t_ms, "server_ms": _ms(now)})


def bye(reason: str, drain: float) -> str:
    """Before the server closes; open utterances may take `drain` seconds to end."""
    return build("bye", {"reason": reason, "drain_ms": _ms(drain)})


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)


def _from(ticks: float) -> float:
    return round(ticks / TICKS_PER_MS, 3)
