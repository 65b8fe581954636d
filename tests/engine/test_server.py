"""The engine process's address: nobody's but its own, and never a file's."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from engine.api import ConfigError
from engine.config import EngineConfig, ModelConfig
from engine.server import EngineServer

CONFIG = EngineConfig(model=ModelConfig(checkpoint="silent"))


async def test_a_second_engine_does_not_take_the_first_one_s_address(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/engine"
    listening = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(EngineServer(CONFIG, address).serve(listening))
        await listening.wait()

        with pytest.raises(ConfigError, match="another serves at unix:"):
            await EngineServer(CONFIG, address).serve()
        first.cancel()


async def test_the_socket_of_a_dead_engine_is_taken_over(tmp_path: Path) -> None:
    dead = await asyncio.start_unix_server(lambda reader, writer: None, tmp_path / "engine")
    dead.close()
    listening = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(
            EngineServer(CONFIG, f"unix:{tmp_path}/engine").serve(listening)
        )
        await listening.wait()
        serving.cancel()


async def test_an_address_never_costs_a_file(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("precious")

    with pytest.raises(ConfigError, match="in use"):
        await EngineServer(CONFIG, f"unix:{path}").serve()

    assert path.read_text() == "precious"


async def test_an_address_that_cannot_be_is_named(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/nowhere/engine"

    with pytest.raises(ConfigError, match=f"cannot listen on {address}: No such file"):
        await EngineServer(CONFIG, address).serve()
