"""The OpenAI speech route when all does not go well: refusals, losses, clients that leave."""

from __future__ import annotations

import asyncio
import json

import pytest
from aiohttp import ClientPayloadError

from engine.api import Cancel
from gateway.config import GatewayConfig
from tests.gateway.openai_route import Act, Start, ends, post
from tests.waiting import LIMIT


@pytest.mark.parametrize(
    ("act", "status", "code"),
    [
        (ends("refused", "overloaded", retry_after=2.3), 503, "overloaded"),
        (ends("refused", "unsupported_language"), 400, "unsupported_language"),
        (ends("failed", "engine_lost"), 503, "engine_lost"),
        (ends("failed", "generation_failed"), 500, "generation_failed"),
        (ends("empty"), 400, "text_empty"),
        (ends("complete"), 500, "no_audio"),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else "",
)
async def test_an_end_without_sound_is_a_status(
    start: Start, act: Act, status: int, code: str
) -> None:
    client, _ = await start(act)

    answer = await post(client)

    assert answer.status == status
    assert (await answer.json())["error"]["code"] == code


async def test_overload_says_when_to_come_back(start: Start) -> None:
    client, _ = await start(ends("refused", "overloaded", retry_after=2.3))

    answer = await post(client)

    assert answer.headers["Retry-After"] == "3"
    assert (await answer.json())["error"]["type"] == "server_error"


async def test_an_engine_that_is_not_ready_is_unavailable(start: Start) -> None:
    client, engine = await start()
    engine.started = False

    answers = [await post(client), await client.get("/v1/models")]

    assert [answer.status for answer in answers] == [503, 503]
    assert (await answers[1].json())["error"]["code"] == "engine_unavailable"


async def test_an_engine_that_is_gone_is_unavailable(start: Start) -> None:
    client, engine = await start()
    engine.alive = False

    assert (await post(client)).status == 503


async def test_sound_that_breaks_off_is_not_a_complete_file(start: Start) -> None:
    client, _ = await start(ends("failed", "engine_lost", sound=2))

    answer = await post(client)

    with pytest.raises(ClientPayloadError):
        await answer.read()


async def test_events_that_break_off_say_so(start: Start) -> None:
    client, _ = await start(ends("failed", "engine_lost", sound=2))

    answer = await post(client, stream_format="sse")

    last = (await answer.text()).split("\n\n")[-2].removeprefix("data: ")
    assert json.loads(last)["error"]["code"] == "engine_lost"


async def test_a_whole_file_that_fails_is_a_status(start: Start) -> None:
    client, _ = await start(ends("failed", "generation_failed", sound=2))

    assert (await post(client, stream=False)).status == 500


@pytest.mark.parametrize("sound", [0, 3])
async def test_a_client_that_leaves_cancels_its_utterance(start: Start, sound: int) -> None:
    """Before the first sound, when nothing was written yet, and in the middle."""
    client, engine = await start(lambda engine, utterance: engine.speak(utterance, sound))
    asking = asyncio.ensure_future(post(client))
    await asyncio.wait_for(engine.asked.wait(), LIMIT)
    if sound:
        (await asking).close()
    asking.cancel()

    await asyncio.wait_for(engine.cancelled.wait(), LIMIT)

    assert isinstance(engine.commands[-1], Cancel)


async def test_a_client_that_stops_reading_is_reset(start: Start) -> None:
    config = GatewayConfig(pause_limit=0.05)
    client, engine = await start(lambda engine, utterance: engine.speak(utterance, 8_000), config)
    body = json.dumps({"model": "m", "input": "Hello."}).encode()
    reader, writer = await asyncio.open_connection(client.host, client.port, limit=1_024)
    head = f"POST /v1/audio/speech HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)

    await asyncio.wait_for(engine.cancelled.wait(), LIMIT)

    body = await asyncio.wait_for(reader.read(), LIMIT)
    assert not body.endswith(b"0\r\n\r\n"), "a broken body must not look whole"
    writer.close()
    await writer.wait_closed()
