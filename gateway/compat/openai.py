"""The OpenAI speech route, for clients that know only it.

Nothing of the answer is sent before there is sound, so a failure is an HTTP status and not a broken
file. These clients report no playback: their utterances run open loop and without a limit on the
lead, since most fetch a file.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

from aiohttp import web

from engine.api import Audio, Ended, EngineGone, Info, Open
from engine.client import EngineClient, Speech
from gateway import doors
from gateway.compat.containers import Container, ServerSentEvents, container, server_sent_event
from gateway.compat.openai_request import ApiError, SpeechRequest, parse, refusal
from gateway.config import GatewayConfig
from gateway.sound.pool import EncoderPool

logger = logging.getLogger(__name__)

_LIVE = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # proxies must not hold sound
_BROKEN = ("failed", "cancelled")  # ends that leave a sound incomplete

Headers: TypeAlias = dict[str, str]


def routes(engine: EngineClient, config: GatewayConfig, pool: EncoderPool) -> list[web.RouteDef]:
    """The routes under `/v1/`; the lists are open without a token, as their clients expect."""
    route = _Route(engine, config, pool)
    return [
        web.post("/v1/audio/speech", _answering(route.speech)),
        web.get("/v1/models", _answering(route.models)),
        web.get("/v1/audio/models", _answering(route.audio_models)),
        web.get("/v1/audio/voices", _answering(route.voices)),
    ]


def _answering(
    handler: Callable[[web.Request, Headers], Awaitable[web.StreamResponse]],
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Give every answer an id, and refusals the form that OpenAI's clients read."""

    async def answer(request: web.Request) -> web.StreamResponse:
        identity = f"req_{uuid.uuid4().hex}"
        headers = {"x-request-id": identity}
        try:
            return await handler(request, headers)
        except ApiError as error:
            logger.info("refused id=%s status=%d code=%s", identity, error.status, error.code)
            headers |= error.headers
            return web.json_response(error.body, status=error.status, headers=headers)

    return answer


class _Route:
    def __init__(self, engine: EngineClient, config: GatewayConfig, pool: EncoderPool) -> None:
        self._engine = engine
        self._config = config
        self._pool = pool

    async def models(self, request: web.Request, headers: Headers) -> web.StreamResponse:
        """OpenAI's list of models: the one that is loaded."""
        model = {"id": self._info().model, "object": "model", "owned_by": "playhead"}
        listed = [{**model, "created": 0}]
        return web.json_response({"object": "list", "data": listed}, headers=headers)

    async def audio_models(self, request: web.Request, headers: Headers) -> web.StreamResponse:
        """The same, in the form Open WebUI asks for."""
        return web.json_response({"models": [{"id": self._info().model}]}, headers=headers)

    async def voices(self, request: web.Request, headers: Headers) -> web.StreamResponse:
        """The voices of the loaded model."""
        voices = [{"id": voice, "name": voice} for voice in self._info().voices]
        return web.json_response({"voices": voices}, headers=headers)

    async def speech(self, request: web.Request, headers: Headers) -> web.StreamResponse:
        """Speak a text; the client's leaving cancels it."""
        key = self._key(request)
        asked = parse(await _body(request), info=self._info(), config=self._config)
        speech = self._open(asked, utterance=headers["x-request-id"], key=key)
        try:
            first = await anext(pieces := _sound(speech), b"")
            if not first:
                raise refusal(_end(speech))
            sound = _joined(first, pieces)
            if asked.stream or asked.events:
                return await self._stream(request, asked, speech, sound=sound, headers=headers)
            return await self._whole(asked, speech, sound=sound, headers=headers)
        finally:
            speech.cancel()  # harmless after the end

    def _key(self, request: web.Request) -> str:
        """Whose request it is. Raises ApiError if nobody's who may speak."""
        if not doors.origin_allowed(request, self._config.origins):
            wanted = "`Origin`: this page may not speak here; see `gateway.origins`"
            raise ApiError(403, "forbidden", wanted)
        token = doors.bearer(request) or ""
        if not self._config.tokens:
            return request.remote or ""
        if not doors.token_valid(token, self._config.tokens):
            wanted = "`Authorization`: want `Bearer` and a valid token"
            raise ApiError(401, "unauthorized", wanted)
        return doors.key_of(token)

    def _info(self) -> Info:
        try:
            return self._engine.info
        except EngineGone as error:
            wait = "engine: not ready; try again"
            raise ApiError(503, "engine_unavailable", wait, retry_after=1) from error

    def _open(self, asked: SpeechRequest, *, utterance: str, key: str) -> Speech:
        command = Open(
            utterance=utterance,
            voice=asked.voice,
            language=asked.language,
            instructions=asked.instructions,
            seed=asked.seed,
            max_lead=None,
            max_audio=self._config.limits.max_audio,
            key=key,
        )
        speech = self._engine.open(command)
        speech.append(asked.text)
        speech.finish()
        return speech

    async def _stream(
        self,
        request: web.Request,
        asked: SpeechRequest,
        speech: Speech,
        *,
        sound: AsyncIterator[bytes],
        headers: Headers,
    ) -> web.StreamResponse:
        box = self._container(asked, samples=None)
        if asked.events:
            box = ServerSentEvents(box, characters=len(asked.text))
        headers |= _LIVE | {"Content-Type": box.content_type}
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        waiting = box.start()  # travels with the first sound
        try:
            async for pcm in sound:
                waiting += await box.add(pcm)
                if waiting:
                    await self._write(response, waiting)
                    waiting = b""
            if _end(speech).reason in _BROKEN:
                await _break_off(request, response, speech, events=asked.events)
            else:
                await self._write(response, await box.finish())
        except TimeoutError:  # of a write: the client has stopped reading
            logger.warning("stuck id=%s", speech.utterance)
            if request.transport:
                request.transport.abort()
        return response

    async def _write(self, response: web.StreamResponse, piece: bytes) -> None:
        """Raises TimeoutError if the client reads nothing for as long as one may pause."""
        async with asyncio.timeout(self._config.pause_limit):
            await response.write(piece)

    async def _whole(
        self,
        asked: SpeechRequest,
        speech: Speech,
        *,
        sound: AsyncIterator[bytes],
        headers: Headers,
    ) -> web.StreamResponse:
        pcm = b"".join([piece async for piece in sound])
        if _end(speech).reason in _BROKEN:
            raise refusal(_end(speech))
        box = self._container(asked, samples=len(pcm) // 2)
        body = box.start() + await box.add(pcm) + await box.finish()
        headers["Content-Type"] = box.content_type
        return web.Response(body=body, headers=headers)

    def _container(self, asked: SpeechRequest, *, samples: int | None) -> Container:
        return container(asked.format, samples=samples, config=self._config.opus, pool=self._pool)


async def _body(request: web.Request) -> bytes:
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise ApiError(413, "too_large", f"body: {error.text}") from error


async def _sound(speech: Speech) -> AsyncIterator[bytes]:
    async for event in speech:
        if isinstance(event, Audio) and event.pcm:
            yield event.pcm


async def _joined(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece


def _end(speech: Speech) -> Ended:
    assert speech.ended, "a speech that yields no more has ended"
    return speech.ended


async def _break_off(
    request: web.Request, response: web.StreamResponse, speech: Speech, *, events: bool
) -> None:
    """Let the client see that the sound is not whole: an error event, or a body without its end."""
    error = refusal(_end(speech))
    logger.warning("broken id=%s code=%s", speech.utterance, error.code)
    if events:
        await response.write(server_sent_event({"type": "error", **error.body}))
    elif request.transport:
        request.transport.close()
