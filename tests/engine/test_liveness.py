"""The loop in virtual time leaves nobody behind: whoever waits for something is looked at again."""

import pytest

from engine.api import SAMPLE_RATE, Playback
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
