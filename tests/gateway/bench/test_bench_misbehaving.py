"""Each misdeed does what it says, and a gateway survives it with nothing left open."""

from __future__ import annotations

import asyncio

import pytest

from engine.client import LocalEngine
from engine.config import EngineConfig, ModelConfig
from gateway.bench import misbehaving
from gateway.bench.misbehaving import MISDEEDS, Misdeed
from gateway.bench.target import Target
from tests.gateway.conftest import Serve
from tests.waiting import LIMIT, until

SILENT = EngineConfig(model=ModelConfig(checkpoint="silent"))


@pytest.mark.slow
@pytest.mark.parametrize("misdeed", MISDEEDS, ids=lambda each: each.__name__)
async def test_nothing_is_left_of_a_misdeed(serve: Serve, misdeed: Misdeed) -> None:
    engine = LocalEngine(SILENT)
    served = await serve(engine)

    async with asyncio.timeout(LIMIT):
        await misdeed(Target(url=served.url))

    await until(lambda: served.sessions == 0 and not engine._speeches)
    assert engine.alive


async def test_nonsense_is_called_so(serve: Serve) -> None:
    """A misdeed that no server noticed would test nothing."""
    served = await serve(LocalEngine(SILENT))
    told: list[str] = []

    async with misbehaving._session(Target(url=served.url), acks=True) as wire:
        for line in misbehaving.NONSENSE:
            await wire.send(line)
        async with asyncio.timeout(LIMIT):
            while len(told) < len(misbehaving.NONSENSE) - 3:
                told.append(str(await wire.recv()))

    assert all('"error"' in each or '"warning"' in each for each in told)
