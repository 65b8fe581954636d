"""Batches on the device: launched, finished, and what their times teach. Pure.

A device may run several streams side by side. Whatever makes codes of a slot follows what made
codes of it before, and the codec follows both that and its own last launch for the slot; nothing
that makes codes waits for the codec.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from math import inf

from engine.costs import CostModel
from engine.work import Batch, Observer, Outcome, Stage, Stages, Stream, Ticket, Work

IN_FLIGHT = 2  # batches a stream: the device has the next while the host settles the last


@dataclass(slots=True, eq=False)
class Flight:
    """A launched batch."""

    batch: Batch
    slots: Set[int]  # of its works
    launched_at: float  # s
    predicted: float  # s it should take
    after: Sequence[Flight]  # of other streams, that must be over before it begins
    ticket: Ticket
    began: float = inf  # s: when the device got to it
    landed_at: float = inf  # s: when it was found to be over

    @property
    def may_land(self) -> bool:
        """Whether everything that it follows was found over."""
        return not self.after or all(each.landed_at < inf for each in self.after)


class Flights:
    """What the device has been given and has not been asked about yet.

    Args:
        stages: the device.
        costs: taught by every finished launch.
        observer: told of their ends.
    """

    def __init__(self, stages: Stages, costs: CostModel, observer: Observer | None) -> None:
        self._stages = stages
        self._costs = costs
        self._observer = observer
        self._queues: dict[Stream, deque[Flight]] = {each: deque() for each in stages.streams}
        self._free_at = dict.fromkeys(stages.streams, -inf)  # s

    @property
    def room(self) -> list[Stream]:
        """The streams on which another batch may be launched."""
        return [stream for stream, queue in self._queues.items() if len(queue) < IN_FLIGHT]

    @property
    def tickets(self) -> list[Ticket]:
        """The launches to wait for: the oldest of every stream, unless it follows another."""
        return [q[0].ticket for q in self._queues.values() if q and q[0].may_land]

    def launch(self, batch: Batch, now: float) -> None:
        """Hand a batch to the device."""
        slots = {work.utterance.slot for work in batch.works}
        after = self._followed(batch, slots)
        ticket = self._stages.launch(batch, [each.ticket for each in after])
        predicted = self._costs.predict(batch.stage, len(batch.works), batch.frames)
        self._queues[batch.stream].append(Flight(batch, slots, now, predicted, after, ticket))

    def landed(self, now: float) -> Iterator[tuple[Work, Outcome]]:
        """Take in the batches that the device has finished; yield each work with its facts."""
        while over := [q for q in self._queues.values() if q and _is_over(q[0])]:
            for queue in over:
                flight = queue.popleft()
                outcomes = flight.ticket.outcomes()
                self._learn(flight, now)
                yield from zip(flight.batch.works, outcomes, strict=True)

    def _followed(self, batch: Batch, slots: Set[int]) -> list[Flight]:
        """Find the flights of other streams that this batch builds on.

        All, not the last of each: one that failed at its launch has nothing to be waited for.
        """
        decodes = batch.stage is Stage.CODEC
        return [
            flight
            for stream, queue in self._queues.items()
            for flight in queue
            if stream is not batch.stream
            and (decodes or flight.batch.stage is not Stage.CODEC)
            and not flight.slots.isdisjoint(slots)
        ]

    def _learn(self, flight: Flight, now: float) -> None:
        batch = flight.batch
        moments = [each.landed_at for each in flight.after]
        flight.began = max(flight.launched_at, self._free_at[batch.stream], *moments)
        flight.landed_at = now
        self._free_at[batch.stream] = now
        if not flight.launched_at < flight.began == now:  # else both ended between two looks
            self._costs.learn(batch.stage, len(batch.works), batch.frames, now - flight.began)
        if self._observer:
            self._observer.finished(flight, now)


def _is_over(flight: Flight) -> bool:
    return flight.may_land and flight.ticket.done()
