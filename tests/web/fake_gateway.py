"""A scripted gateway: serves the page and speaks just enough voice.v1, with faults on request."""

from __future__ import annotations

import asyncio
import json
import re
import struct
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from aiohttp import WSMsgType, web

from tests.waiting import until
from tests.web.sounds import PACKET, PRE_SKIP, RATE, Samples, opus_packets

WEB = Path(__file__).resolve().parents[2] / "web"
CSP = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; "
    "connect-src 'self'; style-src 'self'; img-src 'self' data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'self'"
)
BARE = "<!doctype html><title>bare</title><link rel=icon href=data:,>"
FIRST, LAST = 1, 2
LADDER = (4, 8, 16, 32, 48)  # packets per chunk
WHOLE = (10_000,)  # one chunk: what has begun cannot stall. PCM, or Opus of less than a second
LIMIT = 60.0  # s that anything may take: ends a test that hangs, says nothing about speed


@dataclass
class Script:
    """How the next utterances are spoken."""

    seconds: float = 1.2
    pcm: Samples | None = None  # spoken as PCM at 48 kHz; None: Opus
    ladder: tuple[int, ...] = LADDER  # 20 ms units per chunk; the last one repeats
    rate: float = 0.2  # seconds it takes to make one second of sound
    first: float = 0.02  # s from `say` to the first chunk
    gates: dict[int, asyncio.Event] = field(default_factory=dict)  # chunk `seq` waits for its event
    lags: dict[int, float] = field(default_factory=dict)  # s that chunk `seq` is under way
    replaced: dict[int, bytes] = field(default_factory=dict)  # packets in place of the true ones
    seed: int = 1
    cut_after: int | None = None  # drop the connection once this chunk is acked
    fail_after: int | None = None  # `error generation_failed` after this chunk


@dataclass
class Spoken:
    """One utterance as it went over the wire."""

    id: str
    n: int
    text: str = ""
    complete: bool = False
    packets: list[bytes] = field(default_factory=list)
    ticks: int = 0
    sent_at: list[float] = field(default_factory=list)
    task: asyncio.Task[None] | None = None


class FakeGateway:
    """State of the server, open to the test."""

    def __init__(self) -> None:
        self.script = Script()
        self.url = ""
        self.messages: list[dict[str, Any]] = []  # everything clients sent, with `at`
        self.spoken: dict[str, Spoken] = {}  # the latest utterance of each id
        self.sockets: set[web.WebSocketResponse] = set()
        self.refuse: int | None = None  # close code of every new session
        self.codecs = ("opus", "pcm_s16le")

    def received(self, kind: str) -> list[dict[str, Any]]:
        """Client messages of one type."""
        return [message for message in self.messages if message["type"] == kind]

    async def receives(
        self, kind: str, suits: Callable[[dict[str, Any]], bool]
    ) -> list[dict[str, Any]]:
        """Wait until clients have sent a message of one type that suits; returns all of them."""
        await until(lambda: any(map(suits, self.received(kind))), within=LIMIT)
        return list(filter(suits, self.received(kind)))

    def app(self) -> web.Application:
        """The routes of a gateway that a page needs."""
        app = web.Application()
        app.router.add_get("/v1/voice", self._session)
        app.router.add_get("/v1/audio/voices", self._voices)
        app.router.add_get("/bare", self._bare)
        app.router.add_get("/ended", self._ended)
        app.router.add_get("/{name:session.js|decoder.js|opus.js}", self._patient)
        app.router.add_get("/", self._index)
        app.router.add_static("/", WEB)
        app.on_response_prepare.append(_secure)
        return app

    async def _index(self, request: web.Request) -> web.StreamResponse:
        return web.FileResponse(WEB / "index.html")

    async def _bare(self, request: web.Request) -> web.Response:
        return web.Response(text=BARE, content_type="text/html")

    async def _ended(self, request: web.Request) -> web.Response:
        """Answer when a listener has heard an utterance to its end."""
        await self.receives("ack", lambda ack: ack["state"] == "ended")
        return web.Response()

    async def _patient(self, request: web.Request) -> web.Response:
        """Serve a module whose timeouts a busy machine cannot trip."""
        source = (WEB / request.match_info["name"]).read_text()
        source, found = re.subn(r"(?m)^(const \w*TIMEOUT) = \d+;", r"\1 = 60_000;", source)
        assert found, "a module of this route has timeouts"
        return web.Response(text=source, content_type="text/javascript")

    async def _voices(self, request: web.Request) -> web.Response:
        voices = [{"id": "ada", "name": "Ada"}, {"id": "ben", "name": "Ben"}]
        return web.json_response({"voices": voices})

    async def _session(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=("voice.v1",), compress=False)
        await socket.prepare(request)
        self.sockets.add(socket)
        try:
            if self.refuse is not None:
                refusal = {"code": "unauthorized", "message": "no token", "fatal": True}
                await socket.send_json({"type": "error", **refusal})
                await socket.close(code=self.refuse, message=b"unauthorized")
            await _Session(self, socket).serve()
        finally:
            self.sockets.discard(socket)
        return socket


class _Session:
    def __init__(self, gateway: FakeGateway, socket: web.WebSocketResponse) -> None:
        self.gateway = gateway
        self.socket = socket
        self.count = 0
        self.open: dict[str, Spoken] = {}

    async def serve(self) -> None:
        try:
            async for message in self.socket:
                if message.type == WSMsgType.TEXT:
                    data = json.loads(message.data)
                    self.gateway.messages.append({**data, "at": time.monotonic()})
                    answer = getattr(self, f"_{data['type']}", None)
                    if answer:
                        await answer(data)
        finally:
            for spoken in self.open.values():
                if spoken.task:
                    spoken.task.cancel()

    async def _hello(self, message: dict[str, Any]) -> None:
        offered = message["audio"]["codecs"]
        codec = next(name for name in offered if name in self.gateway.codecs)
        audio = {"codec": codec, "sample_rate": RATE, "channels": 1, "packet_ms": 20}
        await self._send(
            type="hello",
            session="s1",
            protocol="voice.v1",
            server="fake/1",
            model="hum",
            audio={**audio, "pre_skip": PRE_SKIP, "bitrate": 32_000},
            ack={"interval_ms": 100, "max_per_s": 20},
            limits={},
            voices=["ada", "ben"],
            features=[],
        )

    async def _ping(self, message: dict[str, Any]) -> None:
        await self._send(type="pong", id=message["id"], t_ms=message["t_ms"], server_ms=0)

    async def _say(self, message: dict[str, Any]) -> None:
        self.count += 1
        spoken = Spoken(message["utterance"], self.count)
        self.open[spoken.id] = self.gateway.spoken[spoken.id] = spoken
        await self._text(message)

    async def _text(self, message: dict[str, Any]) -> None:
        spoken = self.open.get(message["utterance"])
        if spoken is None:
            return
        spoken.text += message["text"]
        if message["last"]:
            spoken.task = asyncio.create_task(self._speak(spoken, self.gateway.script))

    async def _cancel(self, message: dict[str, Any]) -> None:
        spoken = self.gateway.spoken[message["utterance"]]
        total = max(spoken.ticks, self.gateway.script.seconds * RATE)
        text_to = round(min(1.0, message["played_ms"] * 48 / total) * len(spoken.text))
        heard = {
            "audio_ms": message["played_ms"],
            "source": "client",
            "uncertainty_ms": 20,
            "text_to": text_to,
            "text": spoken.text[:text_to],
            "text_method": "proportional",
        }
        if self.open.pop(spoken.id, None) is None:
            await self._error("utterance_closed", spoken.id, heard=heard)
            return
        if spoken.task:
            spoken.task.cancel()
        await self._send(
            type="cancelled",
            utterance=spoken.id,
            n=spoken.n,
            last_seq=len(spoken.sent_at) - 1,
            sent_ms=spoken.ticks / 48,
            generated_ms=spoken.ticks / 48,
            heard=heard,
        )

    async def _speak(self, spoken: Spoken, script: Script) -> None:
        """Send an utterance in the script's time."""
        begun = time.monotonic()
        units, total = _units(script)
        await self._send(type="started", utterance=spoken.id, n=spoken.n, queue_ms=0)
        await self._marks(spoken, total)
        due, position, seq = begun + script.first, 0, 0
        while position < len(units):
            count = script.ladder[min(seq, len(script.ladder) - 1)]
            part = units[position : position + count]
            if seq in script.gates:
                await script.gates[seq].wait()
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            last = position + count >= len(units)
            await self._chunk(spoken, script, part, position, seq=seq, total=total, last=last)
            if script.cut_after == seq:
                await self._acked(spoken, seq)
                assert self.socket._req is not None and self.socket._req.transport is not None
                self.socket._req.transport.abort()
                return
            if script.fail_after == seq:
                self.open.pop(spoken.id, None)
                await self._error("generation_failed", spoken.id)
                return
            position, seq = position + count, seq + 1
            due += script.rate * 0.02 * count
        spoken.complete = True
        self.open.pop(spoken.id, None)
        await self._send(
            type="done",
            utterance=spoken.id,
            n=spoken.n,
            reason="complete",
            audio_ms=total / 48,
            last_seq=seq - 1,
            text_to=len(spoken.text),
            first_audio_ms=round(1000 * script.first),
        )

    async def _acked(self, spoken: Spoken, seq: int) -> None:
        """Wait until the client has said that chunk `seq` came."""
        await self.gateway.receives("ack", lambda ack: ack["n"] == spoken.n and ack["seq"] >= seq)

    async def _chunk(
        self,
        spoken: Spoken,
        script: Script,
        part: list[bytes],
        position: int,
        *,
        seq: int,
        total: int,
        last: bool,
    ) -> None:
        opus = script.pcm is None
        spoken.packets += part
        if opus:
            part = [script.replaced.get(position + i, packet) for i, packet in enumerate(part)]
        skip = PRE_SKIP if opus else 0
        start = max(0, position * PACKET - skip)
        end = total if last else (position + len(part)) * PACKET - skip
        flags = (FIRST if seq == 0 else 0) | (LAST if last else 0)
        spoken.ticks = end
        now = round(time.monotonic() * 1000) & 0xFFFF_FFFF
        count = len(part) if opus else 1
        place = (spoken.n, count, seq, start, end - start, now)
        header = struct.pack("<BBHHHIIII", 0x11, int(opus), flags, *place)
        table = struct.pack(f"<{len(part)}H", *map(len, part)) if opus else b""
        spoken.sent_at.append(time.monotonic())
        await asyncio.sleep(script.lags.get(seq, 0.0))
        if not self.socket.closed:
            await self.socket.send_bytes(header + table + b"".join(part))

    async def _marks(self, spoken: Spoken, total: int) -> None:
        items, at = [], 0
        each = total / 48 / max(1, len(spoken.text))
        for word in spoken.text.split(" "):
            end = at + len(word)
            times = {"start_ms": at * each, "end_ms": end * each}
            items.append({"kind": "word", "from": at, "to": end, **times})
            at = end + 1
        await self._send(
            type="marks", utterance=spoken.id, n=spoken.n, items=items, method="proportional"
        )

    async def _error(self, code: str, utterance: str, **more: Any) -> None:
        await self._send(
            type="error", code=code, message=code, fatal=False, utterance=utterance, **more
        )

    async def _send(self, **message: Any) -> None:
        if not self.socket.closed:
            await self.socket.send_json(message)


def _units(script: Script) -> tuple[list[bytes], int]:
    """The sound in units of 20 ms, and its audible length in ticks."""
    if script.pcm is None:
        packets = opus_packets(script.seconds, seed=script.seed)
        return packets, round(script.seconds * RATE)
    raw = np.round(script.pcm * 32_768).astype("<i2").tobytes()
    return [raw[at : at + 2 * PACKET] for at in range(0, len(raw), 2 * PACKET)], len(script.pcm)


async def _secure(request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Content-Security-Policy"] = CSP
    if request.path.endswith(".js"):
        response.headers["Content-Type"] = "text/javascript; charset=utf-8"


@asynccontextmanager
async def serving() -> AsyncIterator[FakeGateway]:
    """Run a fake gateway on a free port of this machine."""
    gateway = FakeGateway()
    runner = web.AppRunner(gateway.app(), shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
    gateway.url = f"http://localhost:{port}"
    try:
        yield gateway
    finally:
        for socket in list(gateway.sockets):
            await socket.close()
        await runner.cleanup()
