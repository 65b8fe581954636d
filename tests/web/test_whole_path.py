"""Browser, gateway, engine: the page speaks through everything that a user's machine runs.

The engine makes tones, so that what is heard can be told from what is not.
"""

from __future__ import annotations

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
from tests.web.fake_gateway import LIMIT

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

TEXT = "One two three four five six seven eight nine ten."
RATE = 48_000
BLOCK = 480  # samples, 10 ms
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


def blocks_with_sound(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.intp]:
    """Return the numbers of the 10 ms blocks that are not silent."""
    blocks = samples[: len(samples) // BLOCK * BLOCK].reshape(-1, BLOCK)
    return np.flatnonzero(np.abs(blocks).max(1) > 0.01)


async def test_typed_text_is_heard_whole_and_no_silence_goes_untold(
    demo: DemoPage, playhead: tuple[str, LocalEngine]
) -> None:
    url, _ = playhead
    await demo.open(url)
    await demo.type(TEXT)
    await demo.record()

    await demo.speak()
    await demo.until("#state", "Done")
    await demo.drawn()
    _, samples = await demo.recording()

    sound = blocks_with_sound(samples)
    said = await demo.evaluate("() => playhead.store.shown.audio / 1000")
    stalls = int(await demo.tile("underruns"))  # none, unless the machine is busy
    assert tone_of(samples) == pytest.approx(TONE, abs=2)
    assert np.count_nonzero(np.diff(sound) > 1) <= stalls
    within = 0.03 * (1 + stalls)  # blocks at the edges, and fades
    assert len(sound) * BLOCK / RATE == pytest.approx(said, abs=within)
    assert (await demo.captions("heard")).replace(" ", "") == TEXT.replace(" ", "")


async def test_stop_silences_the_page_and_frees_the_engine(
    demo: DemoPage, playhead: tuple[str, LocalEngine]
) -> None:
    url, engine = playhead
    await demo.open(url)
    await demo.type(TEXT * 5)
    await demo.speak()
    await demo.holds("playhead.store.shown.heard > 300")

    await demo.stop()
    await demo.until("#state", "Stopped, heard")
    await demo.record()
    await demo.passes(0.6)
    _, samples = await demo.recording()

    assert len(samples) >= 0.5 * RATE
    assert not np.any(samples), "nothing sounds after the stop"
    assert (await demo.captions("unheard")).endswith("ten.")
    await until(lambda: engine.load and engine.load.utterances == 0, within=LIMIT)
