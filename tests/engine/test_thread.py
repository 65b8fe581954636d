"""The engine's thread: what it does first once a launch is over."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from itertools import pairwise

from engine.api import Append, Audio, Ended, Event, Finish, Open
from engine.config import EngineConfig, ModelConfig
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
