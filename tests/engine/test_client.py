"""A thread and a process behind one interface: the same tests pass with both."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from engine import remote as remote_engine
from engine.api import (
    Append,
    Audio,
    Cancel,
    CheckpointError,
    EngineGone,
    Finish,
    Info,
    Open,
    Playback,
)
from engine.client import EngineClient, LocalEngine, Speech
from engine.config import EngineConfig, ModelConfig, SchedulerConfig
from engine.remote import GATHER, RemoteEngine
from engine.server import EngineServer
from engine.wire import Decoder, encode
from tests.waiting import LIMIT, until

CONFIG = EngineConfig(
    model=ModelConfig(checkpoint="silent", slots=4),
    scheduler=SchedulerConfig(load_limit=1e6),  # admits everyone, however slow the machine is
)
TEXT = "A sentence that is spoken for about three seconds."


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take no slow engine for a lost one, but where a test is about that."""
    monkeypatch.setattr(remote_engine, "SILENCE_MEANS_LOST", LIMIT)


@asynccontextmanager
async def local() -> AsyncIterator[EngineClient]:
    client = LocalEngine(CONFIG)
    await client.start()
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def remote(folder: Path) -> AsyncIterator[EngineClient]:
    address = f"unix:{folder}/engine.sock"
    async with asyncio.TaskGroup() as tasks:
        listening = asyncio.Event()
        serving = tasks.create_task(EngineServer(CONFIG, address).serve(listening))
        await listening.wait()
        client = RemoteEngine(address)
        await client.start()
        try:
            yield client
        finally:
            await client.close()
            serving.cancel()


@pytest.fixture(params=["local", "remote"])
async def client(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[EngineClient]:
    async with local() if request.param == "local" else remote(tmp_path) as result:
        yield result


def speak(client: EngineClient, name: str = "u", **options: object) -> Speech:
    options.setdefault("max_lead", None)
    speech = client.open(Open(name, str(options.pop("voice", "tone")), **options))  # type: ignore[arg-type]
    speech.append(TEXT)
    speech.finish()
    return speech


async def listen(speech: Speech) -> bytes:
    async with asyncio.timeout(LIMIT):
        return b"".join([event.pcm async for event in speech if isinstance(event, Audio)])


async def test_engine_says_what_it_speaks(client: EngineClient) -> None:
    assert client.info.model == "silent"
    assert client.info.slots == 4
    assert client.alive


async def test_speech_is_heard_and_ends(client: EngineClient) -> None:
    speech = speak(client)

    pcm = await listen(speech)

    assert len(pcm) > 24_000
    assert speech.ended and speech.ended.reason == "complete"


async def test_speeches_are_independent(client: EngineClient) -> None:
    speeches = [speak(client, "a", seed=1), speak(client, "b", voice="poison"), speak(client, "c")]

    await asyncio.gather(*map(listen, speeches))

    assert [s.ended.detail or s.ended.reason for s in speeches if s.ended] == [
        "complete",
        "generation_failed",
        "complete",
    ]


async def test_cancelled_speech_ends_and_its_slot_is_free(client: EngineClient) -> None:
    speeches = [speak(client, f"u{n}", max_lead=0.5) for n in range(4)]
    for speech in speeches:
        speech.cancel()

    await asyncio.gather(*map(listen, speeches))
    again = speak(client, "again")
    await listen(again)

    assert {speech.ended.reason for speech in speeches if speech.ended} == {"cancelled"}
    assert again.ended and again.ended.reason == "complete"


async def test_refusal_arrives_as_the_end(client: EngineClient) -> None:
    speech = speak(client, voice="nobody")

    assert await listen(speech) == b""
    assert speech.ended and speech.ended.detail == "unsupported_voice"


async def test_heartbeat_tells_the_load(client: EngineClient) -> None:
    await until(lambda: client.load)

    assert client.load and client.load.slots == 4


async def test_closing_ends_what_is_open() -> None:
    async with local() as client:
        speech = speak(client, max_lead=0.5)

    assert [event async for event in speech if isinstance(event, Audio) and event.last] == []
    assert speech.ended and speech.ended.detail == "engine_lost"


async def test_opening_on_a_dead_engine_fails_at_once() -> None:
    async with local() as client:
        pass

    speech = speak(client)

    assert await listen(speech) == b""
    assert speech.ended and speech.ended.detail == "engine_lost"


async def test_checkpoint_that_cannot_be_read_is_named_at_the_start(tmp_path: Path) -> None:
    client = LocalEngine(EngineConfig(model=ModelConfig(checkpoint=str(tmp_path))))

    with pytest.raises(CheckpointError, match=r"config\.json"):
        await client.start()
    await client.close()


def test_info_before_the_start_says_what_to_do() -> None:
    with pytest.raises(EngineGone, match="start"):
        _ = LocalEngine(CONFIG).info


async def test_gateway_that_disconnects_cancels_its_utterances(tmp_path: Path) -> None:
    async with remote(tmp_path) as client:
        for number in range(4):
            client.open(Open(f"u{number}", "tone")).append("A sentence that nobody ends")
        other = RemoteEngine(f"unix:{tmp_path}/engine.sock")
        await other.start()
        await until(lambda: other.load and other.load.utterances == 4)

        await client.close()

        await until(lambda: other.load and other.load.utterances == 0)
        await other.close()


async def test_what_is_said_to_a_lost_engine_is_not_told_to_the_next(tmp_path: Path) -> None:
    async with overheard(tmp_path) as (client, reads):
        client.send(Cancel("told"))
        client._writer, kept = None, client._writer
        client.send(Cancel("to nobody"))
        client._writer = kept
        await until(lambda: reads)

    assert reads == [[Cancel("told")]]


async def test_playback_is_told_in_company_and_older_by_its_wait(tmp_path: Path) -> None:
    async with overheard(tmp_path) as (client, reads):
        for utterance in ("a", "b"):
            client.send(Playback(utterance, 1.0, "playing", 0.02))
        await until(lambda: reads)

    (told,) = reads
    assert [(each.utterance, each.rendered) for each in told] == [("a", 1.0), ("b", 1.0)]
    assert all(each.delay >= 0.02 + GATHER / 4 for each in told)


async def test_commands_of_an_utterance_stay_in_order(tmp_path: Path) -> None:
    async with overheard(tmp_path) as (client, reads):
        client.send(Playback("a", 1.0, "playing", 0.0))
        client.send(Cancel("a"))
        await until(lambda: sum(map(len, reads)) == 2)

    assert [type(each) for told in reads for each in told] == [Playback, Cancel]


async def test_a_text_and_its_end_travel_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[bytes] = []
    write = asyncio.StreamWriter.write

    def keep(writer: asyncio.StreamWriter, piece: bytes) -> None:
        written.append(piece)
        write(writer, piece)

    async with overheard(tmp_path) as (client, reads):
        monkeypatch.setattr(asyncio.StreamWriter, "write", keep)
        speak(client)
        await until(lambda: sum(map(len, reads)) == 3)

    (piece,) = written
    assert [type(each) for each in Decoder().feed(piece)] == [Open, Append, Finish]


@asynccontextmanager
async def overheard(folder: Path) -> AsyncIterator[tuple[RemoteEngine, list[list[Any]]]]:
    """A client of an engine that only listens, and what each of its reads brought."""
    reads: list[list[Any]] = []

    async def listen_only(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(encode(Info("deaf", ("tone",), "tone", (), instructions=False, slots=1)))
        decoder = Decoder()
        while received := await reader.read(1 << 16):
            reads.append(list(decoder.feed(received)))
        writer.close()

    address = f"{folder}/engine.sock"
    async with await asyncio.start_unix_server(listen_only, address):
        client = RemoteEngine(f"unix:{address}")
        await client.start()
        yield client, reads
        await client.close()


@pytest.mark.slow
async def test_a_stall_of_the_gateway_is_no_silence_of_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(remote_engine, "SILENCE_MEANS_LOST", 1.0)
    async with remote(tmp_path) as client:
        await until(lambda: client.load)
        time.sleep(1.2)  # noqa: ASYNC251 - the loop stands still while the engine goes on
        client.load = None
        await until(lambda: client.load)

        assert client.alive
    assert "engine_lost" not in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("way", [signal.SIGKILL, signal.SIGSTOP])
async def test_lost_engine_process_is_noticed_and_found_again(
    way: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"unix:{tmp_path}/engine.sock"
    process = await start_process(address)
    client = RemoteEngine(address)
    await client.start()
    speech = speak(client, max_lead=0.5)
    if way is signal.SIGSTOP:
        monkeypatch.setattr(remote_engine, "SILENCE_MEANS_LOST", 1.0)
        client.load = None
        await until(lambda: client.load)  # from now on it waits no longer

    os.kill(process.pid, way)
    await listen(speech)
    monkeypatch.setattr(remote_engine, "SILENCE_MEANS_LOST", LIMIT)

    assert speech.ended and speech.ended.detail == "engine_lost"
    assert not client.alive
    if way is signal.SIGSTOP:
        process.kill()
    await process.wait()
    process = await start_process(address)
    await until(lambda: client.alive)
    again = speak(client, "again")
    await listen(again)
    assert again.ended and again.ended.reason == "complete"
    await client.close()
    process.kill()
    await process.wait()


async def start_process(address: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "engine", "--listen", address),
        *("--set", "engine.model.checkpoint=silent"),
        stderr=asyncio.subprocess.DEVNULL,
    )
