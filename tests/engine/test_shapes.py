"""Whatever the scheduler may ask for was captured: no batch falls back to eager steps."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.api import Append, Finish, Open
from engine.config import MOST_ROWS, EngineConfig, ModelConfig, SchedulerConfig
from engine.graphs import buckets, smallest
from engine.loop import EngineLoop
from engine.silent import SilentStages, SilentTicket
from engine.stages.shapes import (
    CHUNKS,
    PROMPTS,
    divided,
    first_frame_shapes,
    grouped,
    prompt_shapes,
    row_shapes,
)
from engine.stages.state import LONGEST_SEGMENT, positions_for
from engine.work import FAST_ROWS, Batch, Stage, Ticket
from tests.engine.speaking import NoTrim

SEGMENTS = (4.0, 12.0, 60.0, LONGEST_SEGMENT)  # s
LIMITS = (1, 3, 32, 33, 64, 100)  # rows


@pytest.mark.parametrize("rows", [*LIMITS, MOST_ROWS])
def test_every_number_of_rows_has_a_shape(rows: int) -> None:
    shapes = row_shapes(rows)

    assert all((found := smallest(shapes, each)) and found.rows >= each for each in range(1, rows))
    assert smallest(shapes, rows)


def test_the_most_rows_are_the_largest_bucket() -> None:
    assert buckets(MOST_ROWS)[-1] == MOST_ROWS


@pytest.mark.parametrize("seconds", SEGMENTS)
def test_every_prompt_that_fits_its_slot_has_a_shape(seconds: float) -> None:
    positions = positions_for(seconds)
    shapes = prompt_shapes(positions)

    for length in range(1, positions):
        for count in (*PROMPTS, max(PROMPTS) + 1):
            taken = list(grouped([length] * count, shapes))
            assert sum(part.stop - part.start for part, _ in taken) == count
            assert all(shape.tokens >= length for _, shape in taken)


@given(
    st.lists(st.integers(1, positions_for(60.0) - 1), min_size=1, max_size=64),
)
def test_prompts_of_any_lengths_keep_their_order(lengths: list[int]) -> None:
    taken = list(grouped(lengths, prompt_shapes(positions_for(60.0))))

    assert [each for part, _ in taken for each in lengths[part]] == lengths
    for part, shape in taken:
        assert shape.rows >= part.stop - part.start
        assert shape.tokens >= max(lengths[part])


def test_first_frames_have_shapes_for_few() -> None:
    assert max(first_frame_shapes(64)).rows == FAST_ROWS
    assert first_frame_shapes(3) == row_shapes(3)


@pytest.mark.parametrize("rows", [*LIMITS, MOST_ROWS])
def test_deterministic_steps_and_first_frames_share_one_shape(rows: int) -> None:
    (shape,) = row_shapes(rows, deterministic=True)

    assert shape == max(row_shapes(rows))
    assert first_frame_shapes(rows, deterministic=True) == [shape]


@pytest.mark.parametrize("seconds", SEGMENTS)
def test_a_deterministic_prompt_has_the_shape_of_its_own_length(seconds: float) -> None:
    positions = positions_for(seconds)
    shapes = prompt_shapes(positions, deterministic=True)

    for length in range(1, positions):
        (_, alone), *_ = grouped([length], shapes)
        taken = [shape for _, shape in grouped([1, length, positions - 1], shapes)]
        assert taken[1] == alone
        assert len(taken) == 3
    assert set(shapes) <= set(prompt_shapes(positions))


@pytest.mark.parametrize("chunks", [CHUNKS, (1,), (1, 12)])
def test_every_chunk_is_made_of_captured_ones(chunks: tuple[int, ...]) -> None:
    for frames in range(1, 200):
        parts = divided(frames, chunks)
        assert sum(parts) == frames
        assert set(parts) <= set(chunks)


class CapturedStages(SilentStages):
    """Stages that look up the shape of every batch, as those on CUDA do."""

    def __init__(self, rows: int, **options: object) -> None:
        super().__init__(slots=64, rows=rows, **options)  # type: ignore[arg-type]
        self.shapes = row_shapes(rows)
        self.asked: set[tuple[Stage, int, int]] = set()

    def launch(self, batch: Batch, after: Sequence[Ticket] = ()) -> SilentTicket:
        self.asked.add((batch.stage, len(batch.works), batch.frames))
        assert len(batch.works) <= self.rows(batch.stage, batch.stream)
        assert smallest(self.shapes, len(batch.works))
        assert all(each.frames == batch.frames for each in batch.works)
        assert divided(batch.frames, CHUNKS)
        return super().launch(batch, after)


@pytest.mark.parametrize("rows", [1, 3, 8])
@pytest.mark.parametrize("ladder", [(1, 2, 4, 8, 12), (1, 25), (5, 7)])
def test_the_scheduler_asks_for_nothing_else(rows: int, ladder: tuple[int, ...]) -> None:
    now = 0.0
    stages = CapturedStages(rows, clock=lambda: now, sleep=lambda _: None)
    config = EngineConfig(
        model=ModelConfig(rows=rows),
        scheduler=SchedulerConfig(chunk_ladder=ladder, load_limit=1e6),
    )
    loop = EngineLoop(stages, config, emit=lambda _: None, trim=NoTrim)
    commands = [
        command
        for number in range(24)
        for name in [f"u{number}"]
        for command in (Open(name, "tone"), Append(name, "A sentence. " * number), Finish(name))
    ]

    while commands or loop.busy:
        launched = loop.step(commands[:3], now)
        commands = commands[3:]
        if not launched:
            ready = [each.ready_at for each in loop.tickets]  # type: ignore[attr-defined]
            now = min(ready) if ready else min(loop.wake_at(now), now + 0.01)

    assert {stage for stage, _, _ in stages.asked} == set(Stage)
    assert max(count for _, count, _ in stages.asked) == rows
