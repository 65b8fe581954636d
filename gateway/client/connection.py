"""One session as the client sees it: what it says, what it hears, and the acks in between."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections import deque
from collections.abc import AsyncIterable, Callable, Sequence
from contextlib import suppress
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from gateway.client.player import Player
from gateway.client.utterance import FINAL, Fields, Utterance, VoiceError
from gateway.protocol import PROTOCOL
from gateway.protocol.chunk import Chunk, unpack

CANCEL_ERRORS = ("utterance_closed", "unknown_utterance")
NOTICES = 1_000  # kept of what concerns no utterance
SHORTEST_WAIT = 0.001  # s between two looks for acks that are due


class VoiceClient:
    """One session. An asynchronous context manager: inside it the session is open."""

    def __init__(
        self,
        url: str,
        *,
        codecs: Sequence[str] = ("opus", "pcm_s16le"),
        voice: str | None = None,
        token: str | None = None,
        want: Sequence[str] = (),
        player: Player | None = None,
        hello: Fields | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`hello` adds or replaces fields of the first message."""
        self.player = player
        self.server: Fields = {}  # the server's `hello`
        self.notices: deque[Fields] = deque(maxlen=NOTICES)  # what concerns no open utterance
        self.utterances: dict[str, Utterance] = {}  # by name, without their final message
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._hello: Fields = {
            "audio": {"codecs": list(codecs)},
            "acks": player is not None,
            "want": list(want),
            "client": {"name": "playhead-python"},
            **({"voice": voice} if voice else {}),
            **(hello or {}),
        }
        self._clock = clock
        self._names = itertools.count(1)
        self._by_n: dict[int, Utterance] = {}
        self._muted: set[int] = set()
        self._cancels: dict[str, asyncio.Future[Fields]] = {}  # by name, sent and not answered
        self._tasks: set[asyncio.Task[None]] = set()
        self._moved = asyncio.Event()  # something for the player to look at
        self._socket: ClientConnection | None = None
        self._lost: VoiceError | None = None

    async def __aenter__(self) -> VoiceClient:
        """Connect and agree. Raises VoiceError, OSError, or InvalidStatus of websockets."""
        self._socket = await connect(
            self._url,
            subprotocols=[Subprotocol(PROTOCOL)],
            additional_headers=self._headers,
            compression=None,
            max_size=None,
            close_timeout=2,
            proxy=None,
        )
        try:
            self.server = await self._greet(self._socket)
        except BaseException:
            await self._socket.close()
            raise
        self._own(self._read())
        if self.player:
            self.player.interval = max(
                self.player.interval, self.server["ack"]["interval_ms"] / 1000
            )
            self._own(self._ack(self.player))
        return self

    async def _greet(self, socket: ClientConnection) -> Fields:
        """Exchange `hello`. Raises VoiceError with what the server refuses, or why it left."""
        with suppress(ConnectionClosed):  # it may have refused before: its reason is still to read
            await socket.send(json.dumps({"type": "hello", **self._hello}))
        try:
            answer: Fields = json.loads(await socket.recv())
        except ConnectionClosed as error:
            raise _lost(error) from error
        if answer["type"] == "error":
            raise VoiceError(answer["code"], answer["message"], fields=answer)
        return answer

    async def __aexit__(self, *exception: object) -> None:
        """Leave: what is open is cancelled."""
        assert self._socket
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._socket.close()
        self._end_all(VoiceError("closed", "the client has left"))

    async def speak(
        self, text: str | AsyncIterable[str] | None = None, **options: Any
    ) -> Utterance:
        """Open an utterance.

        Args:
            text: the whole text; or pieces as they come, joined as they are; or None, to `append`.
            options: fields of `say`, as `mode`, `voice` or `utterance`.
        """
        name = options.pop("utterance", None) or f"u{next(self._names)}"
        utterance = Utterance(self, name, self._clock())
        self.utterances[name] = utterance
        if self._lost:
            raise self._lost
        if isinstance(text, str):
            await self.send("say", utterance=name, text=text, last=True, **options)
        else:
            await self.send("say", utterance=name, **options)
            if text is not None:
                self._own(self._feed(utterance, text))
        return utterance

    @property
    def pre_skip(self) -> int:
        """Ticks to drop at the start of each utterance's Opus."""
        return int(self.server["audio"]["pre_skip"])

    @property
    def text_limit(self) -> int:
        """Code points that the server takes in one `text`."""
        return int(self.server["limits"]["text_message"])

    async def send(self, kind: str, **fields: Any) -> None:
        """Send any message. Raises VoiceError if the connection is gone."""
        assert self._socket, "enter the client first"
        try:
            await self._socket.send(json.dumps({"type": kind, **fields}))
        except ConnectionClosed as error:
            raise self._lost or _lost(error) from error

    def mute(self, utterance: Utterance) -> float | None:
        """Silence an utterance here and now; seconds heard of it, if a player knows."""
        if utterance.n is None:
            return None
        self._muted.add(utterance.n)
        if self.player is None or utterance.n not in self.player.tracks:
            return None
        self.player.advance(self._clock())
        heard = self.player.heard(utterance.n)
        self.player.drop(utterance.n, self._clock())
        return heard

    def expect(self, name: str) -> asyncio.Future[Fields]:
        """The server's answer to a `cancel` about to be sent."""
        answer: asyncio.Future[Fields] = asyncio.get_running_loop().create_future()
        return self._cancels.setdefault(name, answer)

    def pause(self) -> None:
        """Pause the player; it acks at once."""
        assert self.player, "only a client with a player can pause"
        self.player.pause(self._clock())
        self._moved.set()

    def resume(self) -> None:
        """Let the player go on; it acks at once."""
        assert self.player, "only a client with a player can resume"
        self.player.resume(self._clock())
        self._moved.set()

    def _own(self, coroutine: Any) -> None:
        task: asyncio.Task[None] = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        """Let nobody wait for a task that broke: a text that breaks off, a chunk that is none."""
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, VoiceError):
            self._end_all(error)
        elif error:
            self._end_all(VoiceError("broken", f"{type(error).__name__}: {error}"))

    async def _read(self) -> None:
        assert self._socket
        try:
            async for message in self._socket:
                now = self._clock()
                if isinstance(message, bytes):
                    self._take_chunk(unpack(message), now)
                else:
                    self._take_message(json.loads(message), now)
        except ConnectionClosed:
            pass
        self._end_all(_lost(self._socket))

    def _take_chunk(self, chunk: Chunk, now: float) -> None:
        if chunk.n in self._muted:
            return
        if self.player:
            self.player.received(chunk, now)
            if self.player.next_ack() <= now:
                self._moved.set()
        self._by_n[chunk.n].deliver(chunk, now)

    def _take_message(self, fields: Fields, now: float) -> None:
        name = fields.get("utterance", "")
        if name in self._cancels and (
            fields["type"] == "cancelled" or fields.get("code") in CANCEL_ERRORS
        ):
            self._cancels.pop(name).set_result(fields)
        utterance = self.utterances.get(name)
        if utterance is None and "utterance" not in fields:
            utterance = self._by_n.get(fields.get("n", -1))
        if utterance is None:
            self.notices.append(fields)
            return
        if "n" in fields and utterance.n is None:
            utterance.n = fields["n"]
            self._by_n[fields["n"]] = utterance
        utterance.deliver(fields, now)
        if fields["type"] == "started" and self.player:
            self._order(utterance, self.player, now)
        if fields["type"] in FINAL:
            self._settle(utterance, fields, now)

    def _order(self, utterance: Utterance, player: Player, now: float) -> None:
        """Utterances may arrive in any order, but are heard in that of their `say`."""
        assert utterance.n is not None
        earlier = itertools.takewhile(lambda each: each is not utterance, self.utterances.values())
        awaits = {each.name for each in earlier if each.n not in player.tracks}
        player.expect(utterance.n, awaits, now)
        player.release(utterance.name, now)

    def _settle(self, utterance: Utterance, fields: Fields, now: float) -> None:
        del self.utterances[utterance.name]
        if self.player:
            self.player.release(utterance.name, now)
        if utterance.n is None:
            return
        del self._by_n[utterance.n]
        self._muted.discard(utterance.n)
        if self.player and fields["type"] == "done":
            self.player.close(utterance.n, now)
        elif self.player:
            self.player.drop(utterance.n, now)
        self._moved.set()

    async def _ack(self, player: Player) -> None:
        """Report at every change and every interval in between."""
        loop = asyncio.get_running_loop()
        while True:
            self._moved.clear()
            for ack in player.acks(self._clock()):
                await self.send("ack", **ack)
            player.forget_ended()
            wait = max(player.next_ack() - self._clock(), SHORTEST_WAIT)
            timer = loop.call_later(wait, self._moved.set)
            try:
                await self._moved.wait()
            finally:
                timer.cancel()  # one that waits for ever would stay as long as the loop

    async def _feed(self, utterance: Utterance, pieces: AsyncIterable[str]) -> None:
        async for piece in pieces:
            if utterance.final:
                return
            await utterance.append(piece)
        await utterance.append("", last=True)

    def _end_all(self, error: VoiceError) -> None:
        self._lost = self._lost or error
        fields = {"type": "error", "code": error.code, "message": str(error), **error.fields}
        for answer in self._cancels.values():
            answer.set_result({})
        self._cancels.clear()
        for utterance in self.utterances.values():
            utterance.deliver(fields, self._clock())
        self.utterances.clear()


def _lost(connection: ClientConnection | ConnectionClosed) -> VoiceError:
    if isinstance(connection, ConnectionClosed):
        close = connection.rcvd
        code, reason = (close.code, close.reason) if close else (1006, "")
    else:
        code, reason = connection.close_code or 1006, connection.close_reason or ""
    return VoiceError(
        "disconnected", f"closed with {code} {reason}".strip(), fields={"close": code}
    )
