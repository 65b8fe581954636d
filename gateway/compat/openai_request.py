"""What `POST /v1/audio/speech` may ask for, and how it is refused. Sans-I/O."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

from engine.api import Ended, Info
from gateway.compat.containers import FORMATS
from gateway.config import GatewayConfig
from gateway.sound import opus

# Some clients refuse all other names; they mean the default voice unless one of ours is called so
THEIR_VOICES = frozenset(
    {
        *("alloy", "ash", "ballad", "cedar", "coral", "echo", "fable"),
        *("marin", "nova", "onyx", "sage", "shimmer", "verse"),
    }
)
_CODES = {  # of an `Ended` without sound -> HTTP status and field at fault
    "overloaded": (503, None),
    "rate_limited": (429, None),
    "engine_lost": (503, None),
    "engine_unavailable": (503, None),
    "unsupported_voice": (400, "voice"),
    "unsupported_language": (400, "language"),
    "unsupported_instructions": (400, "instructions"),
    "text_too_long": (400, "input"),
    "text_empty": (400, "input"),
}
_TYPES = {401: "authentication_error", 429: "rate_limit_error"}


class ApiError(Exception):
    """An answer with an error status, as OpenAI's clients expect it."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param
        self.retry_after = retry_after

    @property
    def body(self) -> dict[str, dict[str, str | None]]:
        """The JSON answer."""
        by_status = "invalid_request_error" if self.status < 500 else "server_error"
        kind = _TYPES.get(self.status, by_status)
        error = {"message": str(self), "type": kind, "param": self.param, "code": self.code}
        return {"error": error}

    @property
    def headers(self) -> dict[str, str]:
        """`Retry-After`, in whole seconds, where there is hope."""
        if self.retry_after is None:
            return {}
        return {"Retry-After": str(max(1, math.ceil(self.retry_after)))}


@dataclass(frozen=True, slots=True)
class SpeechRequest:
    """A valid request: what to say, how, and in which container."""

    text: str
    voice: str  # one of ours
    instructions: str
    language: str
    seed: int
    format: str  # one of FORMATS
    events: bool  # as server-sent events
    stream: bool  # as it is made; False: the whole file with its length


class _VoiceId(msgspec.Struct):
    id: str


class _Body(msgspec.Struct):
    """The fields as they come; unknown ones are ignored, `null` counts as absent."""

    input: str
    voice: str | _VoiceId | None = None
    instructions: str | None = None
    response_format: str | None = None
    stream_format: str | None = None
    speed: float | None = None
    language: str | None = None  # ours
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None  # ours
    stream: bool | None = None  # ours


def parse(body: bytes, *, info: Info, config: GatewayConfig) -> SpeechRequest:
    """Check a request body. Raises ApiError naming the field at fault."""
    asked = _decode(body)
    if not asked.input.strip():
        raise _bad("text_empty", "input", "want text to speak")
    if len(asked.input) > config.limits.text:
        wanted = f"want at most {config.limits.text} code points, got: {len(asked.input)}"
        raise _bad("text_too_long", "input", wanted)
    if asked.speed not in (None, 1):
        raise _bad("unsupported_speed", "speed", f"only 1 is offered, got: {asked.speed}")
    if asked.instructions and not info.instructions:
        wanted = f"model `{info.model}` takes none; leave them out"
        raise _bad("unsupported_instructions", "instructions", wanted)
    if asked.stream_format not in (None, "audio", "sse"):
        wanted = f"want `audio` or `sse`, got: {asked.stream_format}"
        raise _bad("unsupported_format", "stream_format", wanted)
    return SpeechRequest(
        text=asked.input,
        voice=_voice(asked.voice, info=info, aliases=config.openai.aliases),
        instructions=asked.instructions or "",
        language=asked.language or "auto",
        seed=asked.seed or 0,
        format=_format(asked.response_format or config.openai.default_format),
        events=asked.stream_format == "sse",
        stream=asked.stream is not False,
    )


def refusal(ended: Ended) -> ApiError:
    """The answer for an utterance that ended without sound, or without all of it."""
    if ended.reason == "empty":
        return _bad("text_empty", "input", "nothing in it can be spoken")
    code = ended.detail or ("cancelled" if ended.reason == "cancelled" else "generation_failed")
    if ended.reason not in ("refused", "failed", "cancelled"):
        code = "no_audio"
    unlisted = {"refused": 400, "cancelled": 503}.get(ended.reason, 500)
    status, param = _CODES.get(code, (unlisted, None))
    retry_after = (ended.retry_after or 1.0) if status in (429, 503) else None
    message = f"speech: {ended.reason}: {code}"
    return ApiError(status, code, message, param=param, retry_after=retry_after)


def _decode(body: bytes) -> _Body:
    try:
        return msgspec.json.decode(body, type=_Body)
    except msgspec.ValidationError as error:
        text = str(error)
        place = re.search(r"\$\.(\w+)", text) or re.search(r"field `(\w+)`", text)
        param = place[1] if place else None
        raise ApiError(400, "invalid_request", f"body: {error}", param=param) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ApiError(400, "invalid_json", f"body: not JSON: {error}") from error


def _voice(asked: str | _VoiceId | None, *, info: Info, aliases: dict[str, str]) -> str:
    name = asked.id if isinstance(asked, _VoiceId) else asked
    if not name:
        return info.default_voice
    ours = {voice.casefold(): voice for voice in info.voices}
    if name.casefold() in ours:
        return ours[name.casefold()]
    alias = aliases.get(name, "" if name in THEIR_VOICES else name) or info.default_voice
    if alias.casefold() not in ours:
        raise _bad("unsupported_voice", "voice", f"want one of {_names(info)}, got: {name}")
    return ours[alias.casefold()]


def _names(info: Info) -> str:
    more = f" and {len(info.voices) - 16} more" if len(info.voices) > 16 else ""
    return ", ".join(info.voices[:16]) + more


def _format(name: str) -> str:
    if name not in FORMATS:
        wanted = f"want one of {', '.join(FORMATS)}, got: {name}"
        raise _bad("unsupported_format", "response_format", wanted)
    if name == "opus" and opus.available():
        wanted = "this server has no libopus; want `wav` or `pcm`"
        raise _bad("unsupported_format", "response_format", wanted)
    return name


def _bad(code: str, param: str, wanted: str) -> ApiError:
    return ApiError(400, code, f"`{param}`: {wanted}", param=param)
