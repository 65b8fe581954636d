"""The OpenAI speech route: what is asked of the engine, and what is answered."""

from __future__ import annotations

import base64
import io
import json
import wave

import pytest

from engine.api import Append, Finish, Open
from gateway.config import GatewayConfig
from tests.gateway.openai_route import FRAME, Start, post


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
