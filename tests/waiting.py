"""Waiting for another thread or process: the only polling in the tests."""

import asyncio
from collections.abc import Callable

LIMIT = 120.0  # s, the end of a hang, never a measure: starting Python can take 30 when others run


async def until(condition: Callable[[], object], *, within: float = LIMIT) -> None:
    """Return once `condition()` holds. Raises TimeoutError after `within` s."""
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110 - what is awaited has no event to wait for
            await asyncio.sleep(0.01)
