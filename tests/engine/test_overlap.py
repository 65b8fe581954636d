"""On a card, streams and company change when things happen, never what is said."""

from __future__ import annotations

import time

import numpy as np
import pytest

from engine.api import Append, Audio, Cancel, Command, Ended, Event, Finish, Open
from engine.config import EngineConfig, ModelConfig, SchedulerConfig
from engine.loop import EngineLoop
from engine.stages import build
from engine.work import Stream
from tests.engine.speaking import NoTrim

pytestmark = pytest.mark.gpu

TEXT = "Your order has left the warehouse, and will arrive on Thursday before noon."
SPEAKERS = 40
SLOTS = 12  # fewer: they are used again, some of them after a cancellation
EVERY = 9  # turns between two arrivals


def commands(number: int) -> list[Command]:
    """Everything that is asked at one arrival; every fifth utterance is cancelled by the next."""
    name = f"u{number}"
    opening = Open(name, "", seed=number, max_lead=None, max_frames=12 + number % 30)
    found: list[Command] = [opening, Append(name, TEXT), Finish(name)]
    return [*found, Cancel(f"u{number - 1}")] if number % 5 == 1 else found


def spoken(dtype: str, *, alone: bool = False, **options: bool) -> dict[str, bytes]:
    """Speak on the card; return the sound of all that were not cancelled.

    Args:
        dtype: of Talker and Code Predictor.
        alone: each arrives when nobody is there.
    """
    model = ModelConfig(
        device="cuda", dtype=dtype, codec_dtype="float32", slots=SLOTS, rows=16, **options
    )
    stages = build(model)
    assert set(stages.streams) == (set(Stream) if model.overlap else {Stream.MAIN})
    events: list[Event] = []
    scheduler = SchedulerConfig(load_limit=1e6, hold=1e6)
    loop = EngineLoop(
        stages, EngineConfig(model=model, scheduler=scheduler), emit=events.append, trim=NoTrim
    )
    turn = number = 0
    while number < SPEAKERS or loop.busy:
        due = not loop.busy if alone else turn % EVERY == 0
        arrives = due and number < SPEAKERS
        launched = loop.step(commands(number) if arrives else [], time.monotonic())
        number, turn = number + arrives, turn + 1
        if not launched:
            for ticket in loop.tickets[:1]:
                ticket.wait(0.001)
    complete = {e.utterance for e in events if isinstance(e, Ended) and e.reason == "complete"}
    return {
        name: b"".join(e.pcm for e in events if isinstance(e, Audio) and e.utterance == name)
        for name in complete
    }


def assert_same(some: dict[str, bytes], others: dict[str, bytes]) -> None:
    both = some.keys() & others.keys()
    assert len(both) >= SPEAKERS - SPEAKERS // 5 - 1, "only the cancelled may be missing"
    for name in both:
        one, other = (np.frombuffer(each[name], np.int16).astype(int) for each in (some, others))
        assert len(one) == len(other)
        off = np.abs(one - other).max()
        assert off < 40, f"{name}: {off} steps off: other codes were decoded"


def test_streams_side_by_side_say_the_same() -> None:
    one, three = spoken("float32", overlap=False), spoken("float32", overlap=True)

    assert_same(one, three)


def test_deterministic_speech_is_the_same_alone() -> None:
    alone, together = (
        spoken("bfloat16", deterministic=True, alone=alone) for alone in (True, False)
    )

    assert_same(alone, together)
