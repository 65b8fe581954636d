"""One load process: orders come on standard input, replies go as lines to standard output.

`python -m gateway.bench.worker` does nothing but make its share of the load; whoever started it
draws, counts and stores.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from contextlib import suppress
from typing import Any

from gateway.bench.figures import percentile
from gateway.bench.load import Loader
from gateway.bench.misbehaving import misbehave
from gateway.bench.take import Reply
from gateway.bench.target import Order
from gateway.bench.textsets import read_texts

BEAT = 0.02  # s between two looks at the event loop's lag


def main() -> int:
    """Read the order, say `ready`, read the moment of the start, make the load."""
    order = Order.read(json.loads(sys.stdin.readline()))
    texts = read_texts(order.load.texts)
    gc.freeze()  # modules live as long as the process: no collection need look at them
    _tell({"ready": True})
    line = sys.stdin.readline()
    if not line:
        return 1  # whoever started this has gone
    with suppress(KeyboardInterrupt, BrokenPipeError):
        asyncio.run(_load(order, texts, start=float(line)))
    return 0


async def _load(order: Order, texts: list[str], *, start: float) -> None:
    late: list[float] = []
    loader = Loader(order, texts, emit=_told, clock=time.monotonic)
    async with asyncio.TaskGroup() as group:
        beside = [group.create_task(watch_loop(late))]
        if order.load.soak:
            beside.append(group.create_task(misbehave(order, until=start + order.load.until)))
        await loader.run(start)
        for task in beside:
            task.cancel()
    late.sort()
    _tell({"end": True, "loop_lag": percentile(late, 95) or 0.0})


async def watch_loop(late: list[float]) -> None:
    """Note how late the event loop is, in s, until cancelled."""
    while True:
        before = time.monotonic()
        await asyncio.sleep(BEAT)
        late.append(time.monotonic() - before - BEAT)


def _told(reply: Reply) -> None:
    _tell({"reply": reply.fields()})


def _tell(fields: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
