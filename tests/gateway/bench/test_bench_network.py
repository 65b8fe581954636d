"""The bad network: its timing in virtual time, its connections over real sockets."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.bench.network import PROFILES, Path, Profile
from gateway.bench.proxy import Proxy
from tests.waiting import LIMIT, until

STORE = 64 * 2**20  # bytes: what no buffers of a connection hold


def path(**profile: float) -> Path:
    return Path(Profile(**profile), draw=random.Random(1), now=0.0)


def test_good_network_delays_nothing() -> None:
    assert path().due(1_000, 5.0) == 5.0


def test_delay_is_added_to_each_piece() -> None:
    slow = path(delay=0.25)

    assert [slow.due(1, at) for at in (1.0, 1.5)] == [1.25, 1.75]


def test_narrow_link_passes_one_piece_after_the_other() -> None:
    narrow = path(rate=1_000.0, delay=0.5)

    assert [narrow.due(500, 1.0) for _ in range(3)] == [2.0, 2.5, 3.0]


def test_narrow_link_recovers_while_nothing_is_sent() -> None:
    narrow = path(rate=1_000.0)
    narrow.due(5_000, 0.0)

    assert narrow.due(500, 10.0) == 10.5


@given(st.lists(st.floats(0, 0.05), min_size=2, max_size=40))
def test_jitter_never_reorders(gaps: list[float]) -> None:
    shaky = path(delay=0.02, jitter=0.02)
    now, dues = 0.0, []
    for gap in gaps:
        now += gap
        dues.append(shaky.due(100, now))

    assert dues == sorted(dues)


def test_stalls_come_as_often_as_asked_and_hold_all_that_follows() -> None:
    stalling = path(stall_every=10.0, stall=1.0)

    late = [stalling.due(1, at / 10) - at / 10 for at in range(20_000)]

    stalls = sum(now > 0.85 and before < 0.2 for before, now in itertools.pairwise(late))
    assert stalls == pytest.approx(2_000 / 10, rel=0.25)
    assert max(late) < 5.0


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_lets_bytes_through(name: str) -> None:
    mean = Path(PROFILES[name], draw=random.Random(0), now=0.0)

    assert 0.0 <= mean.due(1_000, 1.0) - 1.0 < 1.0


@asynccontextmanager
async def through(profile: Profile) -> AsyncIterator[tuple[Proxy, int]]:
    """An echo behind a proxy; yields it and its port."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server:
        proxy = Proxy("127.0.0.1", server.sockets[0].getsockname()[1], profile)
        async with proxy.listening():
            yield proxy, proxy.port


async def test_bytes_pass_unchanged_both_ways_and_so_does_the_end() -> None:
    sent = random.Random(0).randbytes(700_000)
    async with through(Profile()) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)

        async def send() -> None:
            writer.write(sent)
            await writer.drain()
            writer.write_eof()

        received, _ = await asyncio.gather(reader.read(), send())

        assert received == sent
        writer.close()
        await writer.wait_closed()


async def test_reset_is_abrupt() -> None:
    async with through(Profile(reset_after=0.01)) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)

        with pytest.raises(ConnectionResetError):
            async with asyncio.timeout(LIMIT):
                await reader.read()
        writer.close()


async def test_half_open_connection_says_nothing_and_stays() -> None:
    async with through(Profile(half_open_after=1e-6)) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"anyone?")

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await reader.read(1)

        assert not reader.at_eof()
        writer.close()
        await writer.wait_closed()


async def test_slow_reader_holds_the_sender_back() -> None:
    """The proxy is a network, not a store: what nobody takes does not vanish into it."""
    taken = 0
    block = bytes(65_536)

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal taken
        try:
            while True:
                writer.write(block)
                await writer.drain()
                taken += len(block)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(pour, "127.0.0.1", 0)
    async with server:
        proxy = Proxy("127.0.0.1", server.sockets[0].getsockname()[1], Profile(delay=0.001))
        async with proxy.listening():
            _, writer = await asyncio.open_connection("127.0.0.1", proxy.port, limit=1_024)
            seen = [0] * 50  # the last looks, 10 ms apart

            def still() -> bool:
                seen.append(taken)
                return 0 < seen[-50] == taken or taken > STORE

            await until(still)

            assert taken <= STORE
            writer.transport.abort()
