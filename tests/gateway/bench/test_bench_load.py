"""Load in virtual time: an open loop never waits for the server, a closed loop always does."""

from __future__ import annotations

import asyncio
import heapq
import itertools

import pytest

from gateway.bench.arrivals import Habits, Plan, poisson
from gateway.bench.listening import Clock
from gateway.bench.load import Loader
from gateway.bench.take import Reply, Take
from gateway.bench.target import Load, Order, Target


class VirtualTime:
    """Sleepers wake in the order of their moments; nothing waits really."""

    def __init__(self, *, late: float = 0.0) -> None:
        self.now = 100.0
        self._late = late
        self._sleepers: list[tuple[float, int, asyncio.Event]] = []
        self._ties = itertools.count()

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        awake = asyncio.Event()
        heapq.heappush(self._sleepers, (self.now + seconds, next(self._ties), awake))
        await awake.wait()

    async def drive(self, running: asyncio.Task[None]) -> None:
        """Wake one after the other until the task ends."""
        while not running.done():
            for _ in range(20):
                await asyncio.sleep(0)
            if self._sleepers:
                at, _, awake = heapq.heappop(self._sleepers)
                self.now = max(self.now, at + self._late)
                awake.set()


class FakeListener:
    """Takes `seconds` for each reply; counts what it does at once."""

    def __init__(self, time: VirtualTime, seconds: float, log: list[tuple[float, str]]) -> None:
        self._time = time
        self._seconds = seconds
        self._log = log

    async def speak(self, text: str, plan: Plan) -> Take:
        self._log.append((self._time.now, text))
        take = Take(Habits(), now=self._time.now)
        await self._time.sleep(self._seconds)
        take.finish(self._time.now, "complete")
        return take

    async def close(self) -> None:
        self._log.append((self._time.now, "closed"))


async def loaded(
    load: Load, *, seconds: float, late: float = 0.0
) -> tuple[list[Reply], list[tuple[float, str]]]:
    """Run a load whose replies take `seconds`, with timers `late`."""
    time = VirtualTime(late=late)
    replies: list[Reply] = []
    log: list[tuple[float, str]] = []

    def new_listener(order: Order, clock: Clock) -> FakeListener:
        return FakeListener(time, seconds, log)

    loader = Loader(
        Order(target=Target(url=""), load=load, habits=Habits()),
        [f"text {number}" for number in range(50)],
        emit=replies.append,
        clock=time.clock,
        sleep=time.sleep,
        new_listener=new_listener,
    )
    await time.drive(running := asyncio.ensure_future(loader.run(100.0)))
    running.result()
    return replies, log


async def test_open_loop_asks_when_it_is_due_however_slow_the_server() -> None:
    load = Load(rate=2.0, warmup=0.0, duration=10.0, seed=1)

    replies, log = await loaded(load, seconds=50.0)

    due = [arrival.due for arrival in poisson(2.0, until=10.0, seed=1)]
    asked = [at - 100.0 for at, what in log if what != "closed"]
    assert asked == pytest.approx(due)
    assert sorted(reply.number for reply in replies) == list(range(len(due)))


async def test_lateness_of_the_load_generator_is_reported() -> None:
    load = Load(rate=2.0, warmup=0.0, duration=10.0, seed=1)

    replies, _ = await loaded(load, seconds=0.0, late=0.007)

    assert min(reply.lag for reply in replies if reply.lag is not None) >= 0.0069


async def test_processes_share_one_schedule() -> None:
    shares = [
        await loaded(
            Load(rate=3.0, warmup=0.0, duration=10.0, seed=4, processes=2, process=process),
            seconds=0.1,
        )
        for process in (0, 1)
    ]

    numbers = sorted(reply.number for replies, _ in shares for reply in replies)
    assert numbers == list(range(len(list(poisson(3.0, until=10.0, seed=4)))))


async def test_listener_of_a_closed_loop_asks_again_when_it_has_heard_and_thought() -> None:
    load = Load(listeners=1, think=0.5, warmup=0.0, duration=5.0)

    replies, log = await loaded(load, seconds=1.0)

    assert [at for at, what in log if what != "closed"] == [100.0, 101.5, 103.0, 104.5]
    assert [reply.lag for reply in replies] == [None] * 4
    assert log[-1] == (106.0, "closed")


async def test_listeners_of_a_closed_loop_come_one_after_the_other() -> None:
    load = Load(listeners=4, warmup=8.0, duration=0.0)

    _, log = await loaded(load, seconds=100.0)

    assert [at for at, what in log if what != "closed"] == [100.0, 101.0, 102.0, 103.0]


async def test_listeners_say_different_texts() -> None:
    load = Load(listeners=5, warmup=0.0, duration=9.0)

    _, log = await loaded(load, seconds=1.0)

    texts = [what for _, what in log if what != "closed"]
    assert len(set(texts)) == len(texts) == 45
