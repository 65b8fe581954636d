"""A soak of one process: everything the gateway and the engine count is back where it began.

Run by hand: `pytest tests/load -m soak`; PLAYHEAD_SOAK_SECONDS says for how long (default: 1200).
From outside, with memory and descriptors of a real server: `playhead bench --soak`.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time

import pytest
from aiohttp import web

from engine.client import LocalEngine
from engine.config import EngineConfig, ModelConfig
from gateway.app import HOUSE, READINESS, create_app
from gateway.bench.arrivals import Habits
from gateway.bench.load import Loader
from gateway.bench.misbehaving import misbehave
from gateway.bench.server_watch import Sample
from gateway.bench.take import Reply
from gateway.bench.target import Load, Order, Target
from gateway.bench.textsets import read_texts
from gateway.config import GatewayConfig
from tests.waiting import until

SECONDS = float(os.environ.get("PLAYHEAD_SOAK_SECONDS", "1200"))
LISTENERS = 6


@pytest.mark.soak
async def test_everything_is_back_where_it_began() -> None:
    engine = LocalEngine(EngineConfig(model=ModelConfig(checkpoint="silent", slots=16)))
    app = create_app(engine, GatewayConfig(port=0))
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    await app[READINESS].wait()
    await until(lambda: engine.load)
    before = counted(app, engine)

    replies = await soaked(f"http://127.0.0.1:{runner.addresses[0][1]}")

    await until(lambda: counted(app, engine) == before)
    assert sum(reply.outcome == "complete" for reply in replies) > SECONDS / 10
    assert not [reply.code for reply in replies if reply.outcome == "failed"]
    await runner.cleanup()


def counted(app: web.Application, engine: LocalEngine) -> dict[str, int]:
    """What must not grow."""
    gc.collect()
    sample = Sample.of(os.getpid(), 0.0)
    assert engine.load is not None
    return {
        "tasks": len(asyncio.all_tasks()),
        "sessions": len(app[HOUSE].sessions),
        "live utterances": engine.load.utterances,
        "descriptors": sample.descriptors,
    }


async def soaked(url: str) -> list[Reply]:
    """Listeners of both transports, with pauses and interruptions, beside misbehaving clients."""
    replies: list[Reply] = []
    habits = Habits(pause_probability=0.2, pause=1.0, barge_in_probability=0.3)
    load = Load(listeners=LISTENERS // 2, warmup=0.0, duration=SECONDS)
    orders = [
        Order(target=Target(url=url, transport=transport, codec=codec), load=load, habits=habits)
        for transport, codec in (("voice", "opus"), ("http", "pcm"))
    ]
    start = time.monotonic()
    async with asyncio.TaskGroup() as group:
        group.create_task(misbehave(orders[0], until=start + SECONDS))
        for order in orders:
            loader = Loader(
                order, read_texts("sentences"), emit=replies.append, clock=time.monotonic
            )
            group.create_task(loader.run(start))
    return replies
