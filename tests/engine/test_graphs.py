"""Captured steps: the same results as the step, from pinned memory, without waiting."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import torch
from torch import Tensor

from engine import graphs
from engine.flights import IN_FLIGHT
from engine.graphs import CudaGraphs, Home, Shape, buckets, smallest
from engine.model.rows import WIDTH, Words

WORKS = 16  # of a batch


def padding(shape: Shape) -> Words:
    return np.zeros(shape.words(WIDTH), np.int32)


def add_up(inputs: Tensor, results: Tensor, shape: Shape) -> None:
    results.copy_(inputs.view(shape.rows, -1).sum(1))


def captured(home: Home) -> CudaGraphs:
    shapes = [Shape(rows) for rows in buckets(4)]
    return CudaGraphs(add_up, shapes, width=WIDTH, padding=padding, works=WORKS, home=home)


def home_without_device(monkeypatch: pytest.MonkeyPatch) -> Home:
    """Let graphs be captured and replayed on the CPU, where everything is over at once."""

    def capture(run: Callable[[], None], home: Home) -> tuple[SimpleNamespace, None]:
        return SimpleNamespace(replay=run), None

    past = SimpleNamespace(record=int, query=lambda: True, synchronize=int)
    monkeypatch.setattr(graphs, "capture", capture)
    monkeypatch.setattr(graphs, "_pinned", lambda *shape: torch.zeros(shape, dtype=torch.int32))
    monkeypatch.setattr(torch.cuda, "Event", lambda: past)
    return cast(Home, SimpleNamespace(stream=SimpleNamespace(device=torch.device("cpu"))))


def assert_results_last(captured: CudaGraphs) -> None:
    """Launch as often as two batches may, for every work alone, before anything is read."""
    launched = []
    for number in range(IN_FLIGHT * WORKS):
        words = np.full((2, WIDTH), number, np.int32)
        launched.append(captured.launch(Shape(2), words))

    for number, each in enumerate(launched):
        each.wait(1.0)
        assert each.done()
        assert each.results.tolist() == [WIDTH * number] * 2


def test_buckets_are_powers_of_two_up_to_the_first_that_fits() -> None:
    assert buckets(1) == (1,)
    assert buckets(32) == (1, 2, 4, 8, 16, 32)
    assert buckets(33) == (1, 2, 4, 8, 16, 32, 64)


def test_the_smallest_fitting_shape_is_taken() -> None:
    shapes = [Shape(1, 64), Shape(4, 16), Shape(2, 64), Shape(1, 128)]

    assert smallest(shapes, 1, 20) == Shape(1, 64)
    assert smallest(shapes, 3, 16) == Shape(4, 16)
    assert smallest(shapes, 2, 65) is None


def test_results_last_until_two_batches_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert_results_last(captured(home_without_device(monkeypatch)))


@pytest.mark.gpu
@torch.inference_mode()
def test_every_launch_keeps_its_own_results_on_a_device() -> None:
    home = Home(torch.cuda.Stream(), torch.cuda.graph_pool_handle())

    assert_results_last(captured(home))
