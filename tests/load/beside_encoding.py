"""What bursts of encoding cost a first sound: the round trip of a process that wakes the loop.

    python -m tests.load.beside_encoding --threads 2 --cores 0.45 --duration 20

A partner process sends a byte and waits for the answer, which comes when the gateway's encoder pool
has coded a first frame on the event loop. Beside it the pool codes the bursts that engines deliver.
Wants a machine on which nothing else runs; to compare two versions, take turns.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import random
import socket
import struct
import sys
import time
from collections.abc import Sequence

from gateway.bench.figures import Quantiles
from gateway.sound.opus import OpusEncoder
from gateway.sound.pool import EncoderPool

FRAME = bytes(2 * 1_920)
TOGETHER = 3  # listeners whose sound comes at once
BURST_CORE_SECONDS = 0.027  # of one core, roughly: 0.96 s of sound for each of them
LEAD = 0.6  # s that they still have when it comes: the median with 100 listeners


def main(arguments: Sequence[str]) -> int:
    """Print the round trip's quantiles in ms."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=0, help="of the pool; 0: as the gateway")
    parser.add_argument("--cores", type=float, default=0.45, help="kept busy by encoding, roughly")
    parser.add_argument("--duration", type=float, default=20.0)
    options = parser.parse_args(arguments)
    ours, theirs = socket.socketpair()
    asking = multiprocessing.get_context("fork").Process(
        target=_ask, args=(theirs, options.duration)
    )
    asking.start()
    theirs.close()
    asyncio.run(_answer(ours, options.threads, options.cores))
    asking.join()
    return 0


def _ask(wire: socket.socket, duration: float) -> None:
    draw = random.Random(2)
    waits: list[float] = []
    end = time.monotonic() + duration
    while time.monotonic() < end:
        time.sleep(draw.uniform(0.008, 0.03))
        asked = time.monotonic()
        wire.send(b"?")
        wire.recv(1)
        waits.append(time.monotonic() - asked)
    wire.close()
    found = Quantiles.of(waits)
    shown = zip(("p50", "p95", "p99"), (found.p50, found.p95, found.p99), strict=True)
    print(f"{len(waits)} round trips, ms:", *(f"{name} {1000 * at:.2f}" for name, at in shown))


async def _answer(wire: socket.socket, threads: int, cores: float) -> None:
    pool = EncoderPool(threads)
    loop = asyncio.get_running_loop()
    wire.setblocking(False)
    async with asyncio.TaskGroup() as group:
        bursts = group.create_task(_burst(pool, cores, group))
        while await loop.sock_recv(wire, 1):
            await pool.encode(OpusEncoder(), FRAME)
            await loop.sock_sendall(wire, b"!")
        bursts.cancel()
    pool.close()


async def _burst(pool: EncoderPool, cores: float, group: asyncio.TaskGroup) -> None:
    draw = random.Random(1)
    second = struct.pack("<23040h", *(draw.randrange(-9_000, 9_000) for _ in range(23_040)))
    while True:
        await asyncio.sleep(draw.expovariate(cores / BURST_CORE_SECONDS))
        for _ in range(TOGETHER):
            group.create_task(pool.encode(_Rich(), second))


class _Rich(OpusEncoder):
    """The encoder of a listener who has sound for a while."""

    def dry_at(self, now: float) -> float:
        """Always as far away."""
        return now + LEAD


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
