"""Which engine opens the next utterance."""

import pytest

from engine.api import Load
from engine.placement import place

IDLE, HALF, FULL, LATE = Load(0, 8, 0.0), Load(4, 8, 0.0), Load(8, 8, 0.0), Load(1, 8, 0.2)


@pytest.mark.parametrize(
    ("loads", "opened", "chosen"),
    [
        ([HALF, IDLE], [0, 0], 1),
        ([IDLE, IDLE], [0, 0], 0),
        ([IDLE, IDLE], [1, 0], 1),
        ([HALF, LATE], [0, 0], 0),
        ([FULL, LATE], [0, 0], 1),
        ([None, HALF], [0, 0], 1),
        ([FULL, None], [0, 0], None),
        ([HALF], [4], None),
        ([Load(4, 64, 0.0), Load(3, 8, 0.0)], [0, 0], 0),
    ],
)
def test_engine_with_most_room_is_chosen(
    loads: list[Load | None], opened: list[int], chosen: int | None
) -> None:
    assert place(loads, opened) == chosen
