"""A device without a free slot refuses newcomers; whoever was admitted speaks to the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from engine.api import Append, Audio, Command, Ended, Event, Finish, Open
from engine.config import EngineConfig, ModelConfig, SchedulerConfig
from engine.loop import EngineLoop
from engine.pcm import LeadingSilence
from engine.silent import SilentStages
from engine.stages import build
from engine.work import Batch, Stage, Stages, Ticket

TEXT = "One sentence is followed by another one here. " * 4
SHORT = "One is said. Then two is said. Then three."
TURN = 0.002  # s that a turn of the loop takes, as its clock tells


class Crowd:
    """A loop over some stages; what each utterance heard."""

    def __init__(self, stages: Stages, config: EngineConfig) -> None:
        self.events: list[Event] = []
        self.now = 0.0
        trim = lambda: LeadingSilence(config.trim)  # noqa: E731 (as the engine's thread does)
        self.loop = EngineLoop(stages, config, emit=self.events.append, trim=trim)

    def run(self, *commands: Command) -> None:
        """Apply commands and let time pass until nobody speaks."""
        waiting = list(commands)
        while waiting or self.loop.busy:
            self.loop.step(waiting, self.now)
            waiting = []
            self.now += TURN

    def ends(self) -> dict[str, tuple[str, str]]:
        return {
            each.utterance: (each.reason, each.detail)
            for each in self.events
            if isinstance(each, Ended)
        }

    def frames(self, name: str) -> float:
        heard = (each for each in self.events if isinstance(each, Audio))
        return sum(len(each.pcm) for each in heard if each.utterance == name) / 2 / 1920


def say(name: str, text: str = TEXT, **options: Any) -> list[Command]:
    opened = Open(name, str(options.pop("voice", "tone")), max_lead=None, **options)
    return [opened, Append(name, text), Finish(name)]


def test_more_utterances_than_slots_are_refused_and_the_others_speak_to_their_end() -> None:
    crowd = Crowd(
        SilentStages(slots=2, rows=2, clock=lambda: crowd.now, sleep=lambda _: None),
        EngineConfig(scheduler=SchedulerConfig(load_limit=1e6)),
    )

    crowd.run(*say("a"), *say("b"), *say("c"))
    crowd.run(*say("d"))

    assert crowd.ends() == {
        "c": ("refused", "overloaded"),
        "a": ("complete", ""),
        "b": ("complete", ""),
        "d": ("complete", ""),
    }
    assert crowd.frames("c") == 0
    assert crowd.frames("a") == crowd.frames("b") == crowd.frames("d") > 100


class Watched:
    """The real stages; notes how many segments were begun."""

    def __init__(self, stages: Stages) -> None:
        self.longest = 0
        self._stages = stages

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stages, name)

    def launch(self, batch: Batch, after: Sequence[Ticket] = ()) -> Ticket:
        if batch.stage is Stage.PREFILL:
            numbers = (work.utterance.segment_number for work in batch.works)
            self.longest = max(self.longest, *numbers, 0)
        return self._stages.launch(batch, after)


def test_an_admitted_utterance_of_many_segments_keeps_its_slot_to_the_end() -> None:
    stages = Watched(
        build(ModelConfig(slots=2, rows=2, device="cpu", threads=1, segment_seconds=1.0))
    )
    crowd = Crowd(cast(Stages, stages), EngineConfig(scheduler=SchedulerConfig(load_limit=1e6)))

    crowd.run(
        *(
            each
            for seed, name in enumerate("abc")
            for each in say(name, SHORT, voice="rms", seed=seed)
        )
    )

    assert crowd.ends() == {
        "c": ("refused", "overloaded"),
        "a": ("complete", ""),
        "b": ("complete", ""),
    }
    assert stages.longest >= 2
    assert min(crowd.frames("a"), crowd.frames("b")) > 10
