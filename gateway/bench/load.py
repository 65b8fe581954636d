"""Makes one process's share of the load, open loop or closed loop.

An open loop asks when it is due, however the server does; in a closed loop a fixed number of
listeners ask again when they have heard.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from gateway.bench.arrivals import Plan, plan, poisson, text_for
from gateway.bench.http_speech import HttpListener
from gateway.bench.listening import Clock
from gateway.bench.take import Reply, Take
from gateway.bench.target import Order
from gateway.bench.voice_speech import VoiceListener

RETRY = 0.25  # s a listener of a closed loop waits after a refusal, so as not to hammer
RAMP = 0.5  # share of the warm-up over which the listeners of a closed loop come
Emit = Callable[[Reply], None]
Sleep = Callable[[float], Awaitable[None]]


class Listener(Protocol):
    """One client of either transport."""

    async def speak(self, text: str, plan: Plan) -> Take:
        """One reply, listened to as planned; failures are in the take."""

    async def close(self) -> None:
        """Leave."""


def listener(order: Order, clock: Clock) -> Listener:
    """A client of the transport that is asked for."""
    kind = VoiceListener if order.target.transport == "voice" else HttpListener
    return kind(order.target, order.habits, clock=clock)


class Loader:
    """One process's share of a run."""

    def __init__(
        self,
        order: Order,
        texts: list[str],
        *,
        emit: Emit,
        clock: Clock,
        sleep: Sleep = asyncio.sleep,
        new_listener: Callable[[Order, Clock], Listener] = listener,
    ) -> None:
        self._order = order
        self._texts = texts
        self._emit = emit
        self._clock = clock
        self._sleep = sleep
        self._new_listener = new_listener
        self._start = 0.0
        self._idle: list[Listener] = []

    async def run(self, start: float) -> None:
        """Make the load; return when its last reply has been heard.

        Args:
            start: on the clock; the same for all processes.
        """
        self._start = start
        try:
            async with asyncio.TaskGroup() as group:
                if self._order.load.rate:
                    await self._open_loop(group)
                for number in filter(self._order.load.mine, range(self._order.load.listeners)):
                    group.create_task(self._closed_loop(number))
        finally:
            for each in self._idle:
                await each.close()

    async def _open_loop(self, group: asyncio.TaskGroup) -> None:
        load = self._order.load
        for arrival in poisson(load.rate, until=load.until, seed=load.seed):
            if load.mine(arrival.number):
                await self._until(arrival.due)
                group.create_task(self._arrive(arrival.number, arrival.due))

    async def _arrive(self, number: int, due: float) -> None:
        lag = self._clock() - self._start - due
        each = self._idle.pop() if self._idle else self._new_listener(self._order, self._clock)
        await self._speak(each, number, due=due, lag=lag)
        self._idle.append(each)

    async def _closed_loop(self, number: int) -> None:
        load = self._order.load
        await self._until(number / load.listeners * RAMP * load.warmup)
        each = self._new_listener(self._order, self._clock)
        try:
            while (due := self._clock() - self._start) < load.until:
                await self._speak(each, number, due=due, lag=None)
                number += load.listeners
                await self._sleep(load.think)
        finally:
            await each.close()

    async def _speak(self, each: Listener, number: int, *, due: float, lag: float | None) -> None:
        seed = self._order.load.seed
        text = text_for(self._texts, number=number, seed=seed)
        take = await each.speak(text, plan(self._order.habits, number=number, seed=seed))
        self._emit(take.reply(number=number, due=due, lag=lag, characters=len(text)))
        if take.outcome in ("refused", "failed") and lag is None:
            await self._sleep(RETRY)

    async def _until(self, due: float) -> None:
        wait = self._start + due - self._clock()
        if wait > 0:
            await self._sleep(wait)
