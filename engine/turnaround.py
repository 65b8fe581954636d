"""The host's own time between two batches: what a device waits for that is not a batch ahead.

It runs from the moment the engine's thread sees that a batch is over until the next is launched and
counted: settling, handing its sound on, planning, launching, looking anew at those in it. Waiting
is not in it.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Sequence
from operator import sub
from typing import TYPE_CHECKING

from engine.api import Info, Open
from engine.percentile import percentile
from engine.work import Batch, Stage, Stages, Stream, Ticket

if TYPE_CHECKING:
    from engine.text.feed import TextFeed

KEPT = 20_000  # turns: two minutes of a busy device
SHARES = (0.5, 0.95)


class Turnaround:
    """The last turns in which one batch was settled and the next launched."""

    def __init__(self) -> None:
        self._between = array("d", bytes(8 * KEPT))  # rings, allocated at once: a server's memory
        self._launching = array("d", bytes(8 * KEPT))  # shall not grow for hours
        self._count = 0

    def add(self, between: float, launching: float) -> None:
        """Count a turn of `between` s, of which the call that launched took `launching` s."""
        place = self._count % KEPT
        self._between[place], self._launching[place] = between, launching
        self._count += 1

    def clear(self) -> None:
        """Forget every turn."""
        self._count = 0

    def figures(self) -> dict[str, float | int | None]:
        """Return their number and nearest-rank percentiles, s; to be asked while the engine idles.

        `between` is all of a turn, `deciding` all but the launching call: on a CPU, that call runs
        the model.
        """
        turns = min(self._count, KEPT)
        found: dict[str, float | int | None] = {"turns": turns}
        between, launching = self._between[:turns], self._launching[:turns]
        parts = {"between": between, "deciding": list(map(sub, between, launching))}
        for name, values in parts.items():
            for share in SHARES:
                found[f"{name}_p{100 * share:.0f}"] = percentile(values, share) if turns else None
        return found


class TimedStages:
    """`Stages` that note how long the call took that launched last.

    Args:
        clock: s, of the host.
    """

    def __init__(self, stages: Stages, clock: Callable[[], float]) -> None:
        self._stages = stages
        self._clock = clock
        self.launching = 0.0  # s

    @property
    def info(self) -> Info:
        """What the stages speak."""
        return self._stages.info

    def check(self, options: Open) -> str:
        """Ask the stages."""
        return self._stages.check(options)

    def text(self) -> TextFeed:
        """Ask the stages."""
        return self._stages.text()

    @property
    def streams(self) -> Collection[Stream]:
        """Ask the stages."""
        return self._stages.streams

    def rows(self, stage: Stage, stream: Stream = Stream.MAIN) -> int:
        """Ask the stages."""
        return self._stages.rows(stage, stream)

    def launch(self, batch: Batch, after: Sequence[Ticket] = ()) -> Ticket:
        """Launch, and note how long that took."""
        began = self._clock()
        ticket = self._stages.launch(batch, after)
        self.launching = self._clock() - began
        return ticket

    def release(self, slot: int) -> None:
        """Tell the stages."""
        self._stages.release(slot)
