"""What a session does with acks beside believing them: tells its clock, ignores those too late."""

from __future__ import annotations

import json

import pytest

from engine.api import Status
from gateway.protocol import messages
from gateway.protocol.chunk import Chunk
from tests.gateway.fakes import FakeEngine
from tests.gateway.wires import greeted
from tests.waiting import until

TEXT = "Hello wide world."


async def test_stats_tell_the_clients_clock(serve):
    engine = FakeEngine(silent=True)
    served = await serve(engine)
    async with greeted(served.voice_url, want=["stats"], acks=True) as wire:
        await wire.send("say", utterance="u", text=TEXT)
        await until(lambda: engine.opened == 1)
        name = engine.last().options.utterance
        engine.say(name, 24_000, text_to=5)
        await wire.until("started")
        chunk = await wire.take()
        assert isinstance(chunk, Chunk)
        stamp = chunk.sent_at + 7_000  # its clock is seven seconds ahead
        await wire.send(
            "ack",
            n=1,
            seq=0,
            played_ms=0,
            latency_ms=0,
            t_ms=stamp,
            rx_ms=stamp,
            echo=chunk.sent_at,
        )
        await until(lambda: bool(engine.last().playback))
        engine._dispatch(Status(name, 1.5, 0.25, "acked"))

        stats = await wire.answer("stats")

    assert stats["clock_offset_ms"] == pytest.approx(-7_000, abs=stats["rtt_ms"] + 2)
    assert "clock_drift_ppm" not in stats


def test_drift_is_told_in_parts_per_million():
    text = messages.stats(
        1,
        seq=0,
        lead=1.0,
        slack=0.5,
        round_trip=0.02,
        jitter=0.0,
        offset=3.0,
        drift=150e-6,
        model="acked",
    )

    assert json.loads(text)["clock_drift_ppm"] == 150


async def test_ack_that_crosses_a_cancel_is_ignored(serve):
    served = await serve(FakeEngine(silent=True))
    async with greeted(served.voice_url, acks=True) as wire:
        await wire.send("say", utterance="u", text=TEXT)
        await wire.send("cancel", utterance="u")
        await wire.answer("cancelled")
        await wire.send("ack", n=1, seq=9, played_ms=900, t_ms=1, latency_ms=0)
        await wire.send("ping", id=3)

        _, before = await wire.until("pong", id=3)

    assert not before
    assert not served.engine.last().playback


async def test_overtaken_ack_does_not_reach_the_engine(serve):
    engine = FakeEngine(silent=True)
    served = await serve(engine)
    async with greeted(served.voice_url, acks=True) as wire:
        await wire.send("say", utterance="u", text=TEXT)
        await until(lambda: engine.opened == 1)
        engine.say(engine.last().options.utterance, 24_000, text_to=5)
        await wire.until("started")
        for t_ms, state in ((20, "playing"), (10, "waiting"), (30, "paused")):
            await wire.send("ack", n=1, seq=0, played_ms=0, t_ms=t_ms, latency_ms=0, state=state)

        await until(lambda: len(engine.last().playback) == 2)

    assert [each.state for each in engine.last().playback] == ["playing", "paused"]
