"""A watched engine leaves two files: a picture of what it did, and what it takes to do it again."""

import asyncio
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.api import Append, ConfigError, Ended, Event, Finish, Open
from engine.client import LocalEngine
from engine.config import EngineConfig, ModelConfig
from engine.simulation.simulation import Simulation
from engine.trace import read_log
from engine.watch import EVERY, PIECES, Watch
from tests.waiting import until

MODEL = ModelConfig(checkpoint="silent", slots=4)
TEXT = "A sentence about Ann, spoken for about three seconds."


async def speak(folder: Path, while_running: Callable[[], object] = lambda: True) -> list[Event]:
    client = LocalEngine(EngineConfig(model=MODEL, trace=str(folder)))
    await client.start()
    try:
        speech = client.open(Open("u", "tone", max_lead=None))
        speech.append(TEXT)
        speech.finish()
        events: list[Event] = [event async for event in speech]
        await until(while_running)
    finally:
        await client.close()
    assert speech.ended
    return [*events, speech.ended]


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


async def test_files_are_there_when_the_engine_has_ended(tmp_path: Path) -> None:
    await speak(tmp_path / "trace")

    chrome = json.loads((tmp_path / "trace" / "trace.json").read_text())
    names = {each["args"]["name"] for each in chrome["traceEvents"] if each["ph"] == "M"}
    assert {"device", "talker", "u"} <= names
    assert not any(name.startswith("warm-up") for name in names)
    assert files(tmp_path / "trace") == {"trace.json", "commands.jsonl"}


async def test_files_are_there_once_the_engine_idles(tmp_path: Path) -> None:
    await speak(tmp_path, while_running=lambda: "commands.jsonl" in files(tmp_path))

    assert files(tmp_path) == {"trace.json", "commands.jsonl"}


@pytest.mark.slow
async def test_process_that_is_told_to_end_leaves_its_files(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/engine.sock"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "engine", "--listen", address),
        *("--set", "engine.model.checkpoint=silent", "--set", f"engine.trace={tmp_path}/trace"),
        stderr=asyncio.subprocess.DEVNULL,
    )
    await until(lambda: "engine.sock" in files(tmp_path))

    process.terminate()
    status = await process.wait()

    assert status == 0
    assert files(tmp_path / "trace") == {"trace.json", "commands.jsonl"}


async def test_recorded_commands_speak_as_long_in_the_simulator(tmp_path: Path) -> None:
    events = await speak(tmp_path)

    log = read_log(tmp_path / "commands.jsonl")
    report = Simulation([], EngineConfig(model=MODEL)).replay(log)

    assert "Ann" not in (tmp_path / "commands.jsonl").read_text()
    assert [type(command) for _, command in log] == [Open, Append, Finish]
    assert isinstance(events[-1], Ended)
    assert report.replies[0].made == pytest.approx(events[-1].generated / 24_000)


async def test_without_a_folder_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    client = LocalEngine(EngineConfig(model=MODEL))
    await client.start()
    await client.close()

    assert not files(tmp_path)


async def test_folder_that_cannot_be_made_is_named_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    client = LocalEngine(EngineConfig(model=MODEL, trace=str(tmp_path / "file" / "trace")))

    with pytest.raises(ConfigError, match=r"`engine\.trace`"):
        await client.start()
    await client.close()


def test_files_are_written_a_little_at_a_time_and_not_too_often(tmp_path: Path) -> None:
    watch = Watch(tmp_path)
    for number in range(2 * PIECES):
        watch.command(Open(f"u{number}", "tone"), 1.0)

    calls = 1
    while watch.write_some(2.0):
        calls += 1
    watch.command(Finish("u0"), 3.0)

    assert 4 < calls < 12  # three pieces for each utterance, and a few around them
    assert len(read_log(tmp_path / "commands.jsonl")) == 2 * PIECES
    assert not watch.write_some(2.0 + EVERY / 2)
    assert watch.write_some(2.0 + EVERY)


def test_nothing_new_is_nothing_to_write(tmp_path: Path) -> None:
    watch = Watch(tmp_path)
    watch.command(Open("warm-up", "tone"), 1.0)
    watch.clear()

    assert not watch.write_some(2.0)


def test_disk_that_cannot_be_written_is_told_and_harms_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    watch = Watch(tmp_path)
    (tmp_path / "trace.json.part").mkdir()
    watch.command(Open("u", "tone"), 1.0)

    with caplog.at_level(logging.WARNING):
        while watch.write_some(2.0):
            pass
        watch.write()

    assert "trace_not_written" in caplog.text
