"""What a body of the speech route means, and which field is at fault."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.api import Info
from gateway.compat.openai_request import ApiError, SpeechRequest, parse
from gateway.config import GatewayConfig, OpenAIConfig
from gateway.sound import opus

INFO = Info("tones", ("Low", "high"), "Low", ("english",), instructions=False, slots=4)


def read(config: GatewayConfig | None = None, **fields: Any) -> SpeechRequest:
    body = json.dumps({"input": "Hello.", **fields}).encode()
    return parse(body, info=INFO, config=config or GatewayConfig())


@pytest.mark.parametrize(
    ("voice", "ours"),
    [
        ("Low", "Low"),
        ("HIGH", "high"),
        ("alloy", "Low"),
        ("nova", "high"),
        ("shimmer", "Low"),
        ({"id": "high"}, "high"),
        ("", "Low"),
        (None, "Low"),
    ],
    ids=str,
)
def test_voice_names_of_others_mean_one_of_ours(voice: Any, ours: str) -> None:
    config = GatewayConfig(openai=OpenAIConfig(aliases={"nova": "high", "shimmer": ""}))

    assert read(config, voice=voice).voice == ours


def test_what_is_left_out_has_a_default() -> None:
    asked = read()

    assert asked == SpeechRequest(
        text="Hello.",
        voice="Low",
        instructions="",
        language="auto",
        seed=0,
        format="wav",
        events=False,
        stream=True,
    )


def test_null_and_unknown_fields_are_harmless() -> None:
    nulls = dict.fromkeys(("voice", "instructions", "response_format", "speed", "stream_format"))

    assert read(model="tts-1", unheard_of=[], **nulls) == read(speed=1, instructions="")


def test_the_format_of_a_silent_request_is_configured() -> None:
    assert read(GatewayConfig(openai=OpenAIConfig(default_format="pcm"))).format == "pcm"


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"input": ""}, "text_empty", "input"),
        ({"input": " \n"}, "text_empty", "input"),
        ({"input": "a" * 10_001}, "text_too_long", "input"),
        ({"input": 3}, "invalid_request", "input"),
        ({"input": None}, "invalid_request", "input"),
        ({"voice": "nobody"}, "unsupported_voice", "voice"),
        ({"voice": 7}, "invalid_request", "voice"),
        ({"voice": {"name": "Low"}}, "invalid_request", "voice"),
        ({"speed": 1.5}, "unsupported_speed", "speed"),
        ({"speed": 0}, "unsupported_speed", "speed"),
        ({"speed": "fast"}, "invalid_request", "speed"),
        ({"response_format": "mp3"}, "unsupported_format", "response_format"),
        ({"response_format": "aac"}, "unsupported_format", "response_format"),
        ({"response_format": "flac"}, "unsupported_format", "response_format"),
        ({"stream_format": "chunks"}, "unsupported_format", "stream_format"),
        ({"instructions": "Whisper."}, "unsupported_instructions", "instructions"),
        ({"seed": -1}, "invalid_request", "seed"),
        ({"stream": "yes"}, "invalid_request", "stream"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_bad_field_is_named(fields: dict[str, Any], code: str, param: str) -> None:
    with pytest.raises(ApiError) as raised:
        read(**fields)

    assert (raised.value.status, raised.value.code, raised.value.param) == (400, code, param)


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        (b"{", "invalid_json", None),
        (b"\xff", "invalid_json", None),
        (b"", "invalid_json", None),
        (b'{"input": "\\ud800"}', "invalid_json", None),
        (b"[]", "invalid_request", None),
        (b'{"voice": "low"}', "invalid_request", "input"),
    ],
)
def test_a_bad_body_is_refused(body: bytes, code: str, param: str | None) -> None:
    with pytest.raises(ApiError) as raised:
        parse(body, info=INFO, config=GatewayConfig())

    assert (raised.value.status, raised.value.code, raised.value.param) == (400, code, param)


def test_an_alias_that_leads_nowhere_names_the_voices_there_are() -> None:
    config = GatewayConfig(openai=OpenAIConfig(aliases={"nova": "gone"}))

    with pytest.raises(ApiError, match="`voice`: want one of Low, high, got: nova"):
        read(config, voice="nova")


def test_opus_without_libopus_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opus, "available", lambda: "no libopus")

    with pytest.raises(ApiError, match="this server has no libopus; want `wav` or `pcm`"):
        read(response_format="opus")


def test_instructions_reach_a_model_that_takes_them() -> None:
    info = Info("tones", ("Low",), "Low", ("english",), instructions=True, slots=4)
    body = b'{"input": "Hello.", "instructions": "Whisper."}'

    assert parse(body, info=info, config=GatewayConfig()).instructions == "Whisper."
