"""A gateway on a free port of this machine, and engines to put behind it."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from engine.client import EngineClient
from gateway.app import HOUSE, READINESS, create_app
from gateway.compat import openai
from gateway.config import GatewayConfig, LimitsConfig
from gateway.sound.pool import EncoderPool
from gateway.voice import conversation, session, sound_flow, speaking
from tests.gateway.clocks import VirtualClock
from tests.gateway.fakes import FakeEngine
from tests.gateway.openai_route import Act, ScriptedEngine, Start, speaks


@dataclasses.dataclass
class Served:
    """A running gateway."""

    app: web.Application
    runner: web.AppRunner
    port: int
    engine: Any

    @property
    def voice_url(self) -> str:
        """Where `voice.v1` is."""
        return f"ws://127.0.0.1:{self.port}/v1/voice"

    @property
    def url(self) -> str:
        """Where everything else is."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def sessions(self) -> int:
        """Open sessions."""
        return len(self.app[HOUSE].sessions)


Serve = Callable[..., Awaitable[Served]]


def config_with(**settings: Any) -> GatewayConfig:
    """The defaults but for `settings`; those of `limits` as `limits={…}`."""
    limits = dataclasses.replace(LimitsConfig(), **settings.pop("limits", {}))
    return dataclasses.replace(GatewayConfig(port=0, limits=limits), **settings)


@asynccontextmanager
async def _running(engine: EngineClient, config: GatewayConfig) -> AsyncIterator[Served]:
    app = create_app(engine, config)
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield Served(app, runner, runner.addresses[0][1], engine)
    finally:
        await runner.cleanup()


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Starts gateways: `served = await serve(engine, text_pause=0.1)`."""
    async with AsyncExitStack() as stack:

        async def start(engine: Any = None, *, wait: bool = True, **settings: Any) -> Served:
            engine = engine or FakeEngine()
            settings.setdefault("self_test", "")
            running = _running(engine, config_with(**settings))
            served = await stack.enter_async_context(running)
            if wait:
                await served.app[READINESS].wait()
            return served

        yield start


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """The OpenAI speech route on a scripted engine: `client, engine = await start(act, config)`."""
    clients: list[TestClient[Any, Any]] = []
    pool = EncoderPool(1)

    async def start(
        act: Act = speaks, config: GatewayConfig | None = None
    ) -> tuple[TestClient[Any, Any], ScriptedEngine]:
        engine = ScriptedEngine(act)
        app = web.Application()
        app.add_routes(openai.routes(engine, config or GatewayConfig(), pool))
        clients.append(TestClient(TestServer(app)))
        await clients[-1].start_server()
        return clients[-1], engine

    yield start
    for client in clients:
        await client.close()
    pool.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> VirtualClock:
    """The time of all sessions: it stands unless the test moves it, and is looked at often."""
    clock = VirtualClock(1_000.0)
    for module in (conversation, session, sound_flow, speaking):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=clock))
    monkeypatch.setattr(session, "TICK", 0.01)
    return clock
