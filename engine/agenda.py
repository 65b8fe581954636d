"""Work in order, so that those who rest cost nothing: heaps whose outdated entries are void. Pure.

Each look at an utterance replaces what the last one found; the entries of that one stay where they
are and are dropped when they come up. Ties are broken by slot.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from heapq import heapify, heappop, heappush
from math import inf
from typing import TypeVar

from engine.utterance import Utterance
from engine.work import Stage, Stream, Work

Entry = tuple[float, int, int, Work]  # key, slot, number of the look, work
Timer = tuple[float, int, int, Utterance]  # moment, slot, number of the look, utterance
Item = TypeVar("Item", Entry, Timer)

SWEEP_AT = 64  # outdated entries a heap may hold, beside two for each slot


class Agenda:
    """What could be launched now, or will be in time.

    `ready` has a heap per stream and stage by latest start, `gathering` chunks that are not due yet
    by when they will be, `resting` generation by when the listener's lead has room for a frame.
    What gathers needs no reminder: its key is one.
    """

    def __init__(self, streams: Collection[Stream]) -> None:
        self.ready: dict[Stream, dict[Stage, list[Entry]]] = {
            stream: {stage: [] for stage in Stage} for stream in streams
        }
        self.gathering: list[Entry] = []
        self.resting: dict[Stage, list[Entry]] = {stage: [] for stage in Stage}
        self._timers: list[Timer] = []
        self._looks: dict[int, int] = {}  # slot → count of looks; entries of earlier ones are void

    def outdate(self, slot: int) -> int:
        """Begin another look at a slot's utterance, which makes all that was added void."""
        look = self._looks[slot] = self._looks.get(slot, 0) + 1
        return look

    def look(self, slot: int) -> int:
        """Return the number of the present look at a slot's utterance."""
        return self._looks[slot]

    def add(self, heap: list[Entry], key: float, work: Work, look: int) -> None:
        """Put work in its place."""
        self._push(heap, (key, work.utterance.slot, look, work))

    def remind(self, utterance: Utterance, moment: float, look: int) -> None:
        """Look again at that moment, unless something happens to the utterance before."""
        self._push(self._timers, (moment, utterance.slot, look, utterance))

    def first(self, heap: list[Entry]) -> Entry | None:
        """Return a heap's first entry that counts."""
        looks = self._looks
        while heap and looks[heap[0][1]] != heap[0][2]:
            heappop(heap)
        return heap[0] if heap else None

    def firsts(self, streams: Collection[Stream]) -> list[tuple[Entry, Stream]]:
        """Return the first ready work of every stage that has any, and its stream."""
        return [
            (entry, stream)
            for stream in streams
            for heap in self.ready[stream].values()
            if heap and (entry := self.first(heap))
        ]

    def nearest(self, stream: Stream) -> Entry | None:
        """Return the first ready work of the last stage that has any: the nearest to sound."""
        heaps = reversed(self.ready[stream].values())
        return next((entry for heap in heaps if heap and (entry := self.first(heap))), None)

    def due(self, now: float) -> Iterator[Utterance]:
        """Take out the utterances whose time has come, or that of their chunk."""
        timers, gathering, looks = self._timers, self.gathering, self._looks
        while timers and timers[0][0] <= now:
            _, slot, look, utterance = heappop(timers)
            if looks[slot] == look:
                yield utterance
        while gathering and gathering[0][0] <= now:
            _, slot, look, work = heappop(gathering)
            if looks[slot] == look:
                yield work.utterance

    def wake_at(self) -> float:
        """Return the next moment at which somebody's time comes, or a chunk's, s; `inf`: none."""
        timers, looks = self._timers, self._looks
        while timers and looks[timers[0][1]] != timers[0][2]:
            heappop(timers)
        chunk = self.first(self.gathering)
        return min(timers[0][0] if timers else inf, chunk[0] if chunk else inf)

    def _push(self, heap: list[Item], item: Item) -> None:
        """Add to a heap, and sweep it if most of it must be void."""
        heappush(heap, item)
        if len(heap) > 2 * len(self._looks) + SWEEP_AT:
            looks = self._looks
            heap[:] = [each for each in heap if looks[each[1]] == each[2]]
            heapify(heap)
