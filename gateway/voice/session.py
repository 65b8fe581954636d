"""One `voice.v1` WebSocket: a reader, a writer, a watch and a task per utterance, ended together.

The reader obeys, the writer alone writes, the watch ends what takes too long. Whatever ends first
ends the session, and everything it opened is cancelled in the same turn of the loop.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from contextlib import suppress

from aiohttp import ClientConnectionResetError, WSMsgType, web

from gateway.protocol import ProtocolError, messages
from gateway.voice.conversation import Conversation
from gateway.voice.house import House
from gateway.voice.outbox import End, Item, Outbox, Ping, Pong, Sound
from gateway.voice.sound_flow import SoundFlow

logger = logging.getLogger(__name__)

CLOSE_SECONDS = 1.0  # s for the closing handshake, then the connection is reset
TICK = 1.0  # s between looks of the watch, at most
AGE_NOTICE = 60.0  # s between `bye` and the end of a session that has lived its time
UNRECEIVED = 3.0  # s of sound under way without a sign of arrival: a ping asks for one
HIGH_WATER = 32_768  # bytes in the transport before the writer waits
LEFT = End(1006, "left", left=True)  # there was no closing handshake: 1006 is never on the wire


class Session:
    """Runs one prepared WebSocket to its end."""

    def __init__(
        self, socket: web.WebSocketResponse, transport: asyncio.Transport, house: House, key: str
    ) -> None:
        """`key` says whose session it is, for fairness between clients."""
        self.id = secrets.token_hex(6)
        self.key = key
        self._socket = socket
        self._transport = transport
        self._house = house
        self._outbox = Outbox()
        self._ending: asyncio.Future[End] = asyncio.get_running_loop().create_future()
        self._born = self._message_at = self._alive_at = time.monotonic()
        self._conversation: Conversation | None = None
        self._pings: dict[bytes, list[tuple[SoundFlow, int]]] = {}
        self._farewell = False  # `bye` was sent
        self._over = asyncio.Event()

    async def run(self, *, authorised: bool) -> None:
        """Serve until either side ends it; leaves nothing behind."""
        self._transport.set_write_buffer_limits(high=HIGH_WATER)
        self._house.sessions.add(self)
        try:
            async with asyncio.TaskGroup() as group:
                await self._serve(group, authorised)
        except* Exception:
            logger.exception("broke session=%s", self.id)
            self._release()
            await self._write_end(
                End(1011, "internal", ProtocolError("internal", "the server made a mistake"))
            )
        finally:
            self._house.sessions.discard(self)
            self._over.set()
            self._release()
            self._log_end()

    def _log_end(self) -> None:
        known = self._ending.done() and not self._ending.cancelled()
        end = self._ending.result() if known else LEFT
        age = time.monotonic() - self._born
        logger.info(
            "ended session=%s code=%d reason=%s age=%.1f", self.id, end.code, end.reason, age
        )

    def _release(self) -> None:
        conversation, self._conversation = self._conversation, None
        if conversation:
            conversation.stop()

    def end(self, end: End) -> None:
        """Ask the session to end; the first reason given stands."""
        if not self._ending.done():
            self._ending.set_result(end)

    async def drain(self, limit: float) -> None:
        """Let open utterances end, at most `limit` seconds, then close with 1001."""
        end = End(1001, "shutdown")
        if self._conversation and self._conversation.speaking:
            self._outbox.put(messages.bye("shutdown", limit))
            self._conversation.leave(end)
            await asyncio.wait([self._ending], timeout=limit)
        self.end(end)
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS + 0.4):
                await self._over.wait()

    async def _serve(self, group: asyncio.TaskGroup, authorised: bool) -> None:
        conversation = self._conversation = Conversation(
            self._house,
            self._outbox,
            session=self.id,
            key=self.key,
            authorised=authorised,
            end=self.end,
            spawn=group.create_task,
        )
        reader = group.create_task(self._read(conversation))
        writer = group.create_task(self._write())
        watch = group.create_task(self._watch(conversation))
        end = await self._ending
        conversation.stop()
        watch.cancel()
        reader.cancel()
        await asyncio.gather(reader, watch, return_exceptions=True)  # else they keep their frames
        self._outbox.put(end)
        await asyncio.wait([writer], timeout=0 if end.abort else CLOSE_SECONDS + 0.2)
        if not writer.done():  # it waits for a peer that does not read
            writer.cancel()
            self._transport.abort()

    # ------------------------------------------------------------------ in

    async def _read(self, conversation: Conversation) -> None:
        try:
            async with asyncio.timeout(self._house.config.hello_timeout):
                while not (conversation.greeted or self._ending.done()):
                    await self._receive(conversation)
        except TimeoutError:
            problem = ProtocolError("timeout", "no `hello` came in time")
            self.end(End(4408, "timeout", problem))
        while not self._ending.done():
            await self._receive(conversation)

    async def _receive(self, conversation: Conversation) -> None:
        message = await self._socket.receive()
        now = self._alive_at = time.monotonic()
        if message.type is WSMsgType.TEXT:
            self._message_at = now
            conversation.hear(message.data, now)
        elif message.type is WSMsgType.PING:
            self._outbox.put_pong(message.data)
        elif message.type is WSMsgType.PONG:
            self._ponged(bytes(message.data))
        elif message.type is WSMsgType.BINARY:
            text = "want JSON text messages, got a binary one"
            self.end(End(1003, "invalid_message", ProtocolError("invalid_message", text)))
        else:
            self.end(End(self._socket.close_code or LEFT.code, "left", left=True))

    # ------------------------------------------------------------------ out

    async def _write(self) -> None:
        """Send what waits, in order, until the end has been sent."""
        limit = self._house.config.slow_client
        while True:
            item = await self._outbox.take()
            if isinstance(item, End):
                await self._write_end(item)
                return
            try:
                async with asyncio.timeout(limit):
                    await self._send(item)
            except TimeoutError:
                self.end(_slow(f"nothing could be sent for {limit:g} s", abort=True))
            except (ClientConnectionResetError, ConnectionError):
                self.end(LEFT)

    async def _send(self, item: Item) -> None:
        socket = self._socket
        match item:
            case Sound(carrier, chunk):
                now = time.monotonic()
                carrier.carried(chunk, now)
                await socket.send_bytes(chunk.pack(int(now * 1000)))
            case Ping(payload):
                await socket.ping(payload)
            case Pong():
                payload, self._outbox.pong = self._outbox.pong or b"", None
                await socket.pong(payload)
            case str():
                await socket.send_str(item)

    async def _write_end(self, end: End) -> None:
        """Say the last words and close; reset the connection if that does not go through."""
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                if end.problem and not end.abort and not end.left:
                    await self._socket.send_str(messages.error(end.problem, fatal=True))
                if not end.abort and not end.left:
                    await self._socket.close(code=end.code, message=end.reason.encode()[:123])
        except (TimeoutError, ClientConnectionResetError, ConnectionError):
            logger.info("reset session=%s", self.id)
        if end.abort or self._transport.get_write_buffer_size() or not self._socket.closed:
            self._transport.abort()

    # ------------------------------------------------------------------ watch

    async def _watch(self, conversation: Conversation) -> None:
        """Look after everything that depends on time passing."""
        config = self._house.config
        tick = min(TICK, config.slow_client / 4, config.idle / 4, config.pause_limit / 4)
        while True:
            await asyncio.sleep(tick)
            now = time.monotonic()
            conversation.give_up_paused(now)
            self._watch_age(now)
            if not conversation.speaking and now - self._message_at > config.idle:
                problem = ProtocolError("timeout", f"nothing was asked for {config.idle:g} s")
                self.end(End(4408, "timeout", problem))
            self._watch_peer(conversation, now)

    def _watch_age(self, now: float) -> None:
        age, limit = now - self._born, self._house.config.age
        notice = min(AGE_NOTICE, limit / 2)
        if age > limit:
            self.end(End(1001, "age"))
        elif age > limit - notice and not self._farewell:
            self._farewell = True
            self._outbox.put(messages.bye("age", notice))

    def _watch_peer(self, conversation: Conversation, now: float) -> None:
        """With sound outstanding, the peer must show life; a pong also proves what arrived."""
        outstanding = [each for each in conversation.sounding if each.unheard(now) > 0]
        silent, limit = now - self._alive_at, self._house.config.slow_client
        if not outstanding:
            return
        if silent > limit:
            self.end(_slow(f"no sign of life for {limit:g} s", abort=False))
        elif silent > limit / 3 or any(each.unreceived > UNRECEIVED for each in outstanding):
            self._ping(outstanding)

    def _ping(self, outstanding: list[SoundFlow]) -> None:
        payload = secrets.token_bytes(4)
        if len(self._pings) < 8:
            self._pings[payload] = [(each, each.listener.last_seq) for each in outstanding]
        self._outbox.put(Ping(payload))

    def _ponged(self, payload: bytes) -> None:
        """What was sent before that ping has arrived; earlier pings need no answer of their own."""
        while payload in self._pings:
            for sound, seq in self._pings.pop(next(iter(self._pings))):
                sound.arrived(seq)


def _slow(message: str, *, abort: bool) -> End:
    return End(4412, "slow_client", ProtocolError("slow_client", message), abort)
