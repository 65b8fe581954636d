"""How long steps take as bare graph replays: `python -m engine.stages.step_time --rows 1,8,32,64`.

For full-size random weights, without copies to and from the device: what kernels and their tiles
are worth, which `playhead engine-bench` shows as the engine feels it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from torch import Tensor

from engine.graphs import Shape
from engine.kernels.replay import replay_seconds
from engine.model import rows as words
from engine.model.checkpoint import Checkpoint, load_random
from engine.model.random_weights import full_size
from engine.model.rows import WIDTH
from engine.stages.cuda_steps import PredictorSteps, TalkerSteps
from engine.stages.state import SlotState, allocate

CONTEXT = 200  # cache positions behind a Talker step
SEGMENT_SECONDS = 12.0

Measure = Callable[[int], float]  # rows -> seconds of a step


def measures(checkpoint: Checkpoint, most: int) -> tuple[Measure, Measure]:
    """Return what times a Talker step and a predictor frame of up to `most` rows."""
    state = allocate(checkpoint, slots=most + 1, segment_seconds=SEGMENT_SECONDS)
    state.cache.keys.normal_()
    state.cache.values.normal_()
    talker, predictor = (
        TalkerSteps(checkpoint.talker, state),
        PredictorSteps(checkpoint.predictor, state),
    )
    return (
        lambda rows: _seconds(talker.step, rows, state),
        lambda rows: _seconds(predictor.frame, rows, state),
    )


def _seconds(step: Callable[[Tensor, Tensor, Shape], None], rows: int, state: SlotState) -> float:
    device = state.codes.device
    batch = words.empty(rows, WIDTH, state.codes.shape[0] - 1)
    batch[:, words.SLOT] = range(rows)
    batch[:, words.POSITION] = CONTEXT
    batch[:, words.TOP_K] = 50
    floats = batch.view("float32")
    floats[:, words.TEMPERATURE] = 0.9
    floats[:, words.TOP_P] = floats[:, words.PENALTY] = 1.0
    inputs = torch.from_numpy(batch.ravel()).to(device)
    flags = torch.zeros(rows, dtype=torch.int32, device=device)
    return replay_seconds(lambda: step(inputs, flags, Shape(rows)), groups=3)


@torch.inference_mode()
def main() -> None:
    """Print a line for each number of rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="1,2,4,8,16,32,64,128")
    counts = [int(each) for each in parser.parse_args().rows.split(",")]
    size, device = full_size("random:1.7b"), torch.device("cuda")
    checkpoint = load_random(size, device=device, dtype=torch.bfloat16)
    talker, predictor = measures(checkpoint, max(counts))
    for rows in counts:
        step, frame = 1e3 * talker(rows), 1e3 * predictor(rows)
        both = f"both {step + frame:.3f} ms"
        print(f"rows {rows:<4} talker {step:.3f}  predictor {frame:.3f}  {both}", flush=True)


if __name__ == "__main__":
    main()
