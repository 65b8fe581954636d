"""Whether the gateway can speak: the engine starts beside the server, then speaks once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

from aiohttp import web

from engine.api import Audio, EngineGone, Open
from gateway.voice.house import House

logger = logging.getLogger(__name__)


class Readiness:
    """Whether the gateway can speak, and if not, why."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._engine = house.engine
        self._self_test = house.config.self_test
        self._reason = "the engine is starting"
        self._task: asyncio.Task[None] | None = None

    @property
    def reason(self) -> str:
        """Empty when ready."""
        return self._reason or ("" if self._engine.alive else "the engine is lost")

    @property
    def starting(self) -> bool:
        """Has not spoken yet, or never will."""
        return bool(self._reason)

    async def wait(self) -> None:
        """Return once the gateway has spoken. Raises what the start raised, or EngineGone."""
        assert self._task, "the application has not started"
        await asyncio.shield(self._task)

    async def life(self, app: web.Application) -> AsyncIterator[None]:
        """Start the engine beside the server, which answers meanwhile; close it at the end."""
        self._task = asyncio.create_task(self._start(), name="start engine")
        self._task.add_done_callback(_log_failure)
        yield
        self._task.cancel()
        await asyncio.wait([self._task])
        await self._engine.close()

    async def _start(self) -> None:
        try:
            await self._engine.start()
            if self._self_test:
                self._reason = "the self-test is being spoken"
                await self._speak()
        except Exception as error:
            self._reason = f"the engine did not start: {error}"
            raise
        self._reason = ""
        logger.info("ready model=%s", self._engine.info.model)

    async def _speak(self) -> None:
        info = self._engine.info
        command = Open(self._house.new_id(), info.default_voice, max_lead=None)
        speech = self._engine.open(command)
        speech.append(self._self_test)
        speech.finish()
        samples = 0
        async for event in speech:
            samples += len(event.pcm) // 2 if isinstance(event, Audio) else 0
        assert speech.ended
        if not samples:
            how = f"{speech.ended.reason} {speech.ended.detail}".strip()
            raise EngineGone(f"self-test: want sound, got none: {how}")


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()):
        logger.error("not ready: %s", error)
