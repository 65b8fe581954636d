"""More than a client may send: nothing is spoken with a hole in it, and a barge-in gets through."""

from __future__ import annotations

import pytest

from tests.gateway.fakes import FakeEngine
from tests.gateway.wires import greeted


@pytest.fixture
def limits():
    return {"messages_per_second": 0.01, "message_burst": 3}  # `hello` is the first


async def test_text_that_is_refused_ends_its_utterance(serve, limits):
    served = await serve(FakeEngine(silent=True), limits=limits)
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="u", text="one ")
        await wire.send("text", utterance="u", text="two ")
        await wire.send("text", utterance="u", text="three ")

        error = await wire.answer("error")

    assert (error["code"], error["utterance"]) == ("rate_limited", "u")
    assert len(served.engine.cancelled) == 1


async def test_say_that_is_refused_is_named(serve, limits):
    served = await serve(limits=limits)
    async with greeted(served.voice_url) as wire:
        for _ in range(2):
            await wire.send("ping")
        await wire.send("say", utterance="u", text="one")

        error = await wire.answer("error")

    assert (error["code"], error["utterance"]) == ("rate_limited", "u")


async def test_a_flood_keeps_no_cancel_out(serve, limits):
    served = await serve(FakeEngine(silent=True), limits=limits)
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="u", text="one")
        for _ in range(5):
            await wire.send("ping")
        await wire.send("cancel", utterance="u")

        cancelled = await wire.answer("cancelled")

    assert cancelled["utterance"] == "u"
