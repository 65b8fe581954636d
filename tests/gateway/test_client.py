"""The Python client against a real gateway, over each kind of engine."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest
from websockets.asyncio.server import serve as websocket_server

from engine import remote
from engine.client import EngineClient, LocalEngine
from engine.config import EngineConfig, ModelConfig, SchedulerConfig
from engine.remote import RemoteEngine
from engine.server import EngineServer
from gateway.client import Player, VoiceClient, VoiceError
from gateway.protocol import PROTOCOL
from gateway.protocol.chunk import Chunk, Flag
from gateway.sound import TICKS_PER_SECOND
from tests.gateway.clocks import VirtualClock
from tests.gateway.fakes import FakeEngine
from tests.waiting import LIMIT, until

SILENT = EngineConfig(
    model=ModelConfig(checkpoint="silent"),
    scheduler=SchedulerConfig(load_limit=1e6),  # admits everyone, however slow the machine is
)
SENTENCE = "The meeting starts at nine in the large room."
CODECS = ["opus", "pcm_s16le"]


@pytest.fixture(params=["fake", "local", "remote"])
async def engine(
    request: pytest.FixtureRequest, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[EngineClient]:
    """An engine that makes tones: in this test, on a thread, behind a socket."""
    monkeypatch.setattr(remote, "SILENCE_MEANS_LOST", LIMIT)  # a slow one is not lost
    if request.param == "fake":
        yield FakeEngine()
    elif request.param == "local":
        yield LocalEngine(SILENT)
    else:
        address = f"unix:{tmp_path}/engine"
        listening = asyncio.Event()
        serving = asyncio.create_task(EngineServer(SILENT, address).serve(listening))
        await listening.wait()
        yield RemoteEngine(address)
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving


@pytest.mark.parametrize("codec", CODECS)
async def test_speaks_a_text_whole(serve, engine, codec):
    served = await serve(engine)
    async with VoiceClient(served.voice_url, codecs=[codec]) as voice:
        utterance = await voice.speak("Hello there.")

        pcm = await utterance.pcm()

    assert utterance.final["reason"] == "complete"
    assert utterance.final["text_to"] == 12
    assert len(pcm) / 48 == utterance.final["audio_ms"] > 500


@pytest.mark.parametrize("codec", CODECS)
async def test_chunks_are_gapless_and_in_order(serve, engine, codec):
    served = await serve(engine)
    async with VoiceClient(served.voice_url, codecs=[codec], player=Player()) as voice:
        chunks = [chunk async for chunk in await voice.speak("Hello there.")]

    assert [chunk.seq for chunk in chunks] == list(range(len(chunks)))
    assert all(before.end == after.start for before, after in pairwise(chunks))
    assert [Flag.LAST in chunk.flags for chunk in chunks].count(True) == 1
    assert Flag.LAST in chunks[-1].flags


async def test_speaks_an_iterable_as_it_comes(serve, engine):
    served = await serve(engine)

    async def words() -> AsyncIterator[str]:
        for word in ("Hel", "lo ", "there."):
            yield word

    async with VoiceClient(served.voice_url) as voice:
        utterance = await voice.speak(words())
        await utterance.pcm()

    assert utterance.final["text_to"] == 12


async def test_text_that_breaks_off_ends_the_session_with_its_cause(serve):
    served = await serve(FakeEngine())

    async def words() -> AsyncIterator[str]:
        yield "Hello "
        raise RuntimeError("the model is gone")

    async with VoiceClient(served.voice_url) as voice:
        utterance = await voice.speak(words())
        async with asyncio.timeout(LIMIT):
            with pytest.raises(VoiceError, match="RuntimeError: the model is gone"):
                await utterance.pcm()


async def test_flush_is_answered_and_more_may_follow(serve, engine):
    served = await serve(engine)
    async with VoiceClient(served.voice_url) as voice:
        utterance = await voice.speak()
        await utterance.append("Hello there.")
        await utterance.flush()
        events = utterance.events()
        async for item in events:
            if isinstance(item, dict) and item["type"] == "flushed":
                break
        await utterance.append(" More.", last=True)

        rest = [item async for item in events]

    assert item["text_to"] == 12
    assert any(isinstance(each, Chunk) for each in rest)
    assert utterance.final["text_to"] == 18


async def test_player_hears_everything_without_a_stall(serve, engine):
    """A listener whose time passes as sound comes: a busy machine makes nobody run dry."""
    served = await serve(engine)
    player, clock = Player(prebuffer=0.2), VirtualClock()
    async with VoiceClient(served.voice_url, player=player, clock=clock) as voice:
        utterance = await voice.speak("Hello there.")
        async for chunk in utterance:
            clock.now += chunk.duration / TICKS_PER_SECOND
        track = player.tracks[utterance.n]
        clock.now += 1.0
        await until(lambda: track.acked_state == "ended")

    assert utterance.final["reason"] == "complete"
    assert track.stalls == 0
    assert track.rendered == utterance.final["audio_ms"] * 48


async def test_two_utterances_are_heard_one_after_the_other(serve, engine):
    served = await serve(engine)
    player = Player()
    async with VoiceClient(served.voice_url, player=player) as voice:
        first, second = [await voice.speak("Hi there.") for _ in range(2)]
        await asyncio.gather(first.closed.wait(), second.closed.wait())
        earlier, later = player.tracks[first.n], player.tracks[second.n]
        await until(lambda: later.started_at is not None)

    assert later.started_at - earlier.started_at >= first.final["audio_ms"] / 1000 - 1e-6


async def test_cancel_tells_what_was_heard(serve, engine):
    served = await serve(engine)
    player = Player(latency=0)
    async with VoiceClient(served.voice_url, player=player) as voice:
        began = time.monotonic()
        utterance = await voice.speak(SENTENCE)
        await until(lambda: bool(player.tracks) and player.heard(1) > 0.3)

        heard = await utterance.cancel()
        took = time.monotonic() - began

        again = await voice.speak("Yes.")
        await again.pcm()
    assert utterance.final["type"] in ("cancelled", "done")  # `done` if all was sent by then
    assert heard["source"] == "client"
    assert 300 <= heard["audio_ms"] <= 1000 * took
    assert SENTENCE.startswith(heard["text"])
    assert again.final["reason"] == "complete"


async def test_a_cancel_nobody_waits_for_harms_nothing(serve):
    served = await serve(FakeEngine(silent=True))
    async with VoiceClient(served.voice_url) as voice:
        utterance = await voice.speak(SENTENCE)
        cancelling = asyncio.create_task(utterance.cancel())
        await asyncio.sleep(0)  # it waits for its answer
        cancelling.cancel()
        await asyncio.wait_for(utterance.closed.wait(), LIMIT)

        served.engine.silent = False
        again = await voice.speak("Yes.")
        await asyncio.wait_for(again.pcm(), LIMIT)

    assert utterance.final["type"] == "cancelled"
    assert again.final["reason"] == "complete"


async def test_pause_is_told_to_the_engine(serve):
    served = await serve(FakeEngine())
    clock = VirtualClock()  # it stands still, so that what is here does not run dry
    async with VoiceClient(served.voice_url, player=Player(), clock=clock) as voice:
        utterance = await voice.speak()
        await utterance.append("Hello")
        await utterance.flush()
        await until(lambda: served.engine.opened and served.engine.last().playback)

        voice.pause()
        await until(lambda: served.engine.last().playback[-1].state == "paused")
        voice.resume()
        await until(lambda: served.engine.last().playback[-1].state == "playing")


async def test_error_of_an_utterance_is_raised_where_it_is_read(serve):
    served = await serve()
    async with VoiceClient(served.voice_url) as voice:
        utterance = await voice.speak("Hi", voice="nobody")

        with pytest.raises(VoiceError) as caught:
            await utterance.pcm()

    assert caught.value.code == "unsupported_voice"


async def test_refused_hello_is_raised_by_the_connection(serve):
    served = await serve()

    with pytest.raises(VoiceError) as caught:
        async with VoiceClient(served.voice_url, voice="nobody"):
            pass

    assert caught.value.code == "unsupported_voice"


async def test_a_refusal_before_any_hello_says_why():
    async def refuse(socket):
        error = {"type": "error", "code": "engine_unavailable", "message": "the engine is starting"}
        await socket.send(json.dumps(error))
        await socket.close(1013)

    async with websocket_server(refuse, "127.0.0.1", 0, subprotocols=[PROTOCOL]) as server:
        port = server.sockets[0].getsockname()[1]
        for _ in range(20):  # whether the close or our hello is first is chance
            with pytest.raises(VoiceError, match="the engine is starting"):
                async with VoiceClient(f"ws://127.0.0.1:{port}"):
                    pass


async def test_every_utterance_settles_when_the_server_goes(serve):
    served = await serve(FakeEngine(silent=True), drain=0.05)
    async with VoiceClient(served.voice_url) as voice:
        utterance = await voice.speak("Hello")
        await until(lambda: served.engine.live == 1)
        await served.runner.shutdown()

        with pytest.raises(VoiceError) as caught:
            await utterance.pcm()

    assert (caught.value.code, caught.value.fields["close"]) == ("disconnected", 1001)
