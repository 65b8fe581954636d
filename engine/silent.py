"""The engine without a model: a tone per utterance, scripted times. Pure.

For client developers, tests and the simulator: everything but the sound is real.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache

from engine.api import FRAME_SAMPLES, Info, Open
from engine.segment import FRAMES_PER_CHARACTER, MIN_FRAMES
from engine.text.feed import TextFeed
from engine.work import FAST_ROWS, ONE_STREAM, Batch, Outcome, Stage, Stream, Ticket, Work

VOICES = ("tone", "poison")  # an utterance in the voice "poison" fails at its third frame
SEGMENT_SECONDS = 12.0
AMPLITUDE = 8_000  # of 32,767

LONGER = {  # share by which a launch of the first takes longer beside the second: as on an H200
    (Stream.FAST, Stream.MAIN): 0.5,
    (Stream.FAST, Stream.SIDE): 0.15,
    (Stream.MAIN, Stream.FAST): 0.4,
    (Stream.MAIN, Stream.SIDE): 0.45,
    (Stream.SIDE, Stream.MAIN): 0.6,
    (Stream.SIDE, Stream.FAST): 0.4,
}

GOES_ON = Outcome()
ENDS = Outcome(end_of_speech=True)
FAILED = Outcome(error="generation_failed")

Costs = Callable[[Stage, int, int], float]


def scripted_costs(stage: Stage, rows: int, frames: int) -> float:
    """Return the pretended seconds of a launch: a device about ten times real time."""
    first = {Stage.PREFILL: 0.002, Stage.TALKER: 0.001, Stage.PREDICTOR: 0.002, Stage.CODEC: 0.001}
    return first[stage] * (1 + 0.03 * (rows - 1)) * (1 + 0.05 * (frames - 1))


class SilentStages:
    """`Stages` that only pass the time.

    Args:
        slots: utterances at once.
        rows: most works in one batch.
        clock: seconds, real or virtual.
        sleep: waits for a ticket; never called in virtual time.
        costs: the duration of a launch that has the device to itself.
        streams: what runs side by side; each that is busy when a launch begins makes it longer.
    """

    def __init__(
        self,
        *,
        slots: int,
        rows: int,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        costs: Costs = scripted_costs,
        streams: Collection[Stream] = ONE_STREAM,
    ) -> None:
        self.info = Info("silent", VOICES, VOICES[0], ("english",), instructions=True, slots=slots)
        self._rows = rows
        self._clock = clock
        self._sleep = sleep
        self._costs = costs
        self.streams = streams
        self._free_at = dict.fromkeys(streams, 0.0)

    def check(self, options: Open) -> str:
        """Only the voice can be wrong."""
        known = options.voice.lower() in VOICES
        return "" if known else "unsupported_voice"

    def text(self) -> TextFeed:
        """Tokens are words: their number paces streamed text as real tokens would."""
        return TextFeed(_words, limit_seconds=SEGMENT_SECONDS, normalise=False)

    def rows(self, stage: Stage, stream: Stream = Stream.MAIN) -> int:
        """As on a GPU: few at once where a first sound is made, so that it comes soon."""
        return min(self._rows, FAST_ROWS) if stream is Stream.FAST else self._rows

    def launch(self, batch: Batch, after: Sequence[Ticket] = ()) -> SilentTicket:
        """Queue the batch behind the ones before it."""
        stream, free_at = batch.stream, self._free_at
        moments = [each.ready_at for each in after if isinstance(each, SilentTicket)]
        begins = max(free_at[stream], self._clock(), *moments)
        beside = [each for each, until in free_at.items() if each is not stream and until > begins]
        seconds = self._costs(batch.stage, len(batch.works), batch.frames)
        free_at[stream] = begins + seconds * (1 + sum(LONGER[stream, each] for each in beside))
        outcomes = [_outcome(work) for work in batch.works]
        return SilentTicket(free_at[stream], outcomes, self._clock, self._sleep)

    def release(self, slot: int) -> None:
        """Nothing is kept per slot."""


class SilentTicket:
    """Done when the clock says so."""

    def __init__(
        self,
        ready_at: float,
        outcomes: Sequence[Outcome],
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self.ready_at = ready_at
        self._outcomes = outcomes
        self._clock = clock
        self._sleep = sleep

    def done(self) -> bool:
        """Has the pretended time passed?"""
        return self._clock() >= self.ready_at

    def wait(self, timeout: float) -> None:
        """Sleep until done."""
        self._sleep(max(0.0, min(timeout, self.ready_at - self._clock())))

    def outcomes(self) -> Sequence[Outcome]:
        """What was decided at launch."""
        return self._outcomes


def tone(number: int) -> bytes:
    """Return one frame (FRAME_SAMPLES of int16) of tone `number`: 300 Hz, 337.5 Hz, …

    All are multiples of the frame rate, so that a frame holds whole cycles.
    """
    return _tone(24 + 3 * (number % 48))


@lru_cache(maxsize=64)
def _tone(cycles: int) -> bytes:
    angle = 2 * math.pi * cycles / FRAME_SAMPLES
    samples = (round(AMPLITUDE * math.sin(angle * i)) for i in range(FRAME_SAMPLES))
    return array("h", samples).tobytes()


def _outcome(work: Work) -> Outcome:
    if work.stage is Stage.PREDICTOR:
        return GOES_ON
    utterance, options = work.utterance, work.utterance.options
    if utterance.frame >= 2 and options.voice.lower() == "poison":
        return FAILED
    if work.stage is Stage.CODEC:
        return Outcome(pcm=tone(options.seed) * work.frames)
    if utterance.segment is None:
        return GOES_ON
    characters = utterance.segment.text_to - utterance.segment.text_from
    length = max(MIN_FRAMES, round(characters * FRAMES_PER_CHARACTER))
    return ENDS if utterance.step >= length and utterance.eos_allowed else GOES_ON


def _words(text: str) -> list[int]:
    """One token per word, numbered by its length."""
    return [len(word) for word in text.split()]
