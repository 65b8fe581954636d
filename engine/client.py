"""What the gateway holds of an engine: one client, one `Speech` per utterance.

`LocalEngine` runs the engine on a thread of this process (CPU, laptops, tests); `RemoteEngine` talks to an engine
process over a socket. Both deliver the same events in the same order. Nothing here imports torch until a
`LocalEngine` starts.
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


class Speech:
    """One utterance as its owner sees it: send text and playback, iterate over sound.

    Iteration yields `Audio` and `Status` and stops after the utterance ended; then `ended` says how.
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
        """Report what the listener has rendered, `delay` seconds ago."""
        self._send(Playback(self.utterance, rendered, state, delay))

    def cancel(self) -> None:
        """Stop; the iteration ends with `ended.reason == "cancelled"`. Harmless after the end."""
        self._send(Cancel(self.utterance))

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
