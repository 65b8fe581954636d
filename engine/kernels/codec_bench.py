"""Times of the codec's steps, for every row count and chunk length.

`python -m engine.kernels.codec_bench` prints them for full-size random weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from engine.kernels.replay import replay_seconds
from engine.model.codec import Codec
from engine.model.codec_fused import FusedCodec
from engine.model.codec_lane import Lane
from engine.model.random_weights import RandomTensors, full_size

ROWS = (1, 2, 4, 8, 16, 32, 64)
FRAMES = (1, 2, 4, 8, 12)
POSITION = 100  # frames decoded before: the window is full


@dataclass(frozen=True, slots=True)
class StepTime:
    """The time on the device of one step."""

    rows: int
    frames: int
    begins: bool
    seconds: float


def measure(
    codec: FusedCodec, *, rows: Sequence[int] = ROWS, frames: Sequence[int] = FRAMES
) -> list[StepTime]:
    """Time steps as graph replays: all rows continue; with up to 4 frames, all begin, too."""
    most, longest = max(rows), max(frames)
    lane = codec.new_lane(most * longest)
    times = []
    for count in rows:
        for chunk in frames:
            for begins in (False, True) if chunk <= 4 else (False,):
                step = step_of(codec, count, chunk, begins=begins, lane=lane)
                times.append(StepTime(count, chunk, begins, replay_seconds(step)))
    return times


def step_of(
    codec: FusedCodec, rows: int, frames: int, *, begins: bool = False, lane: Lane | None = None
) -> Callable[[], object]:
    """Return a step on random codes; without `lane`, in one of its own."""
    size = (rows, 256, codec.config.num_quantizers)
    codes = torch.randint(codec.config.codebook_size, size, device=codec.device)
    plan = torch.zeros(2, rows, dtype=torch.int32, device=codec.device)
    plan[0] = torch.arange(rows)
    plan[1] = 0 if begins else POSITION
    state, lane = codec.new_state(rows, longest=frames), lane or codec.new_lane(rows * frames)
    return lambda: codec.step(plan, codes, state, lane, frames=frames)


def table(times: Sequence[StepTime]) -> str:
    """Lay the times out for reading: ms and µs per frame."""
    lines = ["rows frames   begin ms  continue ms  µs per frame"]
    begun = {(each.rows, each.frames): each.seconds for each in times if each.begins}
    for each in times:
        if not each.begins:
            begin = begun.get((each.rows, each.frames))
            first = f"{begin * 1e3:10.3f}" if begin else " " * 10
            share = each.seconds * 1e6 / each.rows / each.frames
            lines.append(
                f"{each.rows:4} {each.frames:6} {first} {each.seconds * 1e3:12.3f} {share:13.1f}"
            )
    return "\n".join(lines)


def full_size_codec(dtype: torch.dtype) -> FusedCodec:
    """Make the codec of the 1.7B checkpoint with random weights, on the GPU."""
    config, device = full_size("random:1.7b"), torch.device("cuda")
    tensors = RandomTensors(config, device, torch.float32).codec()
    return FusedCodec(Codec.load(config.codec, tensors, device=device), dtype)


if __name__ == "__main__":
    print(torch.cuda.get_device_name())
    print(table(measure(full_size_codec(torch.float16))))
