"""What the scheduler launches and what comes back: Work → Batch → Ticket → Outcome.

`Stages` is the loop's whole view of the model, real or pretended. Pure: no torch, no clock.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from engine.api import Command, Event, Info, Open

if TYPE_CHECKING:
    from engine.flights import Flight
    from engine.text.feed import TextFeed
    from engine.utterance import Utterance


class Stage(StrEnum):
    """The four things a GPU can do for an utterance."""

    PREFILL = "prefill"  # prompt → Talker cache, first code of frame 0
    TALKER = "talker"  # one step → first code of the next frame
    PREDICTOR = "predictor"  # the other codes of that frame
    CODEC = "codec"  # waiting frames → samples

    __hash__ = str.__hash__  # keys of hot dictionaries; `Enum` hashes in Python


class Stream(StrEnum):
    """Queues of a device: launches of one run in order, those of different ones side by side."""

    FAST = "fast"  # what a first sound waits for; before everything else
    MAIN = "main"  # steps of those who speak already; everything, where it is the only one
    SIDE = "side"  # chunks of those who are heard already; in the time that the others leave

    __hash__ = str.__hash__


ONE_STREAM = (Stream.MAIN,)
FAST_ROWS = 16  # most works in a batch of the fast stream: first sounds shall not wait for a crowd


class Work(NamedTuple):
    """What one utterance could do now."""

    utterance: Utterance
    stage: Stage
    frames: int  # codec: frames to decode; other stages: 1
    latest_start: float  # s on the loop's clock: start later and the listener hears silence


class Batch(NamedTuple):
    """Works of one stage launched together; codec works share `frames`."""

    stage: Stage
    works: Sequence[Work]
    stream: Stream = Stream.MAIN

    @property
    def frames(self) -> int:
        """Frames per work."""
        return self.works[0].frames


@dataclass(frozen=True, slots=True)
class Outcome:
    """The facts that only the data can tell, for one work."""

    end_of_speech: bool = (
        False  # prefill, talker: the first code was end-of-speech; no frame follows
    )
    pcm: bytes = b""  # codec: int16 little-endian, frames * FRAME_SAMPLES samples
    error: str = ""  # this row failed alone; the others of its batch are well


class Ticket(Protocol):
    """A launch in flight."""

    def done(self) -> bool:
        """Has the device finished it?"""

    def wait(self, timeout: float) -> None:
        """Block until done or for `timeout` s, without holding the interpreter lock."""

    def outcomes(self) -> Sequence[Outcome]:
        """One outcome per work, in order. Call once, when done."""


class Stages(Protocol):
    """Everything that runs on the device. Launches of one stream run in order.

    A launch reads what it needs from `work.utterance` *as it stands at launch* and must not keep
    the reference:
    slot           row of device state, stable until `release`
    options        the `Open` command: voice, language, instructions, seed, sampling, ignore_eos
    segment        `Segment`: tokens and layout of the text being spoken
    segment_number 0, 1, … : part of the random counter
    step           frame index inside the segment that PREFILL (0), TALKER or PREDICTOR works on
    frame          the same frame counted from the utterance's start: where its codes are kept
    eos_allowed    may this step draw end-of-speech?
    decoded        CODEC: first frame (from the utterance's start) to decode; 0 = from scratch
    """

    @property
    def info(self) -> Info:
        """What this model can speak."""

    def check(self, options: Open) -> str:
        """Return the error code for options this model cannot do ("unsupported_voice"), or ""."""

    def text(self) -> TextFeed:
        """A fresh feed that turns one utterance's text into segments of tokens."""

    @property
    def streams(self) -> Collection[Stream]:
        """What runs side by side; all but `MAIN` may be missing."""

    def rows(self, stage: Stage, stream: Stream = Stream.MAIN) -> int:
        """The most works of `stage` in one batch."""

    def launch(self, batch: Batch, after: Sequence[Ticket] = ()) -> Ticket:
        """Start a batch on the device, behind launches of other streams that it builds on."""

    def release(self, slot: int) -> None:
        """The slot's utterance is over; whatever is launched next for the slot starts afresh."""


class Policy(Protocol):
    """Decides what runs next; `Scheduler` is ours, others exist to be compared with."""

    def touch(self, utterance: Utterance, now: float) -> None:
        """Something happened to the utterance."""

    def forget(self, utterance: Utterance) -> None:
        """The utterance has ended."""

    def plan(self, now: float, streams: Collection[Stream] = ONE_STREAM) -> Batch | None:
        """Return the batch to launch now on one of `streams`; `launched` follows."""

    def launched(self, batch: Batch, now: float) -> None:
        """The planned batch was launched, and its utterances stand behind it now."""

    def wake_at(self, now: float) -> float:
        """Return when time alone may make something ready, s."""

    def slack(self, utterance: Utterance, now: float) -> float:
        """Return the seconds until the utterance's next work must start."""


class Observer(Protocol):
    """Watches a loop: the trace, a recorder, a simulation's bookkeeping."""

    def command(self, command: Command, now: float) -> None:
        """A command is about to be applied."""

    def finished(self, flight: Flight, now: float) -> None:
        """A batch is over."""

    def event(self, event: Event, now: float) -> None:
        """An event was emitted."""
