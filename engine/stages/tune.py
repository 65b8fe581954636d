"""Choose the products' tiles inside whole steps: `python -m engine.bench --random 1.7b --tune`.

Alone, a product does not show what it leaves to its neighbours: how early the next kernel can start
and read its weights. So the best few of `engine.kernels.tune` race again, one shape after another,
in the captured step that will run them.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from engine.graphs import Shape as Buckets
from engine.kernels import tile_table
from engine.kernels.tile_table import ADD, STORE, SWIGLU, Shape, Tile
from engine.kernels.tune import ranked
from engine.model import rows as words
from engine.model.checkpoint import Checkpoint
from engine.model.config import DecoderConfig
from engine.model.rows import WIDTH
from engine.stages.cuda_steps import PredictorSteps, TalkerSteps
from engine.stages.state import SlotState, allocate

CONTEXT = 200  # cache positions behind a Talker step
REPLAYS = 8
LAPS = 2  # a product's neighbours may have changed
GROUPS = 3  # of replays; the fastest counts

Measure = Callable[[int], float]  # rows -> seconds of a step


@torch.inference_mode()
def tune(checkpoint: Checkpoint, most: int) -> None:
    """Fill the table of tiles for up to `most` rows, and print it."""
    counts = [2**exponent for exponent in range(12) if 2**exponent <= most]
    state = allocate(checkpoint, slots=most + 1, segment_seconds=12.0)
    state.cache.keys.normal_()
    state.cache.values.normal_()
    talker, predictor = checkpoint.config.talker, checkpoint.config.predictor
    races: list[tuple[Shape, int, int, Measure]] = []
    for config, measure in (
        (predictor, _predictor(checkpoint, state)),
        (talker, _talker(checkpoint, state)),
    ):
        races += [(shape, rows, rows, measure) for rows in counts for shape in shapes(config)]
    # The predictor's first pass has two tokens a row.
    pair = 2 * counts[-1]
    races += [(each, pair, counts[-1], _predictor(checkpoint, state)) for each in shapes(predictor)]
    finalists = ranked([(shape, rows) for shape, rows, _, _ in races], checkpoint.talker.device)
    tile_table.TILES = {}
    for (shape, rows), tiles in finalists.items():
        tile_table.TILES.setdefault(shape, {})[rows] = tiles[0]
    for shape, rows, step_rows, measure in races * LAPS:
        _race(shape, rows, finalists[shape, rows], lambda: measure(step_rows))  # noqa: B023


def shapes(config: DecoderConfig) -> list[Shape]:
    """List the products of a decode step."""
    heads = config.num_attention_heads * config.head_dim
    keys = config.num_key_value_heads * config.head_dim
    hidden, inner = config.hidden_size, config.intermediate_size
    return [
        (heads + 2 * keys, hidden, STORE),
        (hidden, heads, ADD),
        (inner, hidden, SWIGLU),
        (hidden, inner, ADD),
        (config.vocab_size, hidden, STORE),
    ]


def _race(shape: Shape, rows: int, tiles: list[Tile | None], measure: Callable[[], float]) -> None:
    times: dict[Tile | None, float] = {}
    for tile in tiles:
        tile_table.TILES[shape][rows] = tile
        times[tile] = measure()
    winner = min(times, key=lambda tile: times[tile])
    tile_table.TILES[shape][rows] = winner
    first, best = (round(1e3 * times[tile], 3) for tile in (tiles[0], winner))
    print(f"tile {shape} rows={rows} step {first} -> {best} ms: {winner}", flush=True)


def _talker(checkpoint: Checkpoint, state: SlotState) -> Measure:
    steps = TalkerSteps(checkpoint.talker, state)
    return lambda rows: _seconds(steps.step, rows, state)


def _predictor(checkpoint: Checkpoint, state: SlotState) -> Measure:
    steps = PredictorSteps(checkpoint.predictor, state)
    return lambda rows: _seconds(steps.frame, rows, state)


def _seconds(step: Callable[[Tensor, Tensor, Buckets], None], rows: int, state: SlotState) -> float:
    """Capture a step and return the time of a replay."""
    device, shape = state.codes.device, Buckets(rows)
    batch = words.empty(rows, WIDTH, state.codes.shape[0] - 1)
    batch[:, words.SLOT] = range(rows)
    batch[:, words.POSITION] = CONTEXT
    batch[:, words.TOP_K] = 50
    batch.view("float32")[:, words.TEMPERATURE] = 0.9
    inputs = torch.from_numpy(batch.ravel()).to(device)
    flags = torch.zeros(rows, dtype=torch.int32, device=device)
    step(inputs, flags, shape)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(inputs, flags, shape)
    graph.replay()
    times = []
    for _ in range(GROUPS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(REPLAYS):
            graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3 / REPLAYS)
    return min(times)
