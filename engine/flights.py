"""Batches on the device: launched in order, finished in order, and what their times teach. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from math import inf
from typing import NamedTuple

from engine.costs import CostModel
from engine.work import Batch, Observer, Outcome, Stages, Ticket, Work

IN_FLIGHT = 2  # batches: the device has the next while the host settles the last


class Flight(NamedTuple):
    """A launched batch and when it was launched."""

    batch: Batch
    ticket: Ticket
    launched_at: float


class Flights:
    """What the device has been given and has not been asked about yet.

    Args:
        stages: the device.
        costs: taught by every finished launch.
        observer: told of launches and of their ends.
    """

    def __init__(self, stages: Stages, costs: CostModel, observer: Observer | None) -> None:
        self._stages = stages
        self._costs = costs
        self._observer = observer
        self._flights: deque[Flight] = deque()
        self._device_free_at = -inf

    @property
    def room(self) -> bool:
        """Whether another batch may be launched."""
        return len(self._flights) < IN_FLIGHT

    @property
    def oldest(self) -> Ticket | None:
        """The launch to wait for, if any is in flight."""
        return self._flights[0].ticket if self._flights else None

    def launch(self, batch: Batch, now: float) -> None:
        """Hand a batch to the device."""
        self._flights.append(Flight(batch, self._stages.launch(batch), now))
        if self._observer:
            predicted = self._costs.predict(batch.stage, len(batch.works), batch.frames)
            self._observer.launched(batch, predicted, now)

    def landed(self, now: float) -> Iterator[tuple[Work, Outcome]]:
        """Take in the batches that the device has finished; yield each work with its facts."""
        while self._flights and self._flights[0].ticket.done():
            flight = self._flights.popleft()
            outcomes = flight.ticket.outcomes()
            self._learn(flight, now)
            yield from zip(flight.batch.works, outcomes, strict=True)

    def _learn(self, flight: Flight, now: float) -> None:
        began = max(flight.launched_at, self._device_free_at)
        self._device_free_at = now
        batch = flight.batch
        self._costs.learn(batch.stage, len(batch.works), batch.frames, now - began)
        if self._observer:
            self._observer.finished(batch, began, now)
