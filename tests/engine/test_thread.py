"""The engine's thread: what it does first once a launch is over, and what it does meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest

from engine import thread
from engine.api import Append, Audio, Ended, Event, Finish, Load, Open
from engine.config import EngineConfig, ModelConfig, SchedulerConfig
from engine.silent import SilentStages, SilentTicket
from engine.thread import EngineThread
from engine.work import Batch, Stage, Ticket
from tests.waiting import LIMIT


class Eager(SilentStages):
    """As on a CPU: a launch is over when it returns."""

    def __init__(self, log: list[str]) -> None:
        super().__init__(
            slots=2, rows=2, clock=time.monotonic, sleep=time.sleep, costs=lambda *_: 0.0
        )
        self._log = log

    def launch(self, batch: Batch, after: Sequence[Ticket] = ()) -> SilentTicket:
        self._log.append(batch.stage)
        return super().launch(batch, after)


def test_sound_is_handed_on_before_the_next_launch() -> None:
    log: list[str] = []
    over = threading.Event()

    def deliver(events: list[Event]) -> None:
        log.extend("sound" for each in events if isinstance(each, Audio) and each.pcm)
        if any(isinstance(each, Ended) for each in events):
            over.set()

    engine = EngineThread(
        EngineConfig(model=ModelConfig(checkpoint="silent", slots=2)),
        deliver=deliver,
        died=lambda _: over.set(),
        stages=Eager(log),
    )
    engine.start()
    engine.wait_ready()
    log.clear()
    for command in (Open("u", "tone", max_lead=None), Append("u", "Two words."), Finish("u")):
        engine.send(command)
    assert over.wait(LIMIT)
    engine.stop()

    followers = [after for before, after in pairwise(log) if before == Stage.CODEC]
    assert followers and set(followers) == {"sound"}


class Long(SilentStages):
    """Launches that are over once an event says so."""

    def __init__(self, over: threading.Event) -> None:
        super().__init__(
            slots=1, rows=1, clock=time.monotonic, sleep=over.wait, costs=lambda *_: 0.0
        )
        self._over = over
        self.launched = False  # what is not over

    def launch(self, batch: Batch, after: Sequence[Ticket] = ()) -> SilentTicket:
        self.launched = not self._over.is_set()
        ticket = super().launch(batch, after)
        ticket.done = self._over.is_set  # type: ignore[method-assign]
        ticket.wait = self._over.wait  # type: ignore[method-assign]
        return ticket


@pytest.mark.parametrize(
    ("comes", "heartbeat"),
    [
        (lambda each: isinstance(each, Load), 0.01),
        (lambda each: isinstance(each, Ended) and each.detail == "overloaded", LIMIT),
    ],
    ids=["heartbeat", "refusal"],
)
def test_what_time_brings_comes_during_a_launch(
    comes: Callable[[Event], bool], heartbeat: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread, "HEARTBEAT", heartbeat)
    over, came = threading.Event(), threading.Event()
    over.set()
    stages = Long(over)

    def deliver(events: list[Event]) -> None:
        if stages.launched and any(map(comes, events)):
            came.set()

    engine = EngineThread(
        EngineConfig(
            model=ModelConfig(checkpoint="silent", slots=1), scheduler=SchedulerConfig(hold=0.01)
        ),
        deliver=deliver,
        died=lambda _: None,
        stages=stages,
    )
    engine.start()
    engine.wait_ready()
    over.clear()
    for command in (Open("u", "tone"), Append("u", "Two words."), Finish("u"), Open("v", "tone")):
        engine.send(command)

    assert came.wait(LIMIT), "nothing came before the launch was over"
    over.set()
    engine.stop()
