"""How a Talker step's attention is cut into programs, and where those of one row meet."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Cut:
    """How a row's past is cut into programs."""

    splits: int  # programs per row and key head
    chunk: int = 64  # cache positions read at once
    warps: int = 4
    stages: int = 3  # chunks on their way


@dataclass(frozen=True, slots=True)
class StepScratch:
    """Where the programs of one row meet."""

    partial: Tensor  # (rows * kv_heads * splits, group * (head_dim + 2)) fp32
    arrived: Tensor  # (rows * kv_heads,) int32, zero between launches
    cut: Cut


def cut_for(rows: int, kv_heads: int) -> Cut:
    """Return a cut with enough programs to fill the device.

    Measured on an H200 inside a Talker step of 200 and 600 positions: deeper pipelines pay only
    where a program has several chunks and the device has room for more.
    """
    splits = 1
    while rows * kv_heads * splits < 132 and splits < 16:
        splits *= 2
    return Cut(splits, stages=3 if 1 < rows < 64 else 2)


def step_scratch(
    rows: int, cut: Cut, *, heads: int, kv_heads: int, head_dim: int, device: torch.device
) -> StepScratch:
    """Allocate for `rows` rows."""
    splits = cut.splits
    width = heads // kv_heads * (head_dim + 2)
    return StepScratch(
        torch.empty(rows * kv_heads * splits, width, device=device),
        torch.zeros(rows * kv_heads, dtype=torch.int32, device=device),
        cut,
    )
