"""The loop in virtual time: commands in, events out, on pretended stages."""

from collections.abc import Callable
from itertools import pairwise
from math import inf

import pytest

from engine.api import (
    FRAME_SAMPLES,
    SAMPLE_RATE,
    Append,
    Audio,
    Cancel,
    Command,
    Ended,
    Event,
    Finish,
    Flush,
    Open,
    Playback,
    Status,
)
from engine.config import EngineConfig, ModelConfig
from engine.loop import EngineLoop
from engine.silent import SilentStages, tone
from engine.utterance import Trim
from engine.work import Stage
from tests.engine.speaking import NoTrim

TEXT = "This is a sentence of about fifty characters, no more."


class Bench:
    """A loop, its device and a clock that only moves when told."""

    def __init__(
        self, *, slots: int = 4, cost: float = 0.001, trim: Callable[[], Trim] = NoTrim
    ) -> None:
        self.now = 0.0
        self.launches: list[tuple[Stage, int, int]] = []
        self.events: list[Event] = []
        self.moments: list[float] = []  # of the events
        self._cost = cost
        config = EngineConfig(model=ModelConfig(slots=slots))
        stages = SilentStages(
            slots=slots, rows=32, clock=lambda: self.now, sleep=self._sleep, costs=self._launched
        )
        self.loop = EngineLoop(stages, config, emit=self._emitted, trim=trim)

    def do(self, *commands: Command, until: float = 0.0) -> None:
        """Apply commands and let time pass until `until` or until nothing is left to do."""
        todo = list(commands)
        while True:
            while self.loop.step(todo, self.now):
                todo = []
            todo = []
            ready = [each.ready_at for each in self.loop.tickets]  # type: ignore[attr-defined]
            moment = min(ready, default=self.loop.wake_at(self.now))
            if moment > until:
                self.now = max(self.now, until)
                return
            self.now = max(self.now, moment)

    def audio(self, name: str = "u") -> list[Audio]:
        return [e for e in self.events if isinstance(e, Audio) and e.utterance == name]

    def ended(self, name: str = "u") -> Ended:
        ends = [e for e in self.events if isinstance(e, Ended) and e.utterance == name]
        assert len(ends) == 1, f"one terminal event, got: {ends}"
        assert [e for e in self.events if getattr(e, "utterance", "") == name][-1] is ends[0]
        return ends[0]

    def _emitted(self, event: Event) -> None:
        self.events.append(event)
        self.moments.append(self.now)

    def _launched(self, stage: Stage, rows: int, frames: int) -> float:
        self.launches.append((stage, rows, frames))
        return self._cost

    def _sleep(self, _: float) -> None:
        raise AssertionError("the loop never sleeps")


def say(name: str = "u", text: str = TEXT, **options: object) -> list[Command]:
    opened = Open(name, str(options.pop("voice", "tone")), **options)  # type: ignore[arg-type]
    return [opened, Append(name, text), Finish(name)]


def test_sound_is_gapless_grows_in_chunks_and_ends_once() -> None:
    bench = Bench()

    bench.do(*say(), until=60.0)

    audio = bench.audio()
    assert all(a.start + len(a.pcm) // 2 == b.start for a, b in pairwise(audio))
    sizes = [len(a.pcm) // 2 // FRAME_SAMPLES for a in audio]
    assert sizes[:3] == [1, 2, 4]
    assert [a.last for a in audio] == [False] * (len(audio) - 1) + [True]
    assert bench.ended().reason == "complete"
    assert audio[-1].text_to == len(TEXT)


def test_first_sound_takes_only_the_stages_it_needs() -> None:
    bench = Bench()

    bench.do(*say(), until=60.0)

    stages = [launch[0] for launch in bench.launches[:3]]
    assert stages == [Stage.PREFILL, Stage.PREDICTOR, Stage.CODEC]


def test_utterances_share_batches_and_keep_their_own_sound() -> None:
    bench = Bench()

    bench.do(*say("a", seed=1), *say("b", seed=2), *say("c", seed=3), until=60.0)

    assert max(rows for _, rows, _ in bench.launches) == 3
    for number, name in enumerate("abc", start=1):
        pcm = b"".join(a.pcm for a in bench.audio(name))
        assert pcm == tone(number) * (len(pcm) // len(tone(number)))
        assert bench.ended(name).reason == "complete"


def test_generation_rests_at_the_lead_limit_until_the_listener_has_heard() -> None:
    bench = Bench()
    bench.do(*say(text=TEXT * 3, acks=True, max_lead=1.0), until=0.5)

    bench.do(Playback("u", 0.0, "paused", 0.0), until=1.5)
    while_paused = sum(len(a.pcm) for a in bench.audio())
    bench.do(until=3.0)
    still_paused = sum(len(a.pcm) for a in bench.audio())
    bench.do(Playback("u", 0.0, "playing", 0.0), until=3.7)

    assert while_paused <= 2 * 24_000 * 1.2, "a rest begins within a chunk of the limit"
    assert still_paused == while_paused
    assert sum(len(a.pcm) for a in bench.audio()) > still_paused


def test_cancel_ends_at_once_and_nothing_follows() -> None:
    bench = Bench()
    bench.do(*say(), until=0.05)
    heard = len(bench.audio())

    bench.do(Cancel("u"), until=60.0)

    assert bench.ended().reason == "cancelled"
    assert len(bench.audio()) == heard
    assert bench.ended().generated >= sum(len(a.pcm) // 2 for a in bench.audio())


def test_slot_of_a_cancelled_utterance_speaks_for_the_next_alone() -> None:
    bench = Bench(slots=1)
    bench.do(*say("a", seed=1), until=0.02)

    bench.do(Cancel("a"), *say("b", seed=2), until=60.0)

    assert {a.pcm[: len(tone(2))] for a in bench.audio("b") if a.pcm} == {tone(2)}


def test_full_engine_refuses_after_a_moment_and_says_when_to_come_back() -> None:
    bench = Bench(slots=1)

    bench.do(*say("a", text=TEXT * 9), *say("b"), until=0.3)

    refused = bench.ended("b")
    assert (refused.reason, refused.detail) == ("refused", "overloaded")
    assert refused.retry_after and refused.retry_after > 0


def test_newcomer_is_held_until_a_slot_is_free() -> None:
    bench = Bench(slots=1)
    bench.do(*say("a", max_lead=1.0), until=0.5)

    bench.do(*say("b"), until=0.6)
    bench.do(Cancel("a"), until=60.0)

    assert bench.ended("b").reason == "complete"


def test_held_newcomer_can_be_cancelled() -> None:
    bench = Bench(slots=1)
    bench.do(*say("a", max_lead=1.0), *say("b"), until=0.05)

    bench.do(Cancel("b"), until=60.0)

    assert bench.ended("b").reason == "cancelled"


def test_device_that_cannot_keep_up_with_more_refuses_them() -> None:
    bench = Bench(slots=8, cost=0.02)
    bench.do(*say("a", text=TEXT * 5), until=3.0)

    bench.do(*say("b", text=TEXT * 5), *say("c"), *say("d"), until=3.5)

    assert bench.ended("d").detail == "overloaded"


def test_unknown_voice_is_refused_and_its_slot_is_free_again() -> None:
    bench = Bench(slots=1)

    bench.do(*say("a", voice="nobody"), *say("b"), until=60.0)

    assert (bench.ended("a").reason, bench.ended("a").detail) == ("refused", "unsupported_voice")
    assert bench.ended("b").reason == "complete"


def test_failing_utterance_ends_alone() -> None:
    bench = Bench()

    bench.do(*say("a"), *say("bad", voice="poison"), *say("c"), until=60.0)

    assert (bench.ended("bad").reason, bench.ended("bad").detail) == ("failed", "generation_failed")
    assert bench.ended("a").reason == bench.ended("c").reason == "complete"


@pytest.mark.parametrize("text", ["", "   ", "...", "?!"])
def test_nothing_to_say_ends_empty_without_a_launch(text: str) -> None:
    bench = Bench()

    bench.do(*say(text=text), until=1.0)

    assert bench.ended().reason == "empty"
    assert not bench.launches


def test_streamed_text_waits_for_words_and_goes_on() -> None:
    bench = Bench()
    bench.do(Open("u", "tone"), Append("u", "Once there was "), until=1.0)
    before = len(bench.launches)

    bench.do(until=2.0)
    assert len(bench.launches) == before, "a starved utterance costs nothing"
    bench.do(Append("u", "a king."), Finish("u"), until=60.0)

    assert bench.ended().reason == "complete"
    assert bench.audio()[-1].text_to == len("Once there was a king.")


SENTENCES = [
    "The first of these sentences tells you that words come slowly here. ",
    "The second one takes as long to arrive, and it is spoken without a break. ",
    "The third is the last of them.",
]


def paced(bench: Bench, words_per_second: float, text: str = "".join(SENTENCES)) -> None:
    """Let a text arrive word by word, and be spoken."""
    bench.do(Open("u", "tone"))
    words = text.split(" ")
    for index, word in enumerate(words):
        blank = "" if index == len(words) - 1 else " "
        bench.do(Append("u", word + blank), until=(index + 1) / words_per_second)
    bench.do(Finish("u"), until=120.0)


def gaps(bench: Bench) -> list[tuple[float, int]]:
    """When an impatient listener heard silence, s, and where in the text."""
    found: list[tuple[float, int]] = []
    dry, text_to = inf, 0
    for now, event in zip(bench.moments, bench.events, strict=True):
        if isinstance(event, Audio):
            if event.pcm and now > dry + 1e-6:
                found.append((dry, text_to))
            if event.pcm:
                dry = (now if dry == inf else max(now, dry)) + len(event.pcm) / 2 / SAMPLE_RATE
            text_to = event.text_to
    return found


@pytest.mark.parametrize("words_per_second", [1.0, 2.5, 4.0, 6.0, 12.0])
def test_slow_text_has_one_gap_inside_a_sentence_at_most(words_per_second: float) -> None:
    bench = Bench()

    paced(bench, words_per_second)

    ends = [len(SENTENCES[0]), len(SENTENCES[0] + SENTENCES[1])]
    inside = [gap for gap in gaps(bench) if gap[1] not in ends]
    assert len(inside) == 1
    assert len(gaps(bench)) <= 3
    assert bench.ended().reason == "complete"
    assert bench.ended().text_to == len("".join(SENTENCES))


def test_text_of_speaking_pace_is_heard_without_a_gap_once_it_goes_by_sentences() -> None:
    bench = Bench()

    paced(bench, 4.0)

    assert len(gaps(bench)) == 1


def test_text_that_keeps_up_is_spoken_from_one_prompt() -> None:
    bench = Bench()

    paced(bench, 20.0, "A short one is here. Then another one follows. It goes on like that.")

    assert not gaps(bench)
    assert [stage for stage, _, _ in bench.launches].count(Stage.PREFILL) == 1


def test_flush_speaks_what_is_there_and_more_may_follow() -> None:
    bench = Bench()
    bench.do(Open("u", "tone"), Append("u", "Hello"), Flush("u"), until=2.0)

    assert max(a.text_to for a in bench.audio()) == len("Hello")
    bench.do(Append("u", " there."), Finish("u"), until=60.0)
    assert bench.ended().text_to == len("Hello there.")


def test_status_is_sent_on_request_only_and_at_most_five_times_a_second() -> None:
    bench = Bench()

    bench.do(*say("a", status=True), *say("b"), until=1.0)

    reports = [e for e in bench.events if isinstance(e, Status)]
    assert {report.utterance for report in reports} == {"a"}
    assert 1 <= len(reports) <= 6


def test_predictions_come_from_what_launches_took() -> None:
    bench = Bench(cost=0.004)

    bench.do(*say(), until=60.0)

    assert bench.loop.costs.predict(Stage.TALKER) == pytest.approx(0.004, rel=0.01)


def test_heartbeat_counts_the_living() -> None:
    bench = Bench(slots=3)
    bench.do(*say("a"), *say("b"), until=0.01)

    load = bench.loop.load(bench.now)

    assert (load.utterances, load.slots) == (2, 3)


def test_heartbeat_counts_how_utterances_ended() -> None:
    bench = Bench()
    bench.do(*say("a"), *say("b"), *say("c", voice="nobody"), until=0.01)

    bench.do(Cancel("b"), until=60.0)

    assert bench.loop.load(bench.now).ended == {"complete": 1, "cancelled": 1, "refused": 1}
