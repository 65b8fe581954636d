"""Which of several engines opens the next utterance. Pure.

The rule: the one with most room by its last heartbeat, not counting on one that is late. What was
opened since that heartbeat counts too, or a burst would go where the first of it went.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.api import Load

LATE = 0.005  # s: an engine that late is in trouble; less is one launch in front of another


def place(loads: Sequence[Load | None], opened: Sequence[int]) -> int | None:
    """Return the index of the engine to open on; None if none has a slot.

    Args:
        loads: the last heartbeat of each engine; None: gone or not heard from.
        opened: utterances opened on each since then.
    """
    choices = []
    for index, load in enumerate(loads):
        if load is None:
            continue
        live = load.utterances + opened[index]
        if live < load.slots:
            lateness = load.lateness if load.lateness > LATE else 0.0
            choices.append((lateness, live / load.slots, index))
    return min(choices)[2] if choices else None
