"""Utterances and stages for tests of the real model, driven without the engine's loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from engine.model.checkpoint import Checkpoint
from engine.segment import Segment
from engine.stages.predictor import PredictorStage
from engine.stages.state import SlotState, allocate
from engine.stages.talker import TalkerStage
from engine.utterance import Utterance
from engine.work import Outcome, Stage, Work
from tests.engine.speaking import utterance

CPU = torch.device("cpu")
TEXTS = ("Short.", "A rather longer sentence, said in one go.", "Middle sized text.")

torch.set_num_threads(1)  # tiny matrices: more threads are slower


def speaking(
    checkpoint: Checkpoint,
    text: str,
    *,
    slot: int = 0,
    whole: bool = True,
    closed: bool = True,
    **options: object,
) -> Utterance:
    """An utterance whose prefill may be launched."""
    tokens = checkpoint.tokenizer.body(text)
    segment = Segment(0, len(text), tokens, closed=closed, frames_limit=99)
    given = {"voice": "ryan", "ignore_eos": True} | options
    voice = given.pop("voice")
    each = utterance(segment, slot=slot, **given)
    each.options = replace(each.options, voice=voice)
    segment.whole = whole
    return each


def add_segment(checkpoint: Checkpoint, each: Utterance, text: str) -> None:
    """Let `text` be spoken after the segments that are there."""
    tokens = checkpoint.tokenizer.body(text)
    each.feed.segments.append(Segment(0, len(text), tokens, closed=True, frames_limit=99))  # type: ignore[attr-defined]


def work(each: Utterance, stage: Stage, frames: int = 1) -> Work:
    return Work(each, stage, frames, latest_start=0.0)


class Bench:
    """Talker and predictor stages with state of their own, driven frame by frame."""

    def __init__(self, checkpoint: Checkpoint, slots: int = 4) -> None:
        self.state: SlotState = allocate(checkpoint, slots=slots, segment_seconds=4.0)
        self.talker = TalkerStage(checkpoint, self.state)
        self.predictor = PredictorStage(checkpoint, self.state)

    def launch(self, stage: Stage, works: Sequence[Work]) -> list[Outcome]:
        run = {
            Stage.PREFILL: self.talker.prefill,
            Stage.TALKER: self.talker.step,
            Stage.PREDICTOR: self.predictor.frame,
        }[stage]
        return run(works)

    @torch.inference_mode()
    def run(self, stage: Stage, utterances: Sequence[Utterance]) -> list[Outcome]:
        outcomes = self.launch(stage, [work(each, stage) for each in utterances])
        for each, outcome in zip(utterances, outcomes, strict=True):
            each.advance(stage, 1)
            each.commit(stage, 1, outcome)
        return outcomes

    def speak(self, utterances: Sequence[Utterance], frames: int) -> list[Tensor]:
        """Prefill all at once, then step all together; return each one's (frames, 16) codes."""
        self.run(Stage.PREFILL, utterances)
        self.run(Stage.PREDICTOR, utterances)
        for _ in range(frames - 1):
            self.run(Stage.TALKER, utterances)
            self.run(Stage.PREDICTOR, utterances)
        return [self.state.codes[each.slot, :frames].clone() for each in utterances]


def alone(checkpoint: Checkpoint, text: str, frames: int = 5, **options: object) -> Tensor:
    return Bench(checkpoint).speak([speaking(checkpoint, text, **options)], frames)[0]
