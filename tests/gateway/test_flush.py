"""Every `flush` is answered, whatever was said before it."""

from __future__ import annotations

import pytest

from engine.client import LocalEngine
from engine.config import EngineConfig, ModelConfig
from tests.gateway.wires import greeted


@pytest.mark.parametrize("more", ["", "  \n", "..."])
async def test_flush_with_nothing_new_is_answered_at_once(serve, more):
    served = await serve(LocalEngine(EngineConfig(model=ModelConfig(checkpoint="silent"))))
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="u", text="Hello")
        await wire.send("flush", utterance="u")
        await wire.answer("flushed")

        await wire.send("text", utterance="u", text=more)
        await wire.send("flush", utterance="u")
        flushed = await wire.answer("flushed")

    assert flushed["text_to"] == len("Hello" + more)


async def test_flush_after_resting_text_was_spoken_is_answered_at_once(serve):
    served = await serve(text_pause=0.01)
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="u", text="Hello.")
        await wire.until("started")

        await wire.send("flush", utterance="u")
        flushed = await wire.answer("flushed")

    assert (flushed["text_to"], served.engine.last().flushes) == (6, 1)


async def test_twenty_utterances_end_by_flush_on_one_socket(serve):
    served = await serve()
    async with greeted(served.voice_url) as wire:
        for name in (f"u{number}" for number in range(20)):
            await wire.send("say", utterance=name, text="Hi.")
            await wire.send("flush", utterance=name)
            await wire.answer("flushed", utterance=name)
            await wire.send("text", utterance=name, last=True)

            done = await wire.answer("done", utterance=name)

            assert done["reason"] == "complete"
