"""What the gateway holds of an engine: one client, one `Speech` per utterance.

`LocalEngine` runs the engine on a thread of this process (CPU, laptops, tests); `RemoteEngine`
(remote.py) talks to an engine process over a socket. Both deliver the same events in the same
order. Nothing here imports torch until a `LocalEngine` starts.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator

from engine.api import (
    Append,
    Audio,
    Cancel,
    Command,
    Ended,
    EngineGone,
    Event,
    Finish,
    Flush,
    Info,
    Load,
    Open,
    Playback,
    PlaybackState,
    Status,
)
from engine.config import EngineConfig
from engine.thread import EngineThread, call_in


class Speech:
    """One utterance as its owner sees it: send text and playback, iterate over sound.

    Iteration yields `Audio` and `Status` and stops after the end; then `ended` says how.
    """

    def __init__(self, client: EngineClient, utterance: str) -> None:
        self.utterance = utterance
        self.ended: Ended | None = None
        self._client = client
        self._events: asyncio.Queue[Audio | Status | Ended] = asyncio.Queue()

    def append(self, text: str) -> None:
        """Add text, joined exactly as given."""
        self._send(Append(self.utterance, text))

    def flush(self) -> None:
        """Speak what is there; more may follow."""
        self._send(Flush(self.utterance))

    def finish(self) -> None:
        """Say that no more text follows."""
        self._send(Finish(self.utterance))

    def playback(self, rendered: float, state: PlaybackState, delay: float) -> None:
        """Report what the listener has rendered, `delay` seconds ago.

        Also after the end, while the sound is being heard: what is queued behind depends on it.
        """
        self._client.send(Playback(self.utterance, rendered, state, delay))

    def cancel(self) -> None:
        """Stop; the iteration ends with `ended.reason == "cancelled"`.

        After the end it tells what is queued behind that this sound was cut off.
        """
        self._client.send(Cancel(self.utterance))

    def deliver(self, event: Audio | Status | Ended) -> None:
        """Hand over an event; called by the client only."""
        self._events.put_nowait(event)

    async def __aiter__(self) -> AsyncIterator[Audio | Status]:
        while self.ended is None:
            event = await self._events.get()
            if isinstance(event, Ended):
                self.ended = event
            else:
                yield event

    def _send(self, command: Command) -> None:
        if self.ended is None:
            self._client.send(command)


class EngineClient(ABC):
    """An engine, wherever it runs. All methods belong to the event loop's thread."""

    def __init__(self) -> None:
        self.load: Load | None = None  # last heartbeat
        self.alive = False  # started, and neither lost nor closed
        self._speeches: dict[str, Speech] = {}

    @property
    @abstractmethod
    def info(self) -> Info:
        """What the engine speaks. Raises EngineGone before `start` has returned."""

    @abstractmethod
    async def start(self) -> None:
        """Return once the engine can speak. Raises ConfigError, CheckpointError, EngineGone."""

    @abstractmethod
    async def close(self) -> None:
        """Stop; open speeches end as failed with detail "engine_lost"."""

    async def gone(self) -> None:
        """Return once the engine is lost for good. One in another process is found again."""
        await asyncio.Event().wait()

    @abstractmethod
    def send(self, command: Command) -> None:
        """Pass a command on; never blocks, never raises."""

    def open(self, command: Open) -> Speech:
        """Begin an utterance. A refusal arrives as the speech's `ended`."""
        speech = Speech(self, command.utterance)
        self._speeches[command.utterance] = speech
        if self.alive:
            self.send(command)
        else:
            self._dispatch(Ended(command.utterance, "failed", "engine_lost"))
        return speech

    def _dispatch(self, event: Event) -> None:
        if isinstance(event, Load):
            self.load = event
            return
        ended = isinstance(event, Ended)
        speeches = self._speeches
        speech = speeches.pop(event.utterance, None) if ended else speeches.get(event.utterance)
        if speech:
            speech.deliver(event)

    def _lose(self, detail: str) -> None:
        """End every open speech: the engine is gone."""
        self.alive = False
        for utterance in list(self._speeches):
            self._dispatch(Ended(utterance, "failed", detail))


class LocalEngine(EngineClient):
    """The engine on a thread of this process."""

    def __init__(self, config: EngineConfig) -> None:
        super().__init__()
        self._config = config
        self._info: Info | None = None
        self._thread: EngineThread | None = None
        self._gone = asyncio.Event()

    @property
    def info(self) -> Info:
        """What the engine speaks."""
        return known(self._info)

    async def start(self) -> None:
        """Load the model on the engine thread."""
        loop = asyncio.get_running_loop()
        self._thread = EngineThread(
            self._config,
            deliver=lambda events: call_in(loop, self._deliver, events),
            died=lambda error: call_in(loop, self._die),
        )
        self._thread.start()
        self._info = await asyncio.to_thread(self._thread.wait_ready)
        self.alive = True

    async def close(self) -> None:
        """Stop the thread."""
        self._lose("engine_lost")
        if self._thread:
            await asyncio.to_thread(self._thread.stop)

    async def gone(self) -> None:
        """Return once the thread has ended by itself."""
        await self._gone.wait()

    def send(self, command: Command) -> None:
        """Put the command into the engine's inbox."""
        if self._thread:
            self._thread.send(command)

    def _die(self) -> None:
        self._lose("engine_lost")
        self._gone.set()

    def _deliver(self, events: list[Event]) -> None:
        for event in events:
            self._dispatch(event)


def known(info: Info | None) -> Info:
    """Return what an engine said of itself. Raises EngineGone if it has not started."""
    if info is None:
        raise EngineGone("engine: has not started yet; await `start()` first")
    return info
