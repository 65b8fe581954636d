"""What the gateway holds of an engine: one client, one `Speech` per utterance.

`LocalEngine` runs the engine on a thread of this process (CPU, laptops, tests); `RemoteEngine`
talks to an engine process over a socket. Both deliver the same events in the same order. Nothing
here imports torch until a `LocalEngine` starts.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace

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
from engine.wire import Decoder, Message, encode, greeting, split_address

logger = logging.getLogger(__name__)

SILENCE_MEANS_LOST = 1.0  # s without heartbeat
RECONNECT_FIRST = 0.25  # s; doubles to RECONNECT_LAST
RECONNECT_LAST = 5.0
GATHER = 0.01  # s that a `Playback` waits for others: the engine's process wakes once for all


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

    @property
    def info(self) -> Info:
        """What the engine speaks."""
        return _known(self._info)

    async def start(self) -> None:
        """Load the model on the engine thread."""
        loop = asyncio.get_running_loop()
        self._thread = EngineThread(
            self._config,
            deliver=lambda events: call_in(loop, self._deliver, events),
            died=lambda error: call_in(loop, self._lose, "engine_lost"),
        )
        self._thread.start()
        self._info = await asyncio.to_thread(self._thread.wait_ready)
        self.alive = True

    async def close(self) -> None:
        """Stop the thread."""
        self._lose("engine_lost")
        if self._thread:
            await asyncio.to_thread(self._thread.stop)

    def send(self, command: Command) -> None:
        """Put the command into the engine's inbox."""
        if self._thread:
            self._thread.send(command)

    def _deliver(self, events: list[Event]) -> None:
        for event in events:
            self._dispatch(event)


class RemoteEngine(EngineClient):
    """An engine process behind a socket; found again by itself after a loss.

    Args:
        address: "unix:/path" or "tcp://host:port".
    """

    def __init__(self, address: str) -> None:
        super().__init__()
        self._place = split_address(address)
        self._address = address
        self._info: Info | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._gathered: list[tuple[Playback, float]] = []  # each with when it came
        self._gathering: asyncio.TimerHandle | None = None

    @property
    def info(self) -> Info:
        """What the engine spoke when last connected."""
        return _known(self._info)

    async def start(self) -> None:
        """Wait until the engine process answers, then stay connected until `close`."""
        connected = asyncio.Event()
        self._keeper = asyncio.create_task(self._keep(connected))
        await connected.wait()

    async def close(self) -> None:
        """Disconnect; the engine cancels what this client opened."""
        if self._keeper:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        self._lose("engine_lost")

    def send(self, command: Command) -> None:
        """Write the command, `Playback` in company; a lost connection is noticed by the reader."""
        if isinstance(command, Playback):
            self._gather(command)
            return
        self._write_gathered()  # an utterance's commands stay in order
        if self._writer:
            self._writer.write(encode(command))

    def _gather(self, playback: Playback) -> None:
        loop = asyncio.get_running_loop()
        self._gathered.append((playback, loop.time()))
        if self._gathering is None:
            self._gathering = loop.call_later(GATHER, self._write_gathered)

    def _write_gathered(self) -> None:
        """Write what waits, each older by the time it has waited."""
        if self._gathering is None:
            return
        self._gathering.cancel()
        self._gathering = None
        now = asyncio.get_running_loop().time()
        waited = [replace(each, delay=each.delay + now - came) for each, came in self._gathered]
        self._gathered.clear()
        if self._writer:
            self._writer.write(b"".join(map(encode, waited)))

    async def _keep(self, connected: asyncio.Event) -> None:
        """Connect again whenever the connection ends, for whatever reason."""
        pause = RECONNECT_FIRST
        while True:
            try:
                await self._session(connected)
            except Exception as error:  # it may be anything a socket or its sender can do
                logger.warning("engine_lost address=%s reason=%r", self._address, error)
            pause = RECONNECT_FIRST if self.alive else min(2 * pause, RECONNECT_LAST)
            self._lose("engine_lost")
            await asyncio.sleep(pause)

    async def _session(self, connected: asyncio.Event) -> None:
        """One connection, until it ends. Raises OSError, TimeoutError, WireError, EngineGone."""
        kind, place = self._place
        if kind == "unix":
            reader, writer = await asyncio.open_unix_connection(place)
        else:
            host, _, port = place.rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
        try:
            writer.write(greeting())
            decoder = Decoder()
            while received := await _heard(reader):
                for message in decoder.feed(received):
                    self._receive(message, writer, connected)
                    if isinstance(message, Audio):
                        await asyncio.sleep(0)  # one sound is on its way before the next is read
            raise EngineGone(f"engine at {self._address}: closed the connection")
        finally:
            self._writer = None
            writer.transport.abort()

    def _receive(
        self, message: Message, writer: asyncio.StreamWriter, connected: asyncio.Event
    ) -> None:
        if isinstance(message, Info):
            self._info, self._writer, self.alive = message, writer, True
            connected.set()
        elif not isinstance(message, Command):
            self._dispatch(message)


async def _heard(reader: asyncio.StreamReader) -> bytes:
    """Return the next bytes, none at the end. Raises TimeoutError after SILENCE_MEANS_LOST.

    In two waits: if it was this process that stood still, the first is over at once, and what has
    come meanwhile is there for the second.
    """
    for _ in range(2):
        with suppress(TimeoutError):
            async with asyncio.timeout(SILENCE_MEANS_LOST / 2):
                return await reader.read(1 << 16)
    raise TimeoutError(f"no heartbeat for {SILENCE_MEANS_LOST:g} s")


def _known(info: Info | None) -> Info:
    if info is None:
        raise EngineGone("engine: has not started yet; await `start()` first")
    return info
