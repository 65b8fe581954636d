"""One spoken reply as a state machine of two lanes: generation and codec. Pure.

Generation runs prefill, then talker and predictor in turn, a frame at a time; the codec lane turns
finished frames into sound. State advances at launch, because a device runs later what builds on it;
the facts that only data can tell (end of speech, samples) arrive at commit.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Protocol

from engine.api import FRAME_SAMPLES, FRAME_SECONDS, SAMPLE_RATE, Audio, Ended, EndReason, Open
from engine.playback import PlaybackClock
from engine.segment import FRAMES_PER_CHARACTER, Segment
from engine.work import Outcome, Stage

if TYPE_CHECKING:
    from engine.text.feed import TextFeed


class Trim(Protocol):
    """Takes leading silence away from one utterance's sound, and notices when it falls silent."""

    @property
    def quiet(self) -> float:
        """Seconds of silence at the end of the sound so far."""

    def push(self, pcm: bytes, *, last: bool) -> bytes:
        """Return what may be sent now."""


class Utterance:
    """State of one utterance while it holds a slot.

    Frame counts are from the utterance's start unless they say `step` (from the segment's start).
    """

    def __init__(
        self,
        options: Open,
        *,
        slot: int,
        feed: TextFeed,
        clock: PlaybackClock,
        trim: Trim,
        quiet_limit: float = inf,
    ) -> None:
        self.options = options
        self.slot = slot
        self.feed = feed
        self.clock = clock
        self.segment: Segment | None = None
        self.segment_number = -1
        self.decoded = 0  # frames handed to the codec
        self.delivered = 0  # frames whose sound came back
        self.samples = 0  # sent, after trimming
        self.largest_chunk = 0  # frames of the largest chunk launched
        self.resting = False  # the listener has enough ahead; set by the scheduler
        self.ended: Ended | None = None
        self._trim = trim
        self._quiet_limit = quiet_limit
        self._finished: EndReason | None = None  # no more frames will be made, and why
        self._limit: EndReason | None = None  # a limit was met; finished once the frame is known
        self._said_last = False
        self._base = 0  # frames of the segments before this one
        self._prompted = False  # this segment's prefill was launched
        self._drawn = 0  # first codes asked for, in this segment
        self._confirmed = 0  # first codes known not to be end of speech
        self._coded = 0  # predictor launches
        self._marks: list[tuple[int, int]] = [(0, 0)]  # (frame, code points) at segment ends
        self._text_to = 0

    # ------------------------------------------------ what a stage may read

    @property
    def step(self) -> int:
        """Frame of the segment that the next generation launch works on."""
        return self._coded

    @property
    def frame(self) -> int:
        """The same frame, counted from the utterance's start."""
        return self._base + self._coded

    @property
    def eos_allowed(self) -> bool:
        """Whether the next first code may be end of speech."""
        assert self.segment is not None
        return not self.options.ignore_eos and self.segment.eos_allowed(self.step)

    # ----------------------------------------------------------- the lanes

    @property
    def generating(self) -> bool:
        """Whether more frames will be made."""
        return self._finished is None

    def next_stage(self) -> Stage | None:
        """Return what the generation lane could launch now; None: resting, starved or finished."""
        segment = self.segment
        if segment is None or self._finished:
            return None
        if not self._prompted:
            return Stage.PREFILL
        if self.mid_frame:
            return Stage.PREDICTOR  # at a limit too: it is met once no frame is half made
        if self._limit or self.awaits_code or segment.starved(self._drawn):
            return None
        return Stage.TALKER

    @property
    def mid_frame(self) -> bool:
        """Whether a frame's first code was drawn and its others were not asked for."""
        return self._drawn > self._coded

    @property
    def awaits_code(self) -> bool:
        """Whether a frame was launched as a whole, and may yet turn out to be end of speech."""
        return self._confirmed < self._drawn == self._coded

    @property
    def ready_frames(self) -> int:
        """Frames whose codes exist and that are known to be speech, not yet given to the codec."""
        return self._base + min(self._confirmed, self._coded) - self.decoded

    @property
    def unsent(self) -> float:
        """Seconds of sound that is made and not sent."""
        return (self.frame - self.delivered) * FRAME_SECONDS

    @property
    def stalled(self) -> bool:
        """Whether no further frame will come without more text."""
        if self._finished or self.segment is None:
            return True
        caught_up = self._confirmed == self._drawn == self._coded
        return self._prompted and caught_up and self.segment.starved(self._drawn)

    def text_is_late(self, making: float, now: float) -> bool:
        """Whether the listener will have heard all there is before text that comes now can sound.

        Args:
            making: s from text to sound.
        """
        starved = self.segment is not None and self._prompted and self.segment.starved(self._drawn)
        if not starved or not self.samples:
            return False
        return self.clock.dry_at(now) + self.unsent < now + making

    def text_changed(self) -> None:
        """Look for something to say after text was added, flushed or finished."""
        if self.segment is None and not self._finished:
            self._begin_segment()

    def fix_layout(self) -> None:
        """Choose the prompt layout, at the moment the prefill is launched."""
        assert self.segment is not None
        self.segment.whole = self.segment.closed

    def advance(self, stage: Stage, frames: int) -> None:
        """Count a launch."""
        match stage:
            case Stage.PREFILL:
                self._prompted = True
                self._drawn = 1
            case Stage.TALKER:
                self._drawn += 1
            case Stage.PREDICTOR:
                self._coded += 1
                self._check_limits()
            case Stage.CODEC:
                self.decoded += frames
                self.largest_chunk = max(self.largest_chunk, frames)

    def commit(self, stage: Stage, frames: int, outcome: Outcome) -> Audio | None:
        """Take the facts of a finished launch; return the sound to send, if any."""
        if stage is Stage.CODEC:
            self.delivered += frames
            return self._sound(outcome.pcm)
        if stage is Stage.PREDICTOR or self._finished:
            return None
        if outcome.end_of_speech:
            self._end_segment()
            return self._sound(b"") if self.delivered == self._base else None
        self._confirmed += 1
        self._settle_limit()
        return None

    def farewell(self) -> list[Audio | Ended]:
        """Return the closing events once everything that will sound was sent, else nothing."""
        if self._finished is None or self.ready_frames or self.delivered < self.decoded:
            return []
        final = None if self._said_last or self._finished == "empty" else self._sound(b"")
        if self._finished == "complete" and not self.samples:
            return [self.end("failed", "no_audio")]
        ended = self.end(self._finished)
        return [final, ended] if final else [ended]

    def end(self, reason: EndReason, detail: str = "") -> Ended:
        """Close the utterance; nothing of it is launched or sent afterwards."""
        generated = self.frame * FRAME_SAMPLES
        self.ended = Ended(
            self.options.utterance, reason, detail, generated=generated, text_to=self._text_to
        )
        return self.ended

    # ------------------------------------------------------------ internals

    def _begin_segment(self) -> None:
        self.segment = self.feed.next_segment()
        if self.segment:
            self.segment_number += 1
        elif self.feed.exhausted:
            self._finished = "complete" if self.segment_number >= 0 else "empty"

    def _end_segment(self) -> None:
        assert self.segment is not None
        self._base += self._confirmed
        self._marks.append((self._base, self.segment.text_to))
        self.segment = None
        self._prompted = False
        self._drawn = self._confirmed = self._coded = 0
        self._limit = None
        self._begin_segment()

    def _check_limits(self) -> None:
        """Stop at the caller's limit, or where speech has gone on far beyond its text."""
        assert self.segment is not None
        exact = self.options.max_frames
        if exact is not None and self.frame >= exact:
            self._limit = "complete"
        elif self.frame * FRAME_SECONDS >= self.options.max_audio:
            self._limit = "max_audio"
        elif not self.options.ignore_eos and self.step >= self.segment.frames_limit:
            self._limit = "runaway"
        self._settle_limit()

    def _settle_limit(self) -> None:
        """The frame at the limit counts only once it is known not to be end of speech."""
        if self._limit and self._confirmed == self._drawn == self._coded:
            self._finished = self._limit

    def _sound(self, pcm: bytes) -> Audio | None:
        done = self._finished is not None and self.ready_frames == 0
        last = done and self.delivered == self.decoded
        pcm = self._trim.push(pcm, last=last)
        if self._trim.quiet >= self._quiet_limit and self._finished is None:
            self._limit = "runaway"  # the text was spoken and end of speech was missed
            self._settle_limit()
        text_to = max(self._text_to, self._text_at(self.delivered))
        if not (pcm or last or text_to > self._text_to):
            return None
        start = self.samples
        self.samples += len(pcm) // 2
        self._said_last, self._text_to = last, text_to
        return Audio(self.options.utterance, start, pcm, text_to, last)

    def _text_at(self, frame: int) -> int:
        """Estimate how much text was spoken before `frame`; exact at the ends of segments."""
        while len(self._marks) > 1 and self._marks[1][0] <= frame:
            self._marks.pop(0)
        (begin, text_from), *ended = self._marks
        if ended:
            end, text_to = ended[0]
            share = min(1.0, (frame - begin) / max(1, end - begin))
            return text_from + round(share * (text_to - text_from))
        spoken = text_from + int((frame - begin) / FRAMES_PER_CHARACTER)
        return min(spoken, max(text_from, self.segment.text_to - 1)) if self.segment else text_from


def seconds(pcm: bytes) -> float:
    """Return the duration of int16 mono samples."""
    return len(pcm) / 2 / SAMPLE_RATE
