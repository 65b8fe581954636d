"""Times of launches, taken as the loop makes them: two in flight, on utterances of known length."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch

from engine.api import Open
from engine.config import TrimConfig
from engine.pcm import LeadingSilence
from engine.playback import PlaybackClock
from engine.stages.tickets import event_of
from engine.utterance import Utterance
from engine.work import Batch, Stage, Stages, Ticket, Work

FRAME_OF_PROMPT = 10  # rows around the text
FIRST_WORD, WORDS = 300, 500  # text ids that every tokenizer has
WARM_FRAMES = 4
FRAMES = 24  # measured, per number of rows
REPEATS = 5  # of a prefill and of each chunk, after one to warm up
CHUNKS = (1, 2, 4, 8, 12)  # frames of a codec work


@dataclass(frozen=True, slots=True)
class _Mark:
    """The end of one launch."""

    end: Any  # a CUDA event, or seconds
    stage: Stage
    frames: int
    host: float  # s that the launching call took
    count: bool


class Measurement:
    """Launches of one batch of utterances, timed on the device."""

    def __init__(self, stages: Stages, *, on_cuda: bool) -> None:
        self._stages = stages
        self._on_cuda = on_cuda
        self._marks: list[_Mark] = []
        self._flight: Ticket | None = None

    def prefill(self, rows: int, tokens: int) -> list[dict[str, Any]]:
        """Start `rows` prompts of `tokens` rows, and nothing else."""
        self._prefill(rows, tokens)
        return [line | {"tokens": tokens} for line in self._lines(rows)]

    def run(self, rows: int, tokens: int) -> list[dict[str, Any]]:
        """Speak with `rows` utterances and return one line per stage and chunk."""
        utterances = self._prefill(rows, tokens)
        self._advance(utterances, Stage.PREFILL)
        for frame in range(WARM_FRAMES + FRAMES):
            if frame:
                self._launch(Stage.TALKER, utterances, 1, count=frame > WARM_FRAMES)
                self._advance(utterances, Stage.TALKER)
            self._launch(Stage.PREDICTOR, utterances, 1, count=frame >= WARM_FRAMES)
            self._advance(utterances, Stage.PREDICTOR)
        for chunk in CHUNKS:
            for repeat in range(1 + REPEATS):
                self._launch(Stage.CODEC, utterances, chunk, count=repeat > 0)
                for each in utterances:
                    each.advance(Stage.CODEC, chunk)
        lines = self._lines(rows)
        for each in utterances:
            self._stages.release(each.slot)
        return lines

    def _prefill(self, rows: int, tokens: int) -> list[Utterance]:
        utterances = [self._utterance(slot, tokens) for slot in range(rows)]
        for repeat in range(1 + REPEATS):
            self._launch(Stage.PREFILL, utterances, 1, count=repeat > 0)
        return utterances

    def _lines(self, rows: int) -> list[dict[str, Any]]:
        return [
            {
                "stage": str(stage),
                "rows": rows,
                "frames": frames,
                "seconds": median(device for device, _ in times),
                "host": median(host for _, host in times),
            }
            for (stage, frames), times in self._results().items()
        ]

    def _launch(
        self, stage: Stage, utterances: Sequence[Utterance], frames: int, *, count: bool = True
    ) -> None:
        """Launch behind what runs, and settle the launch before: two in flight, as in the loop."""
        batch = Batch(stage, [Work(each, stage, frames, 0.0) for each in utterances])
        began = time.perf_counter()
        ticket = self._stages.launch(batch)
        host = time.perf_counter() - began
        self._marks.append(_Mark(_end(ticket, self._on_cuda), stage, frames, host, count))
        if self._flight is not None:
            _wait(self._flight)
        self._flight = ticket

    def _results(self) -> dict[tuple[Stage, int], list[tuple[float, float]]]:
        """Device and host seconds of every counted launch: from the end of the one before."""
        if self._flight is not None:
            _wait(self._flight)
        found: dict[tuple[Stage, int], list[tuple[float, float]]] = {}
        for before, mark in zip(self._marks, self._marks[1:], strict=False):
            if mark.count:
                times = found.setdefault((mark.stage, mark.frames), [])
                times.append((_between(before.end, mark.end), mark.host))
        return found

    def _utterance(self, slot: int, tokens: int) -> Utterance:
        feed = self._stages.text()
        feed.append("Nothing of this is read.")
        feed.finish()
        options = Open(f"bench-{slot}", self._stages.info.default_voice, seed=slot, ignore_eos=True)
        clock = PlaybackClock(0.0, patience=1.0, acks=False)
        trim = LeadingSilence(TrimConfig())
        utterance = Utterance(options, slot=slot, feed=feed, clock=clock, trim=trim)
        utterance.text_changed()
        utterance.fix_layout()
        assert utterance.segment is not None
        body = max(1, tokens - FRAME_OF_PROMPT)
        utterance.segment.tokens = [FIRST_WORD + place % WORDS for place in range(body)]
        return utterance

    def _advance(self, utterances: Sequence[Utterance], stage: Stage) -> None:
        for each in utterances:
            each.advance(stage, 1)


def _end(ticket: Ticket, on_cuda: bool) -> Any:
    """An event when a launch is over, on whichever stream; without CUDA, now: it is."""
    if not on_cuda:
        return time.perf_counter()
    torch.cuda.current_stream().wait_event(event_of(ticket))
    event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch's
    event.record()
    return event


def _between(begin: Any, end: Any) -> float:
    if isinstance(begin, float):
        return float(end - begin)
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3


def _wait(ticket: Ticket) -> None:
    while not ticket.done():
        ticket.wait(1.0)
    ticket.outcomes()
