"""The loop in virtual time leaves nobody behind: whoever waits for something is looked at again."""

from math import inf
from random import Random

import pytest

from engine.api import SAMPLE_RATE, Append, Cancel, Command, Finish, Flush, Playback
from engine.playback import NOTICEABLE
from engine.utterance import seconds
from tests.engine.speaking import NoTrim
from tests.engine.test_loop import TEXT, Bench, say


def queued_behind_a_pause() -> tuple[Bench, int]:
    """A reply that waits behind a paused one; and the samples of it that are made."""
    bench = Bench()
    bench.do(*say("a", "One short reply.", acks=True), until=0.3)
    bench.do(Playback("a", 0.2, "paused", 0.0), until=0.4)
    bench.do(*say("b", TEXT * 3, acks=True, after="a", max_lead=1.0), until=2.0)
    made = sum(len(a.pcm) for a in bench.audio("b")) // 2
    assert 0 < made < 1.1 * SAMPLE_RATE
    return bench, made


def test_queued_reply_goes_on_when_the_paused_one_has_ended_without_a_word_between() -> None:
    bench, made = queued_behind_a_pause()

    bench.do(Playback("a", 9.0, "ended", 0.0), until=4.0)

    assert sum(len(a.pcm) for a in bench.audio("b")) // 2 > made + SAMPLE_RATE


def test_queued_reply_goes_on_when_the_pause_before_it_is_no_longer_believed() -> None:
    bench, _ = queued_behind_a_pause()

    bench.do(until=60.0)

    assert bench.ended("b").reason == "complete"


class RoomTone(NoTrim):
    """Hears silence from the second chunk on."""

    quiet = -1.0

    def push(self, pcm: bytes, *, last: bool) -> bytes:
        self.quiet = max(0.0, self.quiet + seconds(pcm)) if self.quiet >= 0 else 0.0
        return pcm


@pytest.mark.parametrize("company", [1, 3])
@pytest.mark.parametrize("cost", [0.001, 0.01])
def test_speech_that_turned_into_room_tone_ends_and_leaves(cost: float, company: int) -> None:
    bench = Bench(cost=cost, trim=RoomTone)
    names = [f"u{number}" for number in range(company)]

    for name in names:
        bench.do(*say(name, text=TEXT * 9, max_lead=None))
    bench.do(until=60.0)

    assert {bench.ended(name).reason for name in names} == {"runaway"}
    assert not bench.loop.busy


STATES = ("waiting", "playing", "playing", "stalled", "paused")


def anything(random: Random, bench: Bench, names: list[str]) -> list[Command]:
    """Whatever somebody may ask for next; a newcomer may queue behind the last."""
    if not names or random.random() < 0.12:
        behind = names[-1] if names and random.random() < 0.6 else None
        names.append(f"u{len(names)}")
        limit = random.choice([None, 0.5, 3.0])
        opening = {"after": behind, "acks": random.random() < 0.8, "max_lead": limit}
        return say(names[-1], TEXT * random.randint(1, 4), **opening)[: random.choice([1, 2, 3])]
    name = random.choice(names)
    sent = sum(len(a.pcm) for a in bench.audio(name)) / 2 / SAMPLE_RATE
    told = Playback(name, random.random() * sent, random.choice(STATES), random.choice([0.0, 0.3]))  # type: ignore[arg-type]
    words = Append(name, random.choice(["word ", "And so it goes. ", "x", "..."]))
    others: list[Command] = [words, words, Flush(name), Finish(name), Cancel(name)]
    return [told if random.random() < 0.6 else random.choice(others)]


def forgotten(bench: Bench) -> bool:
    """Whether a look at everyone finds work that must start some time and was not to be found."""
    policy = bench.loop._policy
    if bench.loop.tickets or policy.wake_at(bench.now) < bench.now + 3 * NOTICEABLE:
        return False
    for each in bench.loop._live:
        policy.touch(each, bench.now)
    batch = policy.plan(bench.now)
    for work in batch.works if batch else ():
        policy.touch(work.utterance, bench.now)
    return batch is not None and batch.works[0].latest_start < inf


@pytest.mark.parametrize("seed", range(20))
def test_nobody_is_forgotten_whatever_is_asked_for(seed: int) -> None:
    random = Random(seed)
    bench, names = Bench(slots=4, cost=random.choice([0.001, 0.004, 0.015])), list[str]()

    for _ in range(80):
        pause = random.choice([0.0, 0.002, 0.1, 0.5, 2.0])
        bench.do(*anything(random, bench, names), until=bench.now + pause)
        assert not forgotten(bench)
    bench.do(*map(Finish, names), until=bench.now + 300.0)

    assert not bench.loop.busy
    assert all(bench.ended(name) for name in names)
