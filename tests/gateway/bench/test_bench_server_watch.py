"""What a server costs, seen from outside."""

from __future__ import annotations

import gc
import os
import socket
from pathlib import Path

import pytest

from gateway.bench.figures import Quantiles
from gateway.bench.server_watch import Sample, ServerWatch, processes_on, server
from tests.gateway.clocks import VirtualClock

LAG = Quantiles.of([0.001])
linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


def sample(at: float, *, cpu: float = 0.0, memory: int = 0, descriptors: int = 9) -> Sample:
    return Sample(at=at, cpu=cpu, memory=memory, descriptors=descriptors, threads=4)


def test_growth_is_a_slope_over_the_measured_time_only() -> None:
    warming = [sample(at, memory=50_000_000 * at) for at in range(5)]
    steady = [sample(at, memory=300_000_000 + 1_000 * at) for at in range(5, 60)]

    seen = server([*warming, *steady], LAG, start=5.0, end=60.0)

    assert seen.memory_slope == pytest.approx(1_000)
    assert seen.memory_start == 300_005_000


def test_processor_time_is_a_share_of_a_core() -> None:
    seen = server([sample(at, cpu=0.25 * at) for at in range(11)], LAG, start=2.0, end=8.0)

    assert seen.cpu == pytest.approx(0.25)


def test_counts_are_those_before_the_first_and_after_the_last_client() -> None:
    samples = [sample(0, descriptors=9), *(sample(at, descriptors=50) for at in range(1, 9))]

    seen = server([*samples, sample(20, descriptors=10)], LAG, start=1.0, end=8.0)

    assert seen.descriptors == (9, 10)


def test_server_that_cannot_be_seen_has_no_figures() -> None:
    seen = server([], LAG, start=0.0, end=1.0)

    assert (seen.cpu, seen.memory_slope, seen.descriptors) == (None, None, None)
    assert seen.loop_lag == LAG


@linux
def test_sample_of_this_process() -> None:
    gc.collect()  # what earlier tests left must not be closed between the two
    with socket.socket():
        more = Sample.of(os.getpid(), 0.0)
    less = Sample.of(os.getpid(), 1.0)

    assert more.descriptors == less.descriptors + 1
    assert 2**20 < less.memory < 2**36
    assert less.cpu >= more.cpu > 0


@linux
def test_processes_of_one_server_count_together() -> None:
    one = Sample.of_all([os.getpid()], 0.0)
    two = Sample.of_all([os.getpid(), os.getpid()], 0.0)

    assert two.threads == 2 * one.threads


@linux
def test_watched_process_has_figures() -> None:
    clock = VirtualClock()
    watch = ServerWatch("http://127.0.0.1:9", [os.getpid()], clock=clock)
    for clock.now in range(3):
        watch.sample()

    seen = watch.seen(0.0, 2.0)

    assert seen.cpu is not None and seen.cpu >= 0
    assert seen.memory_start is not None and seen.memory_start > 2**20


@linux
def test_listening_process_is_found_by_its_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        assert processes_on(f"http://127.0.0.1:{port}") == [os.getpid()]

    assert processes_on(f"http://127.0.0.1:{port}") == []
    assert processes_on("http://example.org") == []
