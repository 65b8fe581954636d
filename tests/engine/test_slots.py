"""Slots are given out once, lowest first."""

import pytest

from engine.slots import Slots


def test_lowest_free_slot_is_given_out_until_none_is_left() -> None:
    slots = Slots(3)
    taken = [slots.allocate() for _ in range(4)]

    slots.free(1)

    assert taken == [0, 1, 2, None]
    assert slots.allocate() == 1


def test_freeing_twice_is_our_bug() -> None:
    slots = Slots(1)

    with pytest.raises(AssertionError, match="slot 0"):
        slots.free(0)
