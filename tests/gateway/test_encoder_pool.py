"""The encoders' threads: the same packets as without them, and the poorest listener first."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from engine.api import SAMPLE_RATE
from gateway.sound.opus import OpusEncoder, OpusError
from gateway.sound.pool import TURN_BYTES, EncoderPool
from tests.waiting import LIMIT


@pytest.fixture
def pool() -> Iterator[EncoderPool]:
    """One thread, so that there is an order."""
    result = EncoderPool(1)
    yield result
    result.close()


class Noted(OpusEncoder):
    """Writes down whose turn it is; the first turn of all lasts until `go`."""

    def __init__(self, name: str, *, due: float, turns: list[str], go: threading.Event) -> None:
        super().__init__()
        self._name = name
        self._due = due
        self._turns = turns
        self._go = go

    def dry_at(self, now: float) -> float:
        """Whatever the test says of its beginning."""
        return self._due + self.samples / SAMPLE_RATE

    def encode(self, pcm: bytes) -> list[bytes]:
        """Encode when it may."""
        self._turns.append(self._name)
        self._go.wait(LIMIT)
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


async def test_who_would_run_dry_first_goes_before_the_rest_of_a_long_one(
    pool: EncoderPool,
) -> None:
    turns: list[str] = []
    go = threading.Event()
    rich = Noted("rich", due=9.0, turns=turns, go=go)
    poor = Noted("poor", due=9.01, turns=turns, go=go)

    async with asyncio.TaskGroup() as group:
        group.create_task(pool.encode(rich, bytes(4 * TURN_BYTES)))
        group.create_task(pool.encode(poor, bytes(2 * TURN_BYTES)))
        await asyncio.sleep(0)  # both have asked
        go.set()

    assert turns == ["rich", "poor", "rich", "poor", "rich", "rich"]


async def test_frame_of_who_is_nearly_dry_waits_for_no_thread(pool: EncoderPool) -> None:
    turns: list[str] = []
    go = threading.Event()
    slow = Noted("slow", due=0.0, turns=turns, go=go)

    async with asyncio.TaskGroup() as group:
        group.create_task(pool.encode(slow, bytes(2 * TURN_BYTES)))
        packets = await pool.encode(OpusEncoder(), bytes(TURN_BYTES))
        go.set()

    assert len(packets) == 4


async def test_who_no_longer_waits_is_not_encoded(pool: EncoderPool) -> None:
    turns: list[str] = []
    go = threading.Event()
    gone = Noted("gone", due=0.0, turns=turns, go=go)
    other = Noted("other", due=1.0, turns=turns, go=go)

    async with asyncio.TaskGroup() as group:
        leaving = group.create_task(pool.encode(gone, bytes(3 * TURN_BYTES)))
        group.create_task(pool.encode(other, bytes(2 * TURN_BYTES)))
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.wait([leaving])
        go.set()

    assert turns.count("gone") <= 1


async def test_error_reaches_the_caller_and_spares_the_thread(pool: EncoderPool) -> None:
    class Broken(OpusEncoder):
        def encode(self, pcm: bytes) -> list[bytes]:
            raise OpusError("opus: broken")

    with pytest.raises(OpusError, match="broken"):
        await pool.encode(Broken(), bytes(2 * TURN_BYTES))

    assert len(await pool.encode(OpusEncoder(), bytes(2 * TURN_BYTES))) == 8


async def test_encodes_where_priorities_may_not_be_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(_: int) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.nice", forbidden)
    pool = EncoderPool(1)
    async with asyncio.timeout(LIMIT):
        packets = await pool.encode(OpusEncoder(), bytes(2 * TURN_BYTES))
    pool.close()

    assert len(packets) == 8
