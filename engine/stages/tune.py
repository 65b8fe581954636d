"""Choose the products' tiles inside whole steps: `python -m engine.bench --random 1.7b --tune`.

Alone, a product does not show what it leaves to its neighbours: how early the next kernel can start
and read its weights. So all candidates of `engine.kernels.tune` race, one shape after another, in
the captured step that will run them; the library's product races with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch

from engine.kernels import tile_table
from engine.kernels.tile_table import ADD, STORE, SWIGLU, Shape, Tile
from engine.kernels.tune import usable
from engine.model.checkpoint import Checkpoint
from engine.model.config import DecoderConfig
from engine.stages.step_time import Measure, measures

Race = tuple[Shape, int, Callable[[], float]]  # a product of so many rows; seconds of its step


@torch.inference_mode()
def tune(checkpoint: Checkpoint, most: int) -> None:
    """Fill the table of tiles for up to `most` rows anew, beginning from what it says now."""
    counts = [2**exponent for exponent in range(12) if 2**exponent <= most]
    talker, predictor = checkpoint.config.talker, checkpoint.config.predictor
    step, frame = measures(checkpoint, counts[-1])
    races = _races(predictor, counts, frame)
    # The predictor's first pass has two tokens a row.
    races += [(each, 2 * counts[-1], partial(frame, counts[-1])) for each in shapes(predictor)]
    races += _races(talker, counts, step)  # decides about shapes that both have
    runners = usable([(shape, rows) for shape, rows, _ in races], checkpoint.talker.device)
    for shape, rows, measure in races:
        _race(shape, rows, runners[shape, rows], measure)


def _races(config: DecoderConfig, counts: Sequence[int], measure: Measure) -> list[Race]:
    return [(shape, rows, partial(measure, rows)) for rows in counts for shape in shapes(config)]


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


def _race(shape: Shape, rows: int, tiles: Sequence[Tile], measure: Callable[[], float]) -> None:
    table = tile_table.TILES.setdefault(shape, {})
    times: dict[Tile | None, float] = {}
    for tile in (None, *tiles):
        table[rows] = tile
        times[tile] = measure()
    winner = min(times, key=lambda tile: times[tile])
    table[rows] = winner
    library, best = (round(1e3 * times[tile], 3) for tile in (None, winner))
    print(f"tile {shape} rows={rows} step {library} -> {best} ms: {winner}", flush=True)
