"""Listeners of `voice.v1` against a real gateway: true acks, interruptions, pauses, losses."""

from __future__ import annotations

from typing import Any

import pytest

from engine.api import Audio, Command, Finish, Playback
from gateway.bench.arrivals import Habits, Plan
from gateway.bench.take import Take
from gateway.bench.target import Target
from gateway.bench.voice_speech import VoiceListener
from tests.gateway.bench.sounds_made import silence, sine
from tests.gateway.clocks import SteadyClock
from tests.gateway.conftest import Serve, Served
from tests.gateway.fakes import FakeEngine

FRAME = 0.08  # s of sound for each code point


class SpeakingEngine(FakeEngine):
    """Says the same sound to everybody, and ends a speech when its listener has heard it."""

    def __init__(self, pcm: bytes) -> None:
        super().__init__(silent=True)
        self._pcm = pcm

    def send(self, command: Command) -> None:
        """Obey, and speak once the text is whole."""
        super().send(command)
        match command:
            case Finish(utterance):
                spoken = self.spoken[utterance]
                self._dispatch(Audio(utterance, 0, self._pcm, len(spoken.text), True))
                spoken.made = len(self._pcm) // 2
            case Playback(utterance=utterance, rendered=rendered) if utterance in self._speeches:
                if rendered >= len(self._pcm) / 48_000:
                    self.end(utterance)


def listener(served: Served, habits: Habits | None = None, **fields: Any) -> VoiceListener:
    target = Target(url=served.url, transport="voice", **fields)
    return VoiceListener(target, habits or Habits(), clock=SteadyClock())


async def heard(voice: VoiceListener, text: str = "Hello", plan: Plan | None = None) -> Take:
    take = await voice.speak(text, plan or Plan())
    await voice.close()
    return take


@pytest.mark.parametrize("codec", ["pcm", "opus"])
async def test_reply_is_heard_to_its_end(serve: Serve, codec: str) -> None:
    served = await serve(FakeEngine())

    take = await heard(listener(served, codec=codec))

    reply = take.reply(number=0, due=0.0, lag=None, characters=5)
    assert (reply.outcome, reply.heard_characters) == ("complete", 5)
    assert reply.sound == reply.heard == pytest.approx(5 * FRAME)
    assert reply.audible == pytest.approx(reply.first_playable, abs=1e-6)


async def test_playback_is_reported_as_it_goes(serve: Serve) -> None:
    engine = SpeakingEngine(sine(0.24))
    served = await serve(engine)

    take = await heard(listener(served, codec="pcm"))

    rendered = [each.rendered for each in engine.last().playback]
    assert take.outcome == "complete"  # the engine ends what was reported as heard
    assert rendered == sorted(rendered)
    assert rendered[-1] == pytest.approx(0.24, abs=0.001)


async def test_listener_without_acks_promises_none(serve: Serve) -> None:
    engine = FakeEngine()
    served = await serve(engine)

    take = await heard(listener(served, codec="pcm", acks=False))

    assert take.outcome == "complete"
    assert (engine.last().options.acks, engine.last().playback) == (False, [])


async def test_interruption_cuts_the_reply_and_learns_what_was_heard(serve: Serve) -> None:
    served = await serve(FakeEngine())

    take = await heard(listener(served, codec="pcm"), "x" * 200, Plan(barge_in_at=0.1))

    reply = take.reply(number=0, due=0.0, lag=None, characters=200)
    assert reply.outcome == "cancelled"
    assert 0.1 <= reply.heard < 16.0
    assert 0 < reply.heard_characters < 200


@pytest.mark.slow
async def test_paused_listener_does_not_run_dry(serve: Serve) -> None:
    engine = SpeakingEngine(sine(0.4))
    served = await serve(engine)
    plan = Plan(pause_at=0.1, pause=0.3)

    take = await heard(listener(served, codec="pcm"), "Hello all", plan)

    reply = take.reply(number=0, due=0.0, lag=None, characters=9)
    assert (reply.paused, reply.underruns, reply.outcome) == (True, 0, "complete")
    assert "paused" in [each.state for each in engine.last().playback]


async def test_session_is_kept_from_reply_to_reply(serve: Serve) -> None:
    served = await serve(FakeEngine())
    voice = listener(served, codec="pcm")

    takes = [await voice.speak("a", Plan()) for _ in range(3)]

    assert [take.outcome for take in takes] == ["complete"] * 3
    assert served.sessions == 1
    await voice.close()


async def test_text_may_trickle_in(serve: Serve) -> None:
    engine = FakeEngine()
    served = await serve(engine)

    await heard(listener(served, codec="pcm", words_per_second=500.0), "a b c")

    assert [spoken.text for spoken in engine.spoken.values()] == ["a b c"]


async def test_unknown_voice_is_a_failure_with_its_code(serve: Serve) -> None:
    served = await serve(FakeEngine())

    take = await heard(listener(served, codec="pcm", fields={"voice": "nobody"}))

    assert (take.outcome, take.code) == ("failed", "unsupported_voice")


async def test_server_that_is_away_is_a_failure(serve: Serve) -> None:
    served = await serve(FakeEngine())
    await served.runner.cleanup()

    take = await heard(listener(served, codec="pcm"))

    assert (take.outcome, take.code) == ("failed", "connect")


async def test_reply_that_gets_no_sound_is_given_up(serve: Serve) -> None:
    served = await serve(FakeEngine(silent=True))

    take = await heard(listener(served, codec="pcm", patience=0.05))

    assert (take.outcome, take.code) == ("failed", "timeout")


async def test_silence_before_speech_makes_the_audible_sound_later(serve: Serve) -> None:
    engine = SpeakingEngine(silence(0.16) + sine(0.08))
    served = await serve(engine)

    take = await heard(listener(served, codec="pcm"))

    reply = take.reply(number=0, due=0.0, lag=None, characters=5)
    assert reply.audible is not None and reply.first_playable is not None
    assert reply.audible - reply.first_playable == pytest.approx(0.16, abs=0.0101)
