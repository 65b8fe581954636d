"""Browser, gateway, engine: the page speaks through everything that a user's machine runs.

The engine makes tones, so that what is heard can be told from what is not.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import numpy as np
import numpy.typing as npt
import pytest
import pytest_asyncio
from aiohttp import web

from engine.client import LocalEngine
from engine.config import EngineConfig, ModelConfig
from gateway.app import READINESS, create_app
from gateway.config import GatewayConfig
from tests.waiting import until
from tests.web.browser import DemoPage

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

TEXT = "One two three four five six seven eight nine ten."
RATE = 48_000
TONE = 300.0  # Hz: what the engine without a model says to seed 0


@pytest_asyncio.fixture(loop_scope="session")
async def playhead() -> AsyncIterator[tuple[str, LocalEngine]]:
    """A gateway on a free port, and its engine."""
    engine = LocalEngine(EngineConfig(model=ModelConfig(checkpoint="silent")))
    app = create_app(engine, GatewayConfig(port=0))
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    await app[READINESS].wait()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}", engine
    await runner.cleanup()


def tone_of(samples: npt.NDArray[np.float32]) -> float:
    """Return the strongest frequency, Hz."""
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    return float(np.argmax(spectrum)) * RATE / len(samples)


def silence_inside(samples: npt.NDArray[np.float32]) -> float:
    """Return the seconds of 10 ms blocks without sound between the first and the last with it."""
    blocks = samples[: len(samples) // 480 * 480].reshape(-1, 480)
    sounding = np.flatnonzero(np.abs(blocks).max(1) > 0.01)
    assert len(sounding), "nothing was heard"
    return float(sounding[-1] - sounding[0] + 1 - len(sounding)) * 0.01


async def test_typed_text_is_heard_without_a_gap(
    demo: DemoPage, playhead: tuple[str, LocalEngine]
) -> None:
    url, _ = playhead
    await demo.open(url)
    await demo.type(TEXT)
    await demo.record(10.0)

    await demo.speak()
    await demo.until("#state", "Done")
    _, samples = await demo.recording()

    assert tone_of(samples) == pytest.approx(TONE, abs=2)
    assert silence_inside(samples) == 0
    assert await demo.tile("underruns") == "0"
    assert (await demo.captions("heard")).replace(" ", "") == TEXT.replace(" ", "")


async def test_stop_silences_the_page_and_frees_the_engine(
    demo: DemoPage, playhead: tuple[str, LocalEngine]
) -> None:
    url, engine = playhead
    await demo.open(url)
    await demo.type(TEXT * 5)
    await demo.speak()
    await demo.until("#state", "Speaking")
    await asyncio.sleep(0.5)

    await demo.stop()
    await demo.until("#state", "Stopped, heard")
    await demo.record(0.5)
    await asyncio.sleep(0.6)
    _, samples = await demo.recording()

    assert not np.any(samples), "nothing sounds after the stop"
    assert (await demo.captions("unheard")).endswith("ten.")
    await until(lambda: engine.load and engine.load.utterances == 0)
