"""Utterances in any state, without a model: for the tests of the pure modules."""

from collections.abc import Iterable

from engine.api import FRAME_SAMPLES, Audio, Open
from engine.playback import PlaybackClock
from engine.segment import Segment
from engine.utterance import Utterance
from engine.work import Outcome, Stage

FRAME = bytes(2 * FRAME_SAMPLES)
EOS = Outcome(end_of_speech=True)
SPEECH = Outcome()


class Feed:
    """Hands out prepared segments."""

    def __init__(self, segments: Iterable[Segment], *, finished: bool = True) -> None:
        self.segments = list(segments)
        self.finished = finished

    def next_segment(self) -> Segment | None:
        return self.segments.pop(0) if self.segments else None

    @property
    def exhausted(self) -> bool:
        return self.finished and not self.segments


class NoTrim:
    quiet = 0.0

    def push(self, pcm: bytes, *, last: bool) -> bytes:
        return pcm


def segment(text_from: int = 0, text_to: int = 10, *, tokens: int = 4, limit: int = 99) -> Segment:
    return Segment(text_from, text_to, list(range(tokens)), closed=True, frames_limit=limit)


def utterance(
    *segments: Segment, finished: bool = True, slot: int = 0, at: float = 0.0, **options: object
) -> Utterance:
    """An utterance opened at `at` s with its text already there."""
    clock = PlaybackClock(at, patience=0.06, acks=False)
    opened = Open("u", "voice", **options)  # type: ignore[arg-type]
    feed = Feed(segments, finished=finished)
    result = Utterance(opened, slot=slot, feed=feed, clock=clock, trim=NoTrim())  # type: ignore[arg-type]
    result.text_changed()
    return result


def run(each: Utterance, stage: Stage, outcome: Outcome = SPEECH, frames: int = 1) -> Audio | None:
    """Launch and commit."""
    if stage is Stage.PREFILL:
        each.fix_layout()
    each.advance(stage, frames)
    return each.commit(stage, frames, outcome)


def speak(each: Utterance, frames: int) -> None:
    """Generate frames up to the one before the next talker step."""
    run(each, Stage.PREFILL)
    run(each, Stage.PREDICTOR)
    for _ in range(frames - 1):
        run(each, Stage.TALKER)
        run(each, Stage.PREDICTOR)


def decode(each: Utterance, frames: int) -> Audio:
    audio = run(each, Stage.CODEC, Outcome(pcm=FRAME * frames), frames)
    assert audio is not None
    return audio
