"""The application: its routes, and a shutdown that waits for nobody silent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import asdict

from aiohttp import ClientConnectionResetError, web

from engine.client import EngineClient
from gateway import doors, pages
from gateway.compat import openai
from gateway.config import GatewayConfig
from gateway.protocol import PROTOCOL, ProtocolError, messages
from gateway.readiness import Readiness
from gateway.seats import Seats
from gateway.sound import opus
from gateway.sound.opus import OpusEncoder
from gateway.sound.pool import EncoderPool
from gateway.voice.coding import Coder, OpusCoder
from gateway.voice.house import House
from gateway.voice.outbox import End
from gateway.voice.session import CLOSE_SECONDS, Session

logger = logging.getLogger(__name__)

WRITER_LIMIT = 16_384  # bytes after which a send waits if the transport is full
READINESS = web.AppKey("readiness", Readiness)
HOUSE = web.AppKey("house", House)


def create_app(
    engine: EngineClient, config: GatewayConfig, seats: Seats | None = None
) -> web.Application:
    """Everything the gateway serves over HTTP.

    Args:
        seats: of all processes that share the port; None if this is the only one.

    The server may listen before the engine is ready; `await app[READINESS].wait()` after the start
    tells when it is, and raises if it never will be.
    """
    seats = seats or Seats(processes=1, each=config.limits.sessions)
    pool = EncoderPool(config.opus.threads)
    app = web.Application(client_max_size=config.limits.message_bytes)
    app[HOUSE] = house = _house(engine, config, pool, seats)
    app[READINESS] = Readiness(house)

    async def encoders(app: web.Application) -> AsyncIterator[None]:
        yield
        pool.close()

    async def farewell(app: web.Application) -> None:
        house.draining = True
        await asyncio.gather(*(session.drain(config.drain) for session in list(house.sessions)))

    app.cleanup_ctx.extend([app[READINESS].life, encoders])
    app.on_shutdown.append(farewell)
    app.on_response_prepare.append(_anonymous)
    app.add_routes(
        [web.get("/v1/voice", _voice), web.get("/health", _health), web.get("/ready", _ready)]
    )
    app.add_routes(openai.routes(engine, config, pool))
    app.add_routes(pages.routes())
    return app


def _house(engine: EngineClient, config: GatewayConfig, pool: EncoderPool, seats: Seats) -> House:
    reason = opus.available(config.opus.library)
    if reason:
        logger.warning("PCM only: %s", reason)
        return House(seats=seats, engine=engine, config=config, new_opus=None)
    complexity = config.opus.complexity

    def new_opus(bitrate: int) -> Coder:
        return OpusCoder(OpusEncoder(bitrate=bitrate, complexity=complexity), pool)

    pre_skip = OpusEncoder(bitrate=config.opus.bitrate, complexity=complexity).pre_skip
    return House(seats=seats, engine=engine, config=config, new_opus=new_opus, pre_skip=pre_skip)


async def _voice(request: web.Request) -> web.StreamResponse:
    house = request.app[HOUSE]
    came = doors.check(request, house.config.tokens, house.config.origins)
    _find_room(house, came)
    with house.seats.take(came.key):
        return await _converse(request, came)


def _find_room(house: House, came: doors.Pass) -> None:
    limits = house.config.limits
    if house.seats.taken() >= limits.sessions:
        raise web.HTTPServiceUnavailable(text="too many sessions", headers={"Retry-After": "1"})
    if not came.key or not house.config.tokens:
        return
    if house.seats.taken_by(came.key) >= limits.sessions_per_token:
        raise web.HTTPTooManyRequests(text="too many sessions of this token")


async def _converse(request: web.Request, came: doors.Pass) -> web.StreamResponse:
    house = request.app[HOUSE]
    config = house.config
    socket = web.WebSocketResponse(
        protocols=(PROTOCOL,) if came.subprotocol else (),
        compress=False,  # Opus does not shrink, and zlib costs 256 KiB a socket
        heartbeat=config.heartbeat,
        max_msg_size=config.limits.message_bytes,
        timeout=CLOSE_SECONDS,
        autoping=False,
        writer_limit=WRITER_LIMIT,
    )
    try:
        await socket.prepare(request)
    except ClientConnectionResetError as error:  # left before the upgrade: nobody to answer
        raise web.HTTPBadRequest from error
    end = _refusal(request.app, came)
    if end and end.problem:
        await socket.send_str(messages.error(end.problem, fatal=True))
        await socket.close(code=end.code, message=end.reason.encode())
        return socket
    transport = request.transport
    assert isinstance(transport, asyncio.Transport)
    try:
        await Session(socket, transport, house, came.key).run(authorised=came.authorised)
    except asyncio.CancelledError as error:  # aiohttp keeps it until a full collection comes …
        raise error.with_traceback(
            None
        ) from None  # … and with its traceback all that the session held
    return socket


def _refusal(app: web.Application, came: doors.Pass) -> End | None:
    """Told after the upgrade, because a page's script cannot see an HTTP status."""
    if came.wrong:
        problem = ProtocolError("unauthorized", "`voice.auth.…`: want a valid token")
        return End(4401, problem.code, problem)
    readiness = app[READINESS]
    if readiness.starting:
        problem = ProtocolError("engine_unavailable", readiness.reason, retry_after=1.0)
        return End(1013, problem.code, problem)
    return None


async def _health(request: web.Request) -> web.Response:
    return web.json_response({"status": "ok"}, headers={"Cache-Control": "no-store"})


async def _ready(request: web.Request) -> web.Response:
    headers = {"Cache-Control": "no-store"}
    reason = request.app[READINESS].reason
    if request.app[HOUSE].draining:
        reason = "the server is shutting down"
    if reason:
        return web.json_response(
            {"status": "unready", "reason": reason}, status=503, headers=headers
        )
    load = request.app[HOUSE].engine.load
    engine = asdict(load) if load else None  # no texts, no names: counts alone
    return web.json_response({"status": "ready", "engine": engine}, headers=headers)


async def _anonymous(request: web.Request, response: web.StreamResponse) -> None:
    """Versions of the server's parts are nobody's business."""
    response.headers["Server"] = "playhead"
