"""One reply while it is measured, and what remains of it: `Take` becomes a `Reply`.

Both transports fill a take; every definition of a figure is applied here and nowhere else.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass
from typing import Any, Literal

from engine.api import SAMPLE_RATE
from gateway.bench.arrivals import Habits
from gateway.bench.onset import Onset
from gateway.bench.playback import Playback

Outcome = Literal["complete", "cancelled", "refused", "failed"]
SECONDS_PER_CHARACTER = 0.0584  # of this model's speech: 0.73 frames; where a reply was cut short
REFUSALS = ("overloaded", "rate_limited", "too_many_utterances", "http 429", "http 503")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What one listener got; times are seconds after t0, the moment the text left."""

    number: int
    due: float  # s after the start of the run
    lag: float | None  # s: dispatch − ideal arrival; None in a closed loop
    characters: int
    outcome: Outcome
    code: str  # why, if not complete
    first_playable: float | None
    audible: float | None  # None: never loud enough to be speech
    end: float  # last byte, or the message that ends the reply
    sound: float  # s received
    heard: float  # s played
    heard_characters: float
    underruns: int
    dry: float  # s
    lead: float  # s of unheard sound after each arrival, the mean
    paused: bool
    chunks: int

    @classmethod
    def read(cls, fields: dict[str, Any]) -> Reply:
        """From a line that `asdict` wrote."""
        return cls(**fields)

    def fields(self) -> dict[str, Any]:
        """For a line of JSON."""
        return asdict(self)


class Take:
    """Filled while a reply arrives. `moved` is set at every change, `over` at the end."""

    def __init__(self, habits: Habits, *, now: float) -> None:
        """`now`: t0, just before the text is sent."""
        self.playback = Playback(habits.start_buffer)
        self.onset = Onset()
        self.t0 = now
        self.moved = asyncio.Event()
        self.over = asyncio.Event()  # no more will come
        self.first_at: float | None = None
        self.ended_at: float | None = None
        self.stopped_at: float | None = None  # the listener interrupted
        self.outcome: Outcome = "failed"
        self.code = ""
        self.chunks = 0
        self.paused = False
        self.heard_to: int | None = None  # code points, where the server says so
        self._latency = habits.latency
        self._leads = 0.0  # s, summed over arrivals

    @property
    def ended(self) -> bool:
        """Whether no more will come."""
        return self.ended_at is not None

    def sound(self, now: float, samples: float, pcm: bytes = b"") -> None:
        """Samples have arrived; `pcm` may be left out once the onset is found."""
        if samples <= 0:
            return
        self.chunks += 1
        self.first_at = now if self.first_at is None else self.first_at
        self.onset.add(pcm)
        self.playback.arrived(now, samples / SAMPLE_RATE)
        self._leads += self.playback.lead(now)
        self.moved.set()

    def finish(self, now: float, outcome: Outcome, code: str = "") -> None:
        """The reply is over; only the first call counts."""
        if self.ended:
            return
        self.ended_at, self.outcome, self.code = now, outcome, code
        self.playback.finish(now)
        self.over.set()
        self.moved.set()

    def reply(self, *, number: int, due: float, lag: float | None, characters: int) -> Reply:
        """What is kept; call it once the listener has left."""
        assert self.ended_at is not None, "a take is read after its end"
        playback = self.playback
        end = self.ended_at if self.stopped_at is None else self.stopped_at
        heard = playback.received if self.stopped_at is None else playback.heard(end)
        return Reply(
            number=number,
            due=due,
            lag=lag,
            characters=characters,
            outcome=self.outcome,
            code=self.code,
            first_playable=None if self.first_at is None else self.first_at - self.t0,
            audible=self._audible(),
            end=self.ended_at - self.t0,
            sound=playback.received,
            heard=heard,
            heard_characters=self._heard_characters(heard, characters),
            underruns=playback.underruns,
            dry=playback.dry,
            lead=self._leads / self.chunks if self.chunks else 0.0,
            paused=self.paused,
            chunks=self.chunks,
        )

    def _audible(self) -> float | None:
        if self.onset.position is None:
            return None
        at = self.playback.when(self.onset.position)
        return None if at is None else at + self._latency - self.t0

    def _heard_characters(self, heard: float, characters: int) -> float:
        """The server's word if it gave one; else in proportion to the sound."""
        if self.heard_to is not None:
            return self.heard_to
        if self.outcome == "complete" and self.stopped_at is None:
            return characters
        if self.outcome not in ("complete", "cancelled") or not self.playback.received:
            return 0
        return characters * heard / max(self.playback.received, characters * SECONDS_PER_CHARACTER)


def refusal(code: str) -> Outcome:
    """A server that says "not now" did not fail."""
    return "refused" if code in REFUSALS else "failed"
