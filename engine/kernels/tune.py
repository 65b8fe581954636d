"""Measure every way to launch a product, and say which tile is best for which shape and rows.

A product is timed as it runs: chained to others, on weights that no cache holds, inside a graph.
A tile whose result is wrong is not in the race.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.kernels.tile_table import ADD, STORE, SWIGLU, Shape, Tile
from engine.kernels.tiles import candidates, product
from engine.model.config import CheckpointConfig, DecoderConfig

STREAMED = 300 << 20  # bytes of weights that one measurement reads, far above any cache
REPLAYS = 8
TOLERANCE = 0.02  # of the result's norm, in bfloat16


def shapes(config: CheckpointConfig, rows: int) -> list[tuple[Shape, int]]:
    """List the products of a checkpoint's decode steps with up to `rows` rows."""
    powers = [2**exponent for exponent in range(12) if 2**exponent <= rows]
    talker, predictor = config.talker, config.predictor
    found: dict[tuple[Shape, int], None] = {}
    for network, counts in ((talker, powers), (predictor, [*powers, 2 * powers[-1]])):
        for shape in (*_layer_shapes(network), (network.vocab_size, network.hidden_size, STORE)):
            found |= dict.fromkeys((shape, count) for count in counts)
    return list(found)


def tune(
    wanted: Sequence[tuple[Shape, int]], device: torch.device
) -> dict[Shape, dict[int, Tile | None]]:
    """Return the best tile for each shape and number of rows; None: the library's product."""
    weights = torch.randn(STREAMED // 2 + 32 * 2**20, device=device, dtype=torch.bfloat16) * 0.02
    runs = [(shape, rows, tile) for shape, rows in wanted for tile in candidates(shape, rows)]
    with ThreadPoolExecutor(16) as pool:  # compilers run beside each other
        list(pool.map(lambda run: _attempt(weights, *run), runs))
    best: dict[Shape, dict[int, Tile | None]] = {}
    for shape, rows in wanted:
        times: dict[Tile | None, float] = {None: _seconds(weights, shape, rows, None)}
        for tile in candidates(shape, rows):
            if _correct(weights, shape, rows, tile):
                times[tile] = _seconds(weights, shape, rows, tile)
        winner = min(times, key=lambda tile: times[tile])
        best.setdefault(shape, {})[rows] = winner
        micro = {
            name: round(1e6 * times[tile], 1) for name, tile in (("us", winner), ("lib", None))
        }
        print(f"tile {shape} rows={rows} {micro} {winner}", flush=True)
    return best


def _layer_shapes(config: DecoderConfig) -> list[Shape]:
    heads = config.num_attention_heads * config.head_dim
    keys = config.num_key_value_heads * config.head_dim
    hidden, inner = config.hidden_size, config.intermediate_size
    return [
        (heads + 2 * keys, hidden, STORE),
        (hidden, heads, ADD),
        (inner, hidden, SWIGLU),
        (hidden, inner, ADD),
    ]


def _weights(weights: Tensor, shape: Shape) -> list[Tensor]:
    features, size, kind = shape
    lines = features * (2 if kind == SWIGLU else 1)
    count = max(4, STREAMED // (2 * lines * size))
    return [
        weights[index * lines * size :][: lines * size].view(lines, size)
        for index in range(count)
        if (index + 1) * lines * size <= weights.numel()
    ]


def _operands(shape: Shape, rows: int, device: torch.device) -> tuple[Tensor, Tensor]:
    features, size, _ = shape
    make = partial(torch.randn, device=device, dtype=torch.bfloat16)
    return make(rows, size), make(rows, features)


def _attempt(weights: Tensor, shape: Shape, rows: int, tile: Tile) -> bool:
    """Compile; what the device cannot hold is no candidate."""
    x, out = _operands(shape, rows, weights.device)
    try:
        product(tile, x, _weights(weights, shape)[0], out, kind=shape[2])
    except Exception as error:
        print(f"tile {shape} rows={rows} {tile}: {type(error).__name__}: {error}"[:200], flush=True)
        return False
    return True


def _correct(weights: Tensor, shape: Shape, rows: int, tile: Tile) -> bool:
    x, out = _operands(shape, rows, weights.device)
    weight, kind = _weights(weights, shape)[0], shape[2]
    before = out.double()
    wide = F.linear(x.double(), weight.double())
    if kind == ADD:
        wide += before
    if kind == SWIGLU:
        gate, up = wide.chunk(2, -1)
        wide = F.silu(gate) * up
    if not _attempt(weights, shape, rows, tile):
        return False
    product(tile, x, weight, out, kind=kind)
    wrong = float((out.double() - wide).norm() / wide.norm())
    if not wrong < TOLERANCE:
        print(f"tile {shape} rows={rows} {tile}: is wrong by {wrong}", flush=True)
    return wrong < TOLERANCE


def _seconds(weights: Tensor, shape: Shape, rows: int, tile: Tile | None) -> float:
    """Return the time of one product in a chain."""
    x, out = _operands(shape, rows, weights.device)
    chain = _weights(weights, shape)

    def run() -> None:
        for weight in chain:
            product(tile, x, weight, out, kind=shape[2])

    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    graph.replay()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(REPLAYS):
        graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3 / REPLAYS / len(chain)
