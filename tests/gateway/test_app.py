"""HTTP around the socket: readiness, doors, pages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from aiohttp import ClientSession, ClientTimeout
from websockets.exceptions import ConnectionClosed, InvalidStatus

from engine.api import EngineGone, Load
from gateway import assets
from gateway.app import READINESS
from tests.gateway.fakes import FakeEngine
from tests.gateway.wires import opened
from tests.waiting import LIMIT, until

TOKENS = ("right", "other")


@pytest.fixture
async def http() -> AsyncIterator[ClientSession]:
    async with ClientSession(timeout=ClientTimeout(total=LIMIT)) as session:
        yield session


async def test_ready_only_after_the_self_test_has_spoken(serve, http):
    engine = FakeEngine(silent=True)
    served = await serve(engine, wait=False, self_test="Ready.")
    await until(lambda: engine.opened == 1)
    async with http.get(f"{served.url}/ready") as answer:
        before, reason = answer.status, (await answer.json())["reason"]

    name = engine.last().options.utterance
    engine.say(name, 1_920, text_to=6, last=True)
    engine.end(name)
    await served.app[READINESS].wait()

    async with http.get(f"{served.url}/ready") as answer:
        assert (before, answer.status) == (503, 200)
    assert reason == "the self-test is being spoken"
    assert engine.last().text == "Ready."


async def test_ready_tells_the_engine_s_load_once_there_is_one(serve, http):
    engine = FakeEngine()
    served = await serve(engine)
    engine.load = Load(2, 8, 0.0, {"complete": 5})

    async with http.get(f"{served.url}/ready") as answer:
        told = (await answer.json())["engine"]

    assert told == {"utterances": 2, "slots": 8, "lateness": 0.0, "ended": {"complete": 5}}


async def test_mute_self_test_never_gets_ready(serve, http):
    engine = FakeEngine(silent=True)
    served = await serve(engine, wait=False, self_test="Ready.")
    await until(lambda: engine.opened == 1)
    engine.end(engine.last().options.utterance, "failed", "no_audio")

    with pytest.raises(EngineGone, match="no_audio"):
        await served.app[READINESS].wait()

    async with http.get(f"{served.url}/ready") as answer:
        assert answer.status == 503


async def test_failed_start_is_told_while_the_server_lives(serve, http):
    served = await serve(FakeEngine(starting=True), wait=False)
    with pytest.raises(EngineGone):
        await served.app[READINESS].wait()

    async with http.get(f"{served.url}/ready") as answer:
        assert answer.status == 503
        assert "will not start" in (await answer.json())["reason"]
    async with http.get(f"{served.url}/health") as answer:
        assert answer.status == 200


async def test_session_before_readiness_is_told_to_come_back(serve):
    served = await serve(FakeEngine(starting=True), wait=False)
    async with opened(served.voice_url) as wire:
        code, before = await wire.closed()

    assert code == 1013
    assert (before[0]["code"], before[0]["retry_after_ms"]) == ("engine_unavailable", 1_000)


async def test_lost_engine_is_not_ready(serve, http):
    served = await serve()
    served.engine.lose()

    async with http.get(f"{served.url}/ready") as answer:
        assert (answer.status, (await answer.json())["reason"]) == (503, "the engine is lost")


async def test_lists_of_voices_and_models(serve, http):
    served = await serve()

    async with http.get(f"{served.url}/v1/audio/voices") as voices:
        assert [voice["id"] for voice in (await voices.json())["voices"]] == ["alba", "bruno"]
    async with http.get(f"{served.url}/v1/models") as models:
        assert [model["id"] for model in (await models.json())["data"]] == ["fake"]


@pytest.mark.parametrize(
    ("offered", "selected"),
    [(["voice.v1"], "voice.v1"), (["voice.v2", "voice.v1"], "voice.v1"), (None, None)],
)
async def test_subprotocol_is_selected_or_left_out(serve, offered, selected):
    served = await serve()

    async with opened(served.voice_url, subprotocols=offered) as wire:
        assert wire.socket.subprotocol == selected


async def test_foreign_subprotocol_is_refused_before_the_upgrade(serve):
    served = await serve()

    with pytest.raises(InvalidStatus) as caught:
        async with opened(served.voice_url, subprotocols=["voice.v9"]):
            pass

    assert caught.value.response.status_code == 400


async def test_compression_is_not_negotiated(serve):
    served = await serve()

    async with opened(served.voice_url, compression="deflate") as wire:
        assert not wire.socket.protocol.extensions


@pytest.mark.parametrize("token", ["wrong", "", "righty"])
async def test_wrong_bearer_token_is_refused_before_the_upgrade(serve, token):
    served = await serve(tokens=TOKENS)

    with pytest.raises(InvalidStatus) as caught:
        async with opened(
            served.voice_url, additional_headers={"Authorization": f"Bearer {token}"}
        ):
            pass

    assert caught.value.response.status_code == 401


@pytest.mark.parametrize(
    ("options", "hello", "code"),
    [
        ({"additional_headers": {"Authorization": "Bearer other"}}, {}, None),
        ({"subprotocols": ["voice.v1", "voice.auth.right"]}, {}, None),
        ({}, {"token": "right"}, None),
        ({"subprotocols": ["voice.v1", "voice.auth.wrong"]}, {"token": "right"}, 4401),
        ({}, {"token": "wrong"}, 4401),
        ({}, {}, 4401),
    ],
)
async def test_token_by_subprotocol_or_hello(serve, options, hello, code):
    served = await serve(tokens=TOKENS)
    async with opened(served.voice_url, **options) as wire:
        with suppress(ConnectionClosed):  # by then the server may have refused
            await wire.send("hello", **hello)
        first = await wire.take()

        if code is None:
            assert first["type"] == "hello"
            assert wire.socket.subprotocol == "voice.v1"
            return
        assert first["code"] == "unauthorized"
        assert (await wire.closed())[0] == code


async def test_sessions_of_one_token_are_limited(serve):
    served = await serve(tokens=TOKENS, limits={"sessions_per_token": 1})
    header = {"additional_headers": {"Authorization": "Bearer right"}}
    async with opened(served.voice_url, **header):
        with pytest.raises(InvalidStatus) as caught:
            async with opened(served.voice_url, **header):
                pass
    await until(lambda: not served.sessions)

    async with opened(served.voice_url, **header):
        assert caught.value.response.status_code == 429


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        (None, True),
        ("http://127.0.0.1:{port}", True),
        ("https://127.0.0.1:{port}", True),  # behind a proxy that speaks TLS
        ("https://voice.example", True),
        ("https://evil.example", False),
        ("null", False),
        ("http://127.0.0.1.evil.example:{port}", False),
        ("http://127.0.0.1:1", False),
        ("http://127.0.0.1:{port}/", False),
        ("HTTP://127.0.0.1:{port}", False),
        ("http://voice.example", False),
        ("https://voice.example:444", False),
    ],
)
async def test_only_exact_origins_may_connect(serve, origin, allowed):
    served = await serve(origins=("https://voice.example",))
    headers = {"Origin": origin.format(port=served.port)} if origin else {}

    try:
        async with opened(served.voice_url, additional_headers=headers):
            assert allowed
    except InvalidStatus as error:
        assert not allowed
        assert error.response.status_code == 403


async def test_rebound_name_is_a_foreign_origin(serve):
    served = await serve()
    host = f"evil.example:{served.port}"
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)

    writer.write(
        f"GET /v1/voice HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n"
        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode()
    )

    assert b" 403 " in await reader.readline()
    writer.close()


async def test_page_and_scripts_come_with_their_headers(serve, http, tmp_path, monkeypatch):
    (tmp_path / "vendor").mkdir()
    (tmp_path / "index.html").write_text("<p>page")
    (tmp_path / "vendor" / "a.js").write_text("1")
    (tmp_path / "secret.pem").write_text("no")
    monkeypatch.setattr(assets, "folder", lambda name: tmp_path)
    served = await serve()

    async with http.get(f"{served.url}/") as page:
        assert (await page.text(), page.headers["Content-Type"]) == (
            "<p>page",
            "text/html; charset=utf-8",
        )
        assert page.headers["Cache-Control"] == "no-cache"
        assert "default-src 'none'" in page.headers["Content-Security-Policy"]
        assert page.headers["X-Content-Type-Options"] == "nosniff"
        assert page.headers["Server"] == "playhead"
        etag = page.headers["ETag"]
    async with http.get(f"{served.url}/", headers={"If-None-Match": etag}) as again:
        assert again.status == 304
    async with http.get(f"{served.url}/vendor/a.js") as script:
        assert script.headers["Content-Type"] == "text/javascript; charset=utf-8"
    for path in ("/secret.pem", "/nothing.js", "/../pyproject.toml", "/%2e%2e/pyproject.toml"):
        async with http.get(served.url + path) as missing:
            assert missing.status == 404


async def test_two_origins_are_refused(serve):
    served = await serve(origins=("https://voice.example",))
    origins = [("Origin", "https://voice.example"), ("Origin", "https://evil.example")]

    with pytest.raises(InvalidStatus) as caught:
        async with opened(served.voice_url, additional_headers=origins):
            pass

    assert caught.value.response.status_code == 403
