"""What a client says it heard, and what the server makes of it: acks and barge-in."""

from __future__ import annotations

import asyncio
import time

import pytest

from engine.api import Playback
from gateway.protocol.chunk import Chunk
from tests.gateway.fakes import FakeEngine
from tests.gateway.wires import greeted
from tests.waiting import until

TEXT = "Hello wide world."


def sound(items: list[object]) -> list[Chunk]:
    return [item for item in items if isinstance(item, Chunk)]


async def test_ack_reaches_the_engine_as_playback(serve):
    served = await serve(FakeEngine(silent=True))
    engine = served.engine
    async with greeted(served.voice_url, acks=True) as wire:
        await wire.send("say", utterance="u", text=TEXT)
        await until(lambda: engine.opened == 1)
        name = engine.last().options.utterance
        began = time.monotonic()
        engine.say(name, 24_000, text_to=5)
        chunk = sound((await wire.until("pong", id=await ping(wire)))[1])[-1]
        t = 5_000.0
        timing = {"t_ms": t + 20, "rx_ms": t, "echo": chunk.sent_at}
        await wire.send(
            "ack", n=1, seq=chunk.seq, played_ms=20, latency_ms=30, state="paused", **timing
        )
        await until(lambda: bool(engine.last().playback))
        took = time.monotonic() - began

    playback: Playback = engine.last().playback[0]
    assert (playback.utterance, playback.state) == (name, "paused")
    assert playback.rendered == pytest.approx(0.05)
    assert 0 <= playback.delay <= took / 2


async def ping(wire) -> int:
    await wire.send("ping", id=77, t_ms=5)
    return 77


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"seq": 99, "played_ms": 0}, "seq"),
        ({"seq": 0, "played_ms": 60_000}, "played_ms"),
        ({"seq": 0, "played_ms": 0, "n": 9}, "n"),
        ({"seq": 0, "played_ms": 0, "latency_ms": 9_999}, "latency_ms"),
    ],
)
async def test_ack_of_what_was_never_sent_is_refused_by_name(serve, fields, param):
    served = await serve()
    async with greeted(served.voice_url, acks=True) as wire:
        await wire.send("say", utterance="u", text="Hi", last=True)
        await wire.until("done")

        await wire.send("ack", **{"n": 1, "t_ms": 1, "latency_ms": 0, **fields})
        error = await wire.answer("error")

        assert (error["code"], error["param"], error["fatal"]) == ("invalid_message", param, False)
        assert await wire.works()
    assert not served.engine.last().playback


async def test_three_impossible_acks_end_the_trust_but_not_the_session(serve):
    served = await serve()
    async with greeted(served.voice_url, acks=True) as wire:
        await wire.send("say", utterance="u", text="Hi", last=True)
        await wire.until("done")
        for _ in range(4):
            await wire.send("ack", n=1, seq=99, played_ms=0, t_ms=1, latency_ms=0)

        warning, before = await wire.until("warning")

        assert warning["code"] == "telemetry_untrusted"
        assert len(before) == 3
        assert await wire.works()


async def test_sound_waits_for_a_listener_who_stands_still(serve, clock):
    served = await serve(FakeEngine(silent=True))
    engine = served.engine
    async with greeted(served.voice_url, acks=True, player={"max_lead_ms": 200}) as wire:
        await wire.send("say", utterance="u", text=TEXT)
        await until(lambda: engine.opened == 1)
        name = engine.last().options.utterance
        engine.say(name, 1_920, text_to=1)
        await wire.until("started")
        for _ in range(30):
            engine.say(name, 1_920, text_to=1)
        sent = [await wire.take() for _ in range(15)]
        more = (await wire.until("pong", id=await ping(wire)))[1]

        clock.now += 0.08
        await wire.send("ack", n=1, seq=14, played_ms=80, t_ms=80, latency_ms=0)
        then = await wire.take()

    assert (sound(sent)[-1].end, more) == (15 * 3_840, [])  # the first beyond 0.2 s of lead and 1 s
    assert isinstance(then, Chunk)


async def test_cancel_before_sound_heard_nothing(serve):
    served = await serve(FakeEngine(silent=True))
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="u", text=TEXT)
        await wire.send("cancel", utterance="u")

        cancelled = await wire.answer("cancelled")

    assert (cancelled["n"], cancelled["last_seq"], cancelled["sent_ms"]) == (1, -1, 0)
    assert cancelled["heard"]["audio_ms"] == 0
    assert cancelled["heard"]["text"] == ""
    assert len(served.engine.cancelled) == 1


@pytest.mark.parametrize(
    ("played", "acked", "source"),
    [(400, None, "client"), (None, 400, "ack"), (99_000, 400, "ack"), (None, None, "estimate")],
)
async def test_cancel_tells_what_was_heard_and_how_it_knows(serve, clock, played, acked, source):
    served = await serve(FakeEngine(silent=True))
    engine = served.engine
    async with greeted(served.voice_url, acks=acked is not None) as wire:
        await wire.send("say", utterance="u", text=TEXT)
        await until(lambda: engine.opened == 1)
        for text_to in range(1, 11):
            engine.say(engine.last().options.utterance, 1_920, text_to=text_to)
        await wire.until("started")
        for _ in range(10):
            await wire.take()
        clock.now += 0.3  # nobody has heard 400 ms before 250 ms have passed
        if acked:
            state = {"state": "paused", "latency_ms": 0}
            await wire.send("ack", n=1, seq=9, played_ms=acked, t_ms=1, **state)
            await until(lambda: bool(engine.last().playback))
        await wire.send("cancel", utterance="u", **({"played_ms": played} if played else {}))

        cancelled = await wire.answer("cancelled")

    heard = cancelled["heard"]
    assert heard["source"] == source
    assert (cancelled["sent_ms"], cancelled["generated_ms"]) == (800, 800)
    assert heard["text"] == TEXT[: heard["text_to"]]
    assert heard["uncertainty_ms"] > 0
    if source == "estimate":
        assert heard["audio_ms"] == pytest.approx(300)
    else:
        assert (heard["audio_ms"], heard["text"]) == (400, "Hello")


async def test_cancel_after_done_still_tells_what_was_heard(serve):
    served = await serve()
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="u", text=TEXT, last=True)
        await wire.until("done")
        await wire.send("cancel", utterance="u", played_ms=80)

        error = await wire.answer("error")

    assert (error["code"], error["fatal"]) == ("utterance_closed", False)
    assert (error["heard"]["source"], error["heard"]["text"]) == ("client", "H")


async def test_a_second_cancel_claims_nothing_about_what_was_heard(serve):
    served = await serve()
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="u", text=TEXT)
        await wire.send("cancel", utterance="u")
        await wire.answer("cancelled")
        await wire.send("cancel", utterance="u")

        error = await wire.answer("error")

    assert (error["code"], "heard" in error) == ("utterance_closed", False)


async def test_cancel_of_all_fences_each(serve):
    served = await serve(FakeEngine(silent=True))
    async with greeted(served.voice_url) as wire:
        for name in "ab":
            await wire.send("say", utterance=name, text=TEXT)
        await wire.send("cancel", utterance="*")

        assert (await wire.answer("cancelled"))["utterance"] == "a"
        assert (await wire.answer("cancelled"))["utterance"] == "b"


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["opus", "pcm_s16le"])
async def test_no_chunk_follows_the_fence(serve, codec):
    served = await serve()
    stray, moments = [], (0, 0, 1, 2, 3, 5, 8, 12, 13)
    async with greeted(served.voice_url, codec=codec) as wire:
        for turn in range(45):
            await wire.send("say", utterance=f"u{turn}", text=TEXT, last=True)
            await asyncio.sleep(moments[turn % len(moments)] / 1000)
            await wire.send("cancel", utterance=f"u{turn}")
        await wire.send("say", utterance="end", text="x", last=True)
        fenced: set[int] = set()
        while True:
            item = await wire.take()
            if isinstance(item, Chunk):
                stray += [item] if item.n in fenced else []
            elif item["type"] in ("cancelled", "done", "error"):
                fenced.add(item["n"])
                if item["utterance"] == "end":
                    break

    assert not stray
    assert len(fenced) == 46
    await until(lambda: served.engine.live == 0)
