"""Waiting for another thread or process, with a bound: the only polling in the tests."""

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], object], *, within: float = 5.0) -> None:
    """Return once `condition()` holds. Raises TimeoutError after `within` s."""
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110 - what is awaited has no event to wait for
            await asyncio.sleep(0.01)
