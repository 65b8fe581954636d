"""Captured steps: the same results as the step, from pinned memory, without waiting."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.graphs import CudaGraphs, Home, Shape, buckets, smallest
from engine.model.rows import WIDTH, Words


def padding(shape: Shape) -> Words:
    return np.zeros(shape.words(WIDTH), np.int32)


def add_up(inputs: Tensor, results: Tensor, shape: Shape) -> None:
    results.copy_(inputs.view(shape.rows, -1).sum(1))


@pytest.fixture
def graphs() -> Iterator[CudaGraphs]:
    with torch.inference_mode():
        yield CudaGraphs(
            add_up,
            [Shape(rows) for rows in buckets(4)],
            width=WIDTH,
            padding=padding,
            home=Home(torch.cuda.Stream(), torch.cuda.graph_pool_handle()),
        )


def test_buckets_are_powers_of_two_up_to_the_first_that_fits() -> None:
    assert buckets(1) == (1,)
    assert buckets(32) == (1, 2, 4, 8, 16, 32)
    assert buckets(33) == (1, 2, 4, 8, 16, 32, 64)


def test_the_smallest_fitting_shape_is_taken() -> None:
    shapes = [Shape(1, 64), Shape(4, 16), Shape(2, 64), Shape(1, 128)]

    assert smallest(shapes, 1, 20) == Shape(1, 64)
    assert smallest(shapes, 3, 16) == Shape(4, 16)
    assert smallest(shapes, 2, 65) is None


@pytest.mark.gpu
def test_every_launch_keeps_its_own_results(graphs: CudaGraphs) -> None:
    launched = []
    for number in range(6):
        words = np.full((2, WIDTH), number, np.int32)
        launched.append(graphs.launch(Shape(2), words))

    for number, each in enumerate(launched):
        each.wait(1.0)
        assert each.done()
        assert each.results.tolist() == [WIDTH * number] * 2
