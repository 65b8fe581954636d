"""What the engine alone makes listeners wait: the control for the gateway's own share.

    python -m tests.load.engine_alone --engine unix:/run/playhead.sock --listeners 50

The same closed loop as `playhead bench --transport voice --concurrency`, without a gateway between:
each listener speaks to the engine's socket, hears its reply in real time and asks again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence

from engine.api import SAMPLE_RATE, Audio, Open
from engine.remote import RemoteEngine
from gateway.bench.arrivals import text_for
from gateway.bench.figures import Quantiles
from gateway.bench.textsets import read_texts
from gateway.bench.worker import watch_loop

MAX_LEAD = 3.0  # s, as the gateway's default for listeners who ack
REPORT_EVERY = 0.1  # s, as the gateway asks of clients


def main(arguments: Sequence[str]) -> int:
    """Print the first sound's quantiles and the p95 of this process's own lag as JSON, in s."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", required=True, metavar="ADDRESS")
    parser.add_argument("--listeners", type=int, required=True)
    parser.add_argument("--warmup", type=float, default=10.0)
    parser.add_argument("--duration", type=float, default=30.0)
    options = parser.parse_args(arguments)
    waits, late = asyncio.run(_measure(options))
    found, lag = Quantiles.of(waits), Quantiles.of(late)
    print(json.dumps({"p50": found.p50, "p95": found.p95, "lag": lag.p95, "replies": len(waits)}))
    return 0


async def _measure(options: argparse.Namespace) -> tuple[list[float], list[float]]:
    engine = RemoteEngine(options.engine)
    await engine.start()
    texts = read_texts("sentences")
    waits: list[float] = []
    late: list[float] = []
    start = time.monotonic()
    measured = (start + options.warmup, start + options.warmup + options.duration)
    async with asyncio.TaskGroup() as beside:
        watching = beside.create_task(watch_loop(late))
        async with asyncio.TaskGroup() as group:
            for number in range(options.listeners):
                offset = number / options.listeners * options.warmup / 2
                group.create_task(_listen(engine, texts, number, offset, options, measured, waits))
        watching.cancel()
    await engine.close()
    return waits, late


async def _listen(
    engine: RemoteEngine,
    texts: list[str],
    number: int,
    offset: float,
    options: argparse.Namespace,
    measured: tuple[float, float],
    waits: list[float],
) -> None:
    await asyncio.sleep(offset)
    while (asked := time.monotonic()) < measured[1]:
        first = await _hear(engine, text_for(texts, number=number, seed=0), f"alone-{number}")
        if first is not None and measured[0] <= asked:
            waits.append(first - asked)
        number += options.listeners


async def _hear(engine: RemoteEngine, text: str, name: str) -> float | None:
    """Speak one text and wait until it would have been heard; the moment of the first sound."""
    voice = engine.info.default_voice
    speech = engine.open(Open(name, voice, acks=True, max_lead=MAX_LEAD))
    speech.append(text)
    speech.finish()
    first: float | None = None
    samples = 0
    async with asyncio.TaskGroup() as group:
        reporting: asyncio.Task[None] | None = None
        async for event in speech:
            if not isinstance(event, Audio):
                continue
            samples += len(event.pcm) // 2
            if first is None:
                first = time.monotonic()
                reporting = group.create_task(_report(speech, first))
        if first is not None:
            await asyncio.sleep(max(0.0, first + samples / SAMPLE_RATE - time.monotonic()))
        if reporting:
            reporting.cancel()
    return first


async def _report(speech: object, first: float) -> None:
    while True:
        await asyncio.sleep(REPORT_EVERY)
        speech.playback(time.monotonic() - first, "playing", 0.0)  # type: ignore[attr-defined]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
