"""What is over is freed at once, by its last reference: the collector comes much later."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from gateway.app import HOUSE
from gateway.voice.speaking import Speaking
from tests.gateway.conftest import Served
from tests.gateway.fakes import FakeEngine
from tests.gateway.wires import greeted, reset
from tests.waiting import until

TEXT = "Hello wide world."


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Nothing but the last reference frees."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def remembered(served: Served) -> list[weakref.ref[Speaking]]:
    """The utterances of the only session."""
    (session,) = served.app[HOUSE].sessions
    return [weakref.ref(each) for each in session._conversation._utterances.all()]


@pytest.mark.usefixtures("no_collector")
async def test_forgotten_utterances_are_freed_without_the_collector(serve, monkeypatch):
    monkeypatch.setattr("gateway.voice.register.REMEMBERED", 1)
    served = await serve()
    async with greeted(served.voice_url, codec="opus", acks=True) as wire:
        await wire.send("say", utterance="whole", text=TEXT, last=True)
        await wire.answer("done")
        await wire.send("say", utterance="unspeakable", text="…", last=True)
        await wire.answer("done")
        served.engine.silent = True
        await wire.send("say", utterance="interrupted", text=TEXT)
        await until(lambda: served.engine.live == 1)
        served.engine.say(served.engine.last().options.utterance, 1_920, text_to=1)
        await wire.answer("started")
        *before, latest = remembered(served)
        await wire.send("cancel", utterance="interrupted")
        await wire.answer("cancelled")

        await until(lambda: not any(each() for each in before))

        assert latest()


@pytest.mark.usefixtures("no_collector")
async def test_interrupted_utterance_lets_go_of_its_sound_at_once(serve):
    served = await serve(FakeEngine(silent=True), max_lead=0.1, max_lead_open_loop=0.1)
    house = served.app[HOUSE]
    coders = []

    def noted(bitrate, make=house.new_opus):
        coder = make(bitrate)
        coders.append(weakref.ref(coder))
        return coder

    house.new_opus = noted
    async with greeted(served.voice_url, codec="opus") as wire:
        await wire.send("say", utterance="u", text=TEXT)
        await until(lambda: served.engine.live == 1)
        for _ in range(3):
            served.engine.say(served.engine.last().options.utterance, 48_000, text_to=1)
        await wire.answer("started")  # and now the sound waits for room
        await wire.send("cancel", utterance="u")
        await wire.answer("cancelled")

        await until(lambda: not any(each() for each in coders))

        assert coders and remembered(served)[0]()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("leave", ["bye", "reset"])
async def test_ended_session_is_freed_without_the_collector(serve, leave):
    served = await serve()
    async with greeted(served.voice_url, codec="opus") as wire:
        await wire.send("say", utterance="u", text=TEXT, last=True)
        await wire.answer("done")
        (session,) = map(weakref.ref, served.app[HOUSE].sessions)
        utterances = remembered(served)
        if leave == "reset":
            reset(wire)
        else:
            await wire.send("bye")
            await wire.closed()

    await until(lambda: not served.sessions)
    await until(lambda: not session() and not any(each() for each in utterances))
