"""What a server on this machine costs: processor time, memory, descriptors, threads, by /proc.

And how late its event loop is, seen from outside: the time of an answer that needs no work.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import linear_regression
from typing import Any
from urllib.parse import urlsplit

from gateway.bench import http_stream
from gateway.bench.figures import Quantiles

PROC = Path("/proc")
MIB = 2**20
PROBE_EVERY = 0.05  # s
SAMPLE_EVERY = 1.0  # s
SETTLE = 5.0  # s after the last reply for the server to let go of everything


@dataclass(frozen=True, slots=True)
class Sample:
    """The server's process at one moment, or the sum of its processes."""

    at: float  # s
    cpu: float  # s since its start
    memory: int  # bytes resident
    descriptors: int
    threads: int

    @classmethod
    def of(cls, pid: int, at: float) -> Sample:
        """Raises OSError if the process is gone or not ours."""
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        ticks = os.sysconf("SC_CLK_TCK")
        return cls(
            at=at,
            cpu=(int(fields[11]) + int(fields[12])) / ticks,
            memory=int(fields[21]) * os.sysconf("SC_PAGE_SIZE"),
            descriptors=len(os.listdir(PROC / str(pid) / "fd")),
            threads=int(fields[17]),
        )

    @classmethod
    def of_all(cls, pids: Sequence[int], at: float) -> Sample:
        """The sum over processes; each as `of`."""
        each = [cls.of(pid, at) for pid in pids]
        return cls(
            at=at,
            cpu=sum(sample.cpu for sample in each),
            memory=sum(sample.memory for sample in each),
            descriptors=sum(sample.descriptors for sample in each),
            threads=sum(sample.threads for sample in each),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What the server did during the measured time; None where it could not be seen."""

    cpu: float | None  # processor seconds per second
    loop_lag: Quantiles  # s
    memory_start: int | None  # bytes, at the end of the warm-up
    memory_end: int | None
    memory_slope: float | None  # bytes/s, least squares after the warm-up
    descriptors: tuple[int, int] | None  # before the first client, after the last
    threads: tuple[int, int] | None

    def fields(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


class ServerWatch:
    """Looks at a server while a run goes on; `run` until cancelled, then `seen`."""

    def __init__(
        self, url: str, pids: Sequence[int], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`pids`: the server's processes; empty if they cannot be seen."""
        self._url = url
        self._pids = pids
        self._clock = clock
        self._samples: list[Sample] = []
        self._answers: list[tuple[float, float]] = []  # when asked, s until the answer

    async def run(self) -> None:
        """Sample and probe until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._sample_often())
            group.create_task(self._probe_often())

    def sample(self) -> None:
        """Look once."""
        if self._pids:
            with suppress(OSError):
                self._samples.append(Sample.of_all(self._pids, self._clock()))

    def seen(self, start: float, end: float) -> Server:
        """The figures between two moments of the clock, and the counts before and after all."""
        lag = Quantiles.of(wait for at, wait in self._answers if start <= at < end)
        return server(self._samples, lag, start=start, end=end)

    async def _sample_often(self) -> None:
        while True:
            self.sample()
            await asyncio.sleep(SAMPLE_EVERY)

    async def _probe_often(self) -> None:
        while True:
            with suppress(OSError):
                await self._probe(await http_stream.connect(self._url))
            await asyncio.sleep(1.0)

    async def _probe(self, connection: http_stream.Connection) -> None:
        try:
            while connection.open:
                asked = self._clock()
                answered = asyncio.Event()
                head = f"GET /health HTTP/1.1\r\nHost: {urlsplit(self._url).netloc}\r\n\r\n"
                connection.ask(head.encode(), b"", on_body=_ignore, on_end=answered.set)
                await answered.wait()
                if connection.body.status == 200:
                    self._answers.append((asked, self._clock() - asked))
                await asyncio.sleep(PROBE_EVERY)
        finally:
            connection.close()


def server(samples: Sequence[Sample], lag: Quantiles, *, start: float, end: float) -> Server:
    """Figures from samples. Pure."""
    inside = [sample for sample in samples if start <= sample.at <= end]
    if len(inside) < 2:
        return Server(
            cpu=None,
            loop_lag=lag,
            memory_start=None,
            memory_end=None,
            memory_slope=None,
            descriptors=None,
            threads=None,
        )
    first, last = inside[0], inside[-1]
    slope, _ = linear_regression(
        [sample.at for sample in inside], [float(sample.memory) for sample in inside]
    )
    return Server(
        cpu=(last.cpu - first.cpu) / (last.at - first.at),
        loop_lag=lag,
        memory_start=first.memory,
        memory_end=last.memory,
        memory_slope=slope,
        descriptors=(samples[0].descriptors, samples[-1].descriptors),
        threads=(samples[0].threads, samples[-1].threads),
    )


def processes_on(url: str) -> list[int]:
    """The processes on this machine that listen where `url` points; none if none can be seen."""
    parts = urlsplit(url)
    if parts.hostname not in ("127.0.0.1", "localhost", "::1") or not PROC.exists():
        return []
    inodes = {f"socket:[{inode}]" for inode in _listening(parts.port or 80)}
    processes = (int(each.name) for each in PROC.iterdir() if each.name.isdigit())
    return sorted(pid for pid in processes if _holds(pid, inodes))


def _holds(pid: int, inodes: set[str]) -> bool:
    with suppress(OSError):
        return any(os.readlink(link) in inodes for link in (PROC / str(pid) / "fd").iterdir())
    return False


def _listening(port: int) -> set[str]:
    """Inodes of the sockets that listen on a TCP port."""
    found = set()
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in (PROC / "net" / table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                    found.add(fields[9])
    return found


def _ignore(body: bytes) -> None:
    pass
