"""The OpenAI speech route against an engine that does what the test says."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import wave
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeAlias

import pytest
from aiohttp import ClientPayloadError, ClientResponse, web
from aiohttp.test_utils import TestClient, TestServer

from engine.api import Append, Audio, Cancel, Command, Ended, EngineGone, Finish, Info, Open
from engine.client import EngineClient
from gateway.compat.openai import routes
from gateway.config import GatewayConfig
from gateway.sound.pool import EncoderPool
from tests.waiting import LIMIT

FRAME = bytes(range(240)) * 16  # one codec frame of PCM
Act: TypeAlias = Callable[["ScriptedEngine", str], None]


class ScriptedEngine(EngineClient):
    """Runs `act(engine, utterance)` when the text is complete."""

    def __init__(self, act: Act) -> None:
        super().__init__()
        self.alive = True
        self.commands: list[Command] = []
        self.asked = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.started = True
        self._act = act

    @property
    def info(self) -> Info:
        if not self.started:
            raise EngineGone("not ready")
        return Info("tones", ("Low", "high"), "Low", ("english",), instructions=False, slots=4)

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    def send(self, command: Command) -> None:
        self.commands.append(command)
        if isinstance(command, Finish):
            self.asked.set()
            self._act(self, command.utterance)
        if isinstance(command, Cancel):
            self.cancelled.set()
            self._dispatch(Ended(command.utterance, "cancelled"))

    def speak(self, utterance: str, frames: int) -> None:
        for k in range(frames):
            self._dispatch(Audio(utterance, 1_920 * k, FRAME, 0, last=k == frames - 1))

    def end(self, utterance: str, reason: Any = "complete", detail: str = "", **more: Any) -> None:
        self._dispatch(Ended(utterance, reason, detail, **more))


def speaks(engine: ScriptedEngine, utterance: str) -> None:
    engine.speak(utterance, 5)
    engine.end(utterance)


def ends(*ended: Any, sound: int = 0, **more: Any) -> Act:
    def act(engine: ScriptedEngine, utterance: str) -> None:
        engine.speak(utterance, sound)
        engine.end(utterance, *ended, **more)

    return act


Start: TypeAlias = Callable[..., Any]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Start a server on a scripted engine: `client, engine = await start(act, config)`."""
    clients: list[TestClient[Any, Any]] = []
    pool = EncoderPool(1)

    async def start(
        act: Act = speaks, config: GatewayConfig | None = None
    ) -> tuple[TestClient[Any, Any], ScriptedEngine]:
        engine = ScriptedEngine(act)
        app = web.Application()
        app.add_routes(routes(engine, config or GatewayConfig(), pool))
        clients.append(TestClient(TestServer(app)))
        await clients[-1].start_server()
        return clients[-1], engine

    yield start
    for client in clients:
        await client.close()
    pool.close()


async def post(client: TestClient[Any, Any], **fields: Any) -> ClientResponse:
    return await client.post("/v1/audio/speech", json={"input": "Hello.", **fields})


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("fields", "content_type", "magic"),
    [
        ({}, "audio/wav", b"RIFF"),
        ({"response_format": "wav"}, "audio/wav", b"RIFF"),
        ({"response_format": "pcm"}, "audio/pcm;rate=24000;channels=1", FRAME[:4]),
        ({"response_format": "opus"}, "audio/ogg", b"OggS"),
    ],
)
async def test_bytes_are_what_was_asked_for(
    start: Start, fields: dict[str, str], content_type: str, magic: bytes, stream: bool
) -> None:
    client, _ = await start()

    answer = await post(client, stream=stream, **fields)

    assert answer.status == 200
    assert answer.headers["Content-Type"] == content_type
    assert (await answer.read()).startswith(magic)
    assert answer.headers["x-request-id"].startswith("req_")


async def test_streamed_wav_has_one_header_and_every_sample(start: Start) -> None:
    client, _ = await start()

    body = await (await post(client)).read()

    assert body.count(b"RIFF") == 1
    assert body[44:] == FRAME * 5


async def test_whole_wav_states_its_length(start: Start) -> None:
    client, _ = await start()

    answer = await post(client, stream=False)

    with wave.open(io.BytesIO(await answer.read())) as file:
        assert file.getnframes() == 5 * 1_920
    assert int(answer.headers["Content-Length"]) == 44 + 5 * 3_840


async def test_opus_is_one_ogg_stream(start: Start) -> None:
    client, _ = await start()

    body = await (await post(client, response_format="opus")).read()

    assert body.count(b"OpusHead") == 1
    flags = [body[at + 5] for at in range(len(body)) if body[at : at + 4] == b"OggS"]
    assert flags == [2, 0, 0, 0, 0, 0, 0, 4]


async def test_events_carry_the_file_and_end_with_usage(start: Start) -> None:
    client, _ = await start()

    answer = await post(client, response_format="pcm", stream_format="sse")

    assert answer.headers["Content-Type"] == "text/event-stream"
    lines = (await answer.text()).split("\n\n")
    assert lines.pop() == ""
    *deltas, done = (json.loads(line.removeprefix("data: ")) for line in lines)
    assert {delta["type"] for delta in deltas} == {"speech.audio.delta"}
    assert b"".join(base64.b64decode(delta["audio"]) for delta in deltas) == FRAME * 5
    usage = {"input_tokens": 6, "output_tokens": 5, "total_tokens": 11}
    assert done == {"type": "speech.audio.done", "usage": usage}


async def test_engine_is_asked_to_run_open_loop_without_a_limit(start: Start) -> None:
    client, engine = await start()

    await post(client, voice="HIGH", language="english", seed=7)

    opened, text, finish, *_ = engine.commands
    assert isinstance(opened, Open)
    assert (opened.voice, opened.language, opened.seed) == ("high", "english", 7)
    assert (opened.acks, opened.max_lead) == (False, None)
    assert text == Append(opened.utterance, "Hello.")
    assert finish == Finish(opened.utterance)


async def test_a_bad_field_is_answered_in_the_form_clients_read(start: Start) -> None:
    client, engine = await start()

    answer = await post(client, response_format="mp3")

    message = "`response_format`: want one of wav, pcm, opus, got: mp3"
    kind = {"type": "invalid_request_error", "param": "response_format"}
    assert answer.status == 400
    assert await answer.json() == {
        "error": {"message": message, **kind, "code": "unsupported_format"}
    }
    assert answer.headers["x-request-id"].startswith("req_")
    assert engine.commands == []


async def test_a_body_that_is_too_large_is_refused(start: Start) -> None:
    client, _ = await start()

    answer = await client.post("/v1/audio/speech", data=io.BytesIO(b"a" * (2**20 + 1)))

    assert answer.status == 413
    assert (await answer.json())["error"]["code"] == "too_large"


async def test_a_page_of_another_host_may_not_speak(start: Start) -> None:
    client, _ = await start()
    headers = {"Origin": "https://elsewhere.example"}

    answer = await client.post("/v1/audio/speech", json={"input": "Hello."}, headers=headers)

    assert answer.status == 403


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


async def test_a_token_is_asked_for_only_to_speak(start: Start) -> None:
    client, _ = await start(config=GatewayConfig(tokens=("right",)))
    body = {"input": "Hello."}

    answers = [
        await client.post("/v1/audio/speech", json=body, headers=headers)
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer right"})
    ]

    assert [answer.status for answer in answers] == [401, 401, 200]
    assert (await answers[0].json())["error"]["type"] == "authentication_error"
    assert (await client.get("/v1/audio/voices")).status == 200


async def test_lists_name_model_and_voices(start: Start) -> None:
    client, _ = await start()

    models, audio_models, voices = [
        await (await client.get(f"/v1/{path}")).json()
        for path in ("models", "audio/models", "audio/voices")
    ]

    assert [model["id"] for model in models["data"]] == ["tones"]
    assert audio_models == {"models": [{"id": "tones"}]}
    assert voices == {"voices": [{"id": "Low", "name": "Low"}, {"id": "high", "name": "high"}]}
