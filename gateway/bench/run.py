"""One run: load processes, a network between them and the server, an eye on the server, a result.

Load is never made in the process that draws and stores.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from engine.api import EngineError
from gateway.bench.figures import Conditions, Summary, summarize
from gateway.bench.server_watch import SETTLE, Server, ServerWatch, processes_on
from gateway.bench.take import Reply
from gateway.bench.target import Load, Order

FORMAT = "playhead-bench/1"
HEAD_START = 0.5  # s from the last process being ready to the start
STOP_LIMIT = 5.0  # s for a process to end
Progress = Callable[[float, list[Reply]], None]


class BenchError(EngineError):
    """A run could not be made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """What the hardware costs."""

    gpus: int = 1
    dollars_per_hour: float | None = None
    duty: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What was asked for and what came of it."""

    order: Order
    network: str
    replies: list[Reply]  # measured ones
    summary: Summary
    server: Server

    def fields(self) -> dict[str, Any]:
        """For JSON; without the token."""
        return {
            "format": FORMAT,
            "order": {**self.order.fields(), "target": self.order.target.public()},
            "network": self.network,
            "summary": self.summary.fields(),
            "server": self.server.fields(),
            "replies": [reply.fields() for reply in self.replies],
        }


async def run(
    order: Order, *, network: str, money: Money, progress: Progress, pid: int | None = None
) -> Run:
    """Make one run.

    Args:
        order: for all processes together.
        network: a name of PROFILES.
        progress: called as replies come, with the seconds since the start.
        pid: of the server; None: all that listen on its port here.

    Raises: BenchError if a load process fails.
    """
    pids = [pid] if pid else processes_on(order.target.url)
    watch = ServerWatch(order.target.url, pids)
    watch.sample()
    replies: list[Reply] = []
    async with _through(network, order) as sent, _processes(sent) as processes:
        start = time.monotonic() + HEAD_START
        for process in processes:
            _write(process, str(start))
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(watch.run())
            ticking = group.create_task(_tick(progress, start, replies))
            lags = await asyncio.gather(*(_read(process, replies) for process in processes))
            ticking.cancel()
            watching.cancel()
    load = order.load
    if load.soak:
        await asyncio.sleep(SETTLE)
    watch.sample()
    measured = sorted(
        (reply for reply in replies if load.warmup <= reply.due < load.until),
        key=lambda reply: reply.number,
    )
    conditions = Conditions(duration=load.duration, loop_lag=max(lags), **dataclasses.asdict(money))
    return Run(
        order=order,
        network=network,
        replies=measured,
        summary=summarize(measured, conditions),
        server=watch.seen(start + load.warmup, start + load.until),
    )


async def _tick(progress: Progress, start: float, replies: list[Reply]) -> None:
    while True:
        progress(max(0.0, time.monotonic() - start), replies)
        await asyncio.sleep(0.2)


async def _read(process: asyncio.subprocess.Process, replies: list[Reply]) -> float:
    """Collect one process's replies; its loop's lag at the end."""
    assert process.stdout
    async for line in process.stdout:
        fields = json.loads(line)
        if "reply" in fields:
            replies.append(Reply.read(fields["reply"]))
        elif "end" in fields:
            return float(fields["loop_lag"])
    raise BenchError(f"bench: a load process ended early: {await _ended(process)}")


async def _ended(process: asyncio.subprocess.Process) -> str:
    assert process.stderr
    said = (await process.stderr.read()).decode(errors="replace").strip()
    return said.rpartition("\n")[2] or f"status {await process.wait()}"


@asynccontextmanager
async def _processes(order: Order) -> AsyncIterator[list[asyncio.subprocess.Process]]:
    """The load processes, each ready to start; gone at the end, whatever happens."""
    count = order.load.processes
    started = [await _started(_share(order, number)) for number in range(count)]
    try:
        for process in started:
            assert process.stdout
            if not await process.stdout.readline():
                raise BenchError(f"bench: a load process did not start: {await _ended(process)}")
        yield started
    finally:
        for process in started:
            await _stop(process)


def _share(order: Order, number: int) -> Order:
    load: Load = dataclasses.replace(order.load, process=number)
    return dataclasses.replace(order, load=load)


async def _started(order: Order) -> asyncio.subprocess.Process:
    process = await _python("gateway.bench.worker")
    _write(process, json.dumps(order.fields()))
    return process


@asynccontextmanager
async def _through(network: str, order: Order) -> AsyncIterator[Order]:
    """The order with the address of a bad network in front of the server, unless it is a good one.

    The proxy is a process of its own, so that its work is not the load's lag.
    """
    if network == "loopback":
        yield order
        return
    parts = urlsplit(order.target.url)
    place = f"{parts.hostname}:{parts.port or 80}"
    process = await _python("gateway.bench.proxy", "--to", place, "--network", network)
    try:
        assert process.stdout
        address = (await process.stdout.readline()).decode().strip()
        if not address:
            raise BenchError(f"bench: the network did not start: {await _ended(process)}")
        target = dataclasses.replace(order.target, url=address + parts.path)
        yield dataclasses.replace(order, target=target)
    finally:
        await _stop(process)


async def _python(*arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=2**20,
    )


def _write(process: asyncio.subprocess.Process, line: str) -> None:
    assert process.stdin
    process.stdin.write(line.encode() + b"\n")


async def _stop(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(STOP_LIMIT):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
