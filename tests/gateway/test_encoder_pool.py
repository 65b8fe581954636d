"""The encoders' threads: the same packets as without them, and the poorest listener first."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from gateway.sound.opus import PACKET_BYTES, OpusEncoder, OpusError
from gateway.sound.pool import TURN_BYTES, EncoderPool


@pytest.fixture
def pool() -> Iterator[EncoderPool]:
    """One thread, so that there is an order."""
    result = EncoderPool(1)
    yield result
    result.close()


class Noted(OpusEncoder):
    """Writes down whose turn it is; the first turn of all lasts until `go`."""

    def __init__(self, name: str, turns: list[str], go: threading.Event) -> None:
        super().__init__()
        self._name = name
        self._turns = turns
        self._go = go

    def encode(self, pcm: bytes) -> list[bytes]:
        """Encode when it may."""
        self._turns.append(self._name)
        self._go.wait(10)
        return super().encode(pcm)


async def test_encodes_utterances_side_by_side() -> None:
    pool = EncoderPool(2)
    pcm = bytes(range(256)) * 75  # 20 packets, several turns
    alone = OpusEncoder()
    expected = alone.encode(pcm), alone.finish()

    encoders = [OpusEncoder() for _ in range(8)]
    results = await asyncio.gather(*(pool.encode(encoder, pcm) for encoder in encoders))
    tails = await asyncio.gather(*(pool.encode(each, b"", last=True) for each in encoders))
    pool.close()

    assert results == [expected[0]] * 8
    assert tails == [expected[1]] * 8


async def test_first_sound_goes_before_the_rest_of_a_long_one(pool: EncoderPool) -> None:
    turns: list[str] = []
    go = threading.Event()
    long, first = Noted("long", turns, go), Noted("first", turns, go)

    async with asyncio.TaskGroup() as group:
        group.create_task(pool.encode(long, bytes(3 * TURN_BYTES)))
        group.create_task(pool.encode(first, bytes(TURN_BYTES)))
        await asyncio.sleep(0)  # both have asked
        go.set()

    assert turns == ["long", "first", "long", "long"]


async def test_who_no_longer_waits_is_not_encoded(pool: EncoderPool) -> None:
    turns: list[str] = []
    go = threading.Event()
    cancelled, other = Noted("cancelled", turns, go), Noted("other", turns, go)

    async with asyncio.TaskGroup() as group:
        gone = group.create_task(pool.encode(cancelled, bytes(3 * TURN_BYTES)))
        group.create_task(pool.encode(other, bytes(PACKET_BYTES)))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.wait([gone])
        go.set()

    assert turns.count("cancelled") <= 1


async def test_error_reaches_the_caller_and_spares_the_thread(pool: EncoderPool) -> None:
    class Broken(OpusEncoder):
        def encode(self, pcm: bytes) -> list[bytes]:
            raise OpusError("opus: broken")

    with pytest.raises(OpusError, match="broken"):
        await pool.encode(Broken(), bytes(PACKET_BYTES))

    assert len(await pool.encode(OpusEncoder(), bytes(PACKET_BYTES))) == 1
