"""An engine that does what the test says, for the OpenAI speech route; and how to ask it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

from aiohttp import ClientResponse
from aiohttp.test_utils import TestClient

from engine.api import Audio, Cancel, Command, Ended, EngineGone, Finish, Info
from engine.client import EngineClient

FRAME = bytes(range(240)) * 16  # one codec frame of PCM
Act: TypeAlias = Callable[["ScriptedEngine", str], None]


class ScriptedEngine(EngineClient):
    """Runs `act(engine, utterance)` when the text is complete."""

    def __init__(self, act: Act) -> None:
        super().__init__()
        self.alive = True
        self.commands: list[Command] = []
        self.asked = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.started = True
        self._act = act

    @property
    def info(self) -> Info:
        if not self.started:
            raise EngineGone("not ready")
        return Info("tones", ("Low", "high"), "Low", ("english",), instructions=False, slots=4)

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    def send(self, command: Command) -> None:
        self.commands.append(command)
        if isinstance(command, Finish):
            self.asked.set()
            self._act(self, command.utterance)
        if isinstance(command, Cancel):
            self.cancelled.set()
            self._dispatch(Ended(command.utterance, "cancelled"))

    def speak(self, utterance: str, frames: int) -> None:
        for k in range(frames):
            self._dispatch(Audio(utterance, 1_920 * k, FRAME, 0, last=k == frames - 1))

    def end(self, utterance: str, reason: Any = "complete", detail: str = "", **more: Any) -> None:
        self._dispatch(Ended(utterance, reason, detail, **more))


def speaks(engine: ScriptedEngine, utterance: str) -> None:
    engine.speak(utterance, 5)
    engine.end(utterance)


def ends(*ended: Any, sound: int = 0, **more: Any) -> Act:
    def act(engine: ScriptedEngine, utterance: str) -> None:
        engine.speak(utterance, sound)
        engine.end(utterance, *ended, **more)

    return act


Start: TypeAlias = Callable[..., Any]


async def post(client: TestClient[Any, Any], **fields: Any) -> ClientResponse:
    return await client.post("/v1/audio/speech", json={"input": "Hello.", **fields})
