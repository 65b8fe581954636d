"""How sessions end: whatever happens, everything they opened is cancelled and nothing is left."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import random
import socket
import struct

import pytest

from engine.api import Audio
from gateway.app import HOUSE
from gateway.client import Player
from gateway.protocol.chunk import Chunk
from tests.gateway.fakes import FakeEngine
from tests.gateway.wires import greeted, opened, reset
from tests.waiting import LIMIT, until

TEXT = "Hello wide world."
NEVER = 1e6  # s: what waits for it shows as a hang


async def test_reset_cancels_everything_at_once(serve):
    served = await serve(FakeEngine(silent=True), slow_client=NEVER, idle=NEVER, age=NEVER)
    async with greeted(served.voice_url) as wire:
        for name in "abc":
            await wire.send("say", utterance=name, text=TEXT)
        await until(lambda: served.engine.live == 3)

        reset(wire)

        await until(lambda: served.engine.live == 0)
    await until(lambda: not served.sessions)


async def test_left_client_costs_no_work_even_while_sound_waits_for_room(serve):
    served = await serve(FakeEngine(silent=True))
    engine = served.engine
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="u", text=TEXT)
        await until(lambda: engine.live == 1)
        for _ in range(100):
            engine.say(engine.last().options.utterance, 1_920, text_to=1)
        await wire.until("started")

    await until(lambda: not served.sessions and engine.live == 0)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors in /proc")
async def test_nothing_is_left_after_many_sessions(serve, caplog):
    caplog.set_level(logging.WARNING)
    served = await serve()
    draw = random.Random(7)

    async def one(turn: int) -> None:
        async with greeted(served.voice_url, acks=turn % 2 == 0) as wire:
            for name in "ab":
                await wire.send("say", utterance=name, text=TEXT * 3, last=turn % 3 == 0)
            await asyncio.sleep(draw.random() * 0.03)
            if turn % 4 == 0:
                await wire.send("cancel", utterance="*")
            if turn % 5 < 3:
                reset(wire)

    tasks = len(asyncio.all_tasks())
    await one(0)
    await until(lambda: not served.sessions and len(asyncio.all_tasks()) <= tasks)
    files = descriptors()

    await asyncio.gather(*(one(turn) for turn in range(20)))

    await until(lambda: not served.sessions and served.engine.live == 0)
    await until(lambda: len(asyncio.all_tasks()) <= tasks)
    gc.collect()
    await until(lambda: descriptors() <= files)
    assert not [record for record in caplog.records if record.name.startswith(("gateway", "async"))]


async def test_no_hello_in_time_closes_with_4408(serve):
    served = await serve(hello_timeout=0.05)
    async with opened(served.voice_url) as wire:
        code, before = await wire.closed()

    assert code == 4408
    assert before == [
        {
            "type": "error",
            "code": "timeout",
            "message": "no `hello` came in time",
            "fatal": True,
        }
    ]


async def test_idle_session_closes_with_4408(serve, clock):
    served = await serve(idle=60.0)
    async with greeted(served.voice_url) as wire:
        clock.now += 61.0
        code, before = await wire.closed()

    assert (code, before[-1]["code"]) == (4408, "timeout")


async def test_open_utterance_is_not_idle(serve, clock):
    served = await serve(FakeEngine(silent=True), idle=60.0)
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="u", text=TEXT)
        await until(lambda: served.engine.live == 1)
        clock.now += 3_570.0
        await wire.answer("bye", reason="age")  # so the watch has looked
        await wire.send("ping", id=1)

        assert await wire.answer("pong")


async def test_old_session_is_told_before_it_closes(serve, clock):
    served = await serve(age=600.0, idle=NEVER)
    async with greeted(served.voice_url) as wire:
        clock.now += 550.0
        bye = await wire.answer("bye")
        clock.now += 60.0
        code, before = await wire.closed()

    assert (bye["reason"], bye["drain_ms"]) == ("age", 60_000)
    assert (code, before) == (1001, [])


async def test_long_pause_ends_the_utterance(serve, clock):
    served = await serve(FakeEngine(silent=True), pause_limit=60.0)
    engine = served.engine
    async with greeted(served.voice_url, acks=True) as wire:
        await wire.send("say", utterance="u", text=TEXT)
        await until(lambda: engine.live == 1)
        engine.say(engine.last().options.utterance, 1_920, text_to=1)
        await wire.until("started")
        await wire.send("ack", n=1, seq=0, played_ms=0, t_ms=1, latency_ms=0, state="paused")
        await until(lambda: engine.last().playback)
        clock.now += 61.0

        error = await wire.answer("error")

    assert (error["code"], error["utterance"]) == ("paused_too_long", "u")
    assert engine.cancelled


async def test_client_that_never_reads_is_reset(serve):
    served = await serve(
        FakeEngine(silent=True), slow_client=0.4, max_lead=60.0, max_lead_open_loop=600.0
    )
    engine = served.engine
    reader, writer = await raw_client(served.port)
    writer.write(frame({"type": "hello", "audio": {"codecs": ["pcm_s16le"]}}))
    writer.write(frame({"type": "say", "utterance": "u", "text": TEXT}))
    await until(lambda: engine.live == 1)
    reader._transport.pause_reading()  # type: ignore[attr-defined]

    minutes = bytes(2 * 24_000 * 180)  # 8.6 MB: more than the system buffers
    engine._dispatch(Audio(engine.last().options.utterance, 0, minutes, 1, False))

    await until(lambda: not served.sessions and engine.live == 0)
    writer.transport.abort()


async def test_client_that_shows_no_life_is_closed_with_4412(serve, clock):
    served = await serve(FakeEngine(silent=True), slow_client=3.0)
    engine = served.engine
    reader, writer = await raw_client(served.port)
    writer.write(frame({"type": "hello", "acks": True, "audio": {"codecs": ["opus"]}}))
    writer.write(frame({"type": "say", "utterance": "u", "text": TEXT}))
    await until(lambda: engine.live == 1)
    engine.say(engine.last().options.utterance, 120_000, text_to=1)
    received = await asyncio.wait_for(reader.readuntil(b'"started"'), LIMIT)
    clock.now += 3.1  # of the 4 s that were sent

    received += await asyncio.wait_for(reader.read(-1), LIMIT)  # answers no ping, sends no ack

    assert b'"code":"slow_client"' in received
    assert struct.pack(">H", 4412) + b"slow_client" in received
    await until(lambda: not served.sessions and engine.live == 0)
    writer.close()


async def test_background_tab_that_only_answers_pings_stays(serve, clock):
    served = await serve(FakeEngine(silent=True), slow_client=3.0)
    engine = served.engine
    async with opened(served.voice_url, ping_interval=None) as wire:
        await wire.send("hello", acks=True, audio={"codecs": ["pcm_s16le"]})
        await wire.send("say", utterance="u", text=TEXT)
        await until(lambda: engine.live == 1)
        for _ in range(10):
            engine.say(engine.last().options.utterance, 1_920, text_to=1)
        await wire.until("started")
        await wire.send("ack", n=1, seq=0, played_ms=0, t_ms=1, latency_ms=0, state="paused")
        await until(lambda: engine.last().playback)
        (session,) = served.app[HOUSE].sessions
        for _ in range(3):  # 4.5 s: for five, a pause is believed without news
            clock.now += 1.5
            await until(lambda: session._alive_at == clock.now)  # it has answered a ping
        await wire.send("ping", id=1)

        assert await wire.answer("pong")


async def raw_client(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A WebSocket client without a library: it does nothing by itself."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.setblocking(False)
    await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=raw, limit=4096)
    writer.write(
        b"GET /v1/voice HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
        b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    assert b"101" in await reader.readuntil(b"\r\n\r\n")
    return reader, writer


def frame(fields: dict[str, object]) -> bytes:
    """One masked text frame."""
    return raw_frame(json.dumps(fields).encode())


def raw_frame(payload: bytes, opcode: int = 1) -> bytes:
    assert len(payload) < 126
    return bytes([0x80 | opcode, 0x80 | len(payload), 0, 0, 0, 0]) + payload


async def test_bad_utf8_closes_with_1007(serve):
    served = await serve()
    reader, writer = await raw_client(served.port)
    writer.write(raw_frame(b"\xed\xa0\xbd"))

    received = await asyncio.wait_for(reader.read(-1), LIMIT)

    assert received[0] == 0x88
    assert struct.unpack(">H", received[2:4]) == (1007,)
    await until(lambda: not served.sessions)
    writer.close()


async def test_shutdown_closes_idle_sessions_at_once(serve):
    served = await serve(drain=NEVER)
    silent = await raw_client(served.port)  # never answers a close frame
    async with greeted(served.voice_url) as wire:
        await asyncio.wait_for(served.runner.shutdown(), LIMIT)

        code, _ = await wire.closed()

    assert code == 1001
    assert not served.sessions
    silent[1].transport.abort()


async def test_shutdown_lets_open_utterances_end(serve):
    served = await serve(FakeEngine(silent=True), drain=60.0)
    engine = served.engine
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="u", text=TEXT, last=True)
        await until(lambda: engine.live == 1)
        ending = asyncio.ensure_future(served.runner.shutdown())
        bye = await wire.answer("bye")
        await wire.send("say", utterance="late", text=TEXT)
        late = await wire.answer("error")
        engine.say(engine.last().options.utterance, 1_920, text_to=17, last=True)
        engine.end(engine.last().options.utterance)

        code, before = await wire.closed()
        await ending

    assert bye == {"type": "bye", "reason": "shutdown", "drain_ms": 60_000}
    assert late["code"] == "engine_unavailable"
    assert code == 1001
    assert before[-1]["type"] == "done"


async def test_flood_of_acks_closes_with_1008(serve, clock):
    served = await serve(FakeEngine(silent=True))
    engine = served.engine
    async with greeted(served.voice_url, acks=True) as wire:
        await wire.send("say", utterance="u", text="Hi", last=True)
        await until(lambda: engine.live == 1)
        engine.say(engine.last().options.utterance, 1_920, text_to=1)
        await wire.until("started")
        await wire.take()
        ack = {"type": "ack", "n": 1, "seq": 0, "played_ms": 0, "t_ms": 1, "latency_ms": 0}
        for _ in range(1_001):  # ten seconds' worth and one more, while time stands still
            await wire.raw(json.dumps(ack))

        code, before = await wire.closed()

    assert (code, before[-1]["code"]) == (1008, "rate_limited")
    assert len(engine.last().playback) == 20


async def test_mistake_of_the_server_is_one_closed_session(serve, caplog):
    served = await serve(FakeEngine(silent=True))
    engine = served.engine
    async with greeted(served.voice_url) as wire, greeted(served.voice_url) as other:
        await wire.send("say", utterance="u", text=TEXT)
        await until(lambda: engine.live == 1)
        speech = engine._speeches[engine.last().options.utterance]
        speech.deliver("no event")  # type: ignore[arg-type]

        code, before = await wire.closed()
        await other.send("ping", id=1)
        assert await other.answer("pong")

    assert (code, before[-1]["code"]) == (1011, "internal")
    assert engine.live == 0
    assert [record.levelname for record in caplog.records if record.levelno > 20] == ["ERROR"]


async def test_player_of_the_client_hears_chunks(serve):
    served = await serve()
    player = Player()
    async with greeted(served.voice_url) as wire:
        await wire.send("say", utterance="u", text="Hi", last=True)
        _, before = await wire.until("done")

    for chunk in before:
        if isinstance(chunk, Chunk):
            player.received(chunk, 1.0)
    player.advance(1.2)

    assert player.tracks[1].state == "ended"
