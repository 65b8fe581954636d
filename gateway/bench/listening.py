"""What a listener does while a reply plays: waits, pauses, goes on, interrupts, hears its end."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol

from gateway.bench.arrivals import Plan
from gateway.bench.take import Take

Clock = Callable[[], float]


class Hands(Protocol):
    """How a transport carries out what a listener does."""

    def pause(self) -> None:
        """Playback stands still."""

    def resume(self) -> None:
        """Playback goes on."""

    def interrupt(self) -> Awaitable[None]:
        """The listener has heard enough."""


async def listen(take: Take, plan: Plan, hands: Hands, clock: Clock) -> None:
    """Carry out `plan`; return when the reply was heard to its end, or interrupted."""
    pause_at = math.inf if plan.pause_at is None else plan.pause_at
    barge_in_at = math.inf if plan.barge_in_at is None else plan.barge_in_at
    if pause_at < barge_in_at and await heard(take, pause_at, clock):
        take.playback.pause(clock())
        take.paused = True
        hands.pause()
        await asyncio.sleep(plan.pause)
        take.playback.resume(clock())
        hands.resume()
    if await heard(take, barge_in_at, clock):
        take.stopped_at = clock()
        await hands.interrupt()
        return
    deadline = take.playback.deadline
    if deadline is not None and take.outcome != "failed":
        await asyncio.sleep(max(0.0, deadline - clock()))


async def heard(take: Take, position: float, clock: Clock) -> bool:
    """Wait until `position` (s) was played; False if the reply ends before."""
    while True:
        take.moved.clear()
        at = take.playback.when(position)
        if at is not None and at <= clock():
            return True
        if at is None and take.ended:
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(None if at is None else at - clock()):
                await take.moved.wait()


async def ended(take: Take, patience: float, clock: Clock) -> None:
    """Wait for the end of a reply; it fails if nothing at all comes for `patience` s."""
    seen = -1
    while not take.ended and seen != take.chunks:
        seen = take.chunks
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await take.over.wait()
    take.finish(clock(), "failed", "timeout")
