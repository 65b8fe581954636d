"""What a launch returns: facts that are there already, or that the device still owes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from engine.work import Outcome, Ticket


@dataclass(frozen=True, slots=True)
class FinishedTicket:
    """A launch that was over when it returned."""

    results: Sequence[Outcome]

    def done(self) -> bool:
        """Always."""
        return True

    def wait(self, timeout: float) -> None:
        """Nothing to wait for."""

    def outcomes(self) -> Sequence[Outcome]:
        """One per work, in order."""
        return self.results


@dataclass(frozen=True, slots=True)
class JoinedTicket:
    """Several launches that answer one batch, in order."""

    parts: Sequence[Ticket]

    @property
    def event(self) -> Any:
        """The last part's that the device was given: they follow each other on one stream."""
        events = [event for part in self.parts if (event := event_of(part))]
        return events[-1] if events else None

    def done(self) -> bool:
        """Whether all are."""
        return all(part.done() for part in self.parts)

    def wait(self, timeout: float) -> None:
        """Block until all are done or for `timeout` s."""
        until = time.monotonic() + timeout
        for part in self.parts:
            part.wait(max(0.0, until - time.monotonic()))

    def outcomes(self) -> Sequence[Outcome]:
        """One per work, in order."""
        return list(chain.from_iterable(part.outcomes() for part in self.parts))


@dataclass(frozen=True, slots=True)
class SplicedTicket:
    """A launch of some of a batch's works; the others' outcome was known before."""

    part: Ticket
    launched: Sequence[bool]  # per work of the batch
    known: Outcome  # of those that were not launched

    @property
    def event(self) -> Any:
        """The launch's."""
        return event_of(self.part)

    def done(self) -> bool:
        """Whether the launch is."""
        return self.part.done()

    def wait(self, timeout: float) -> None:
        """Block until it is done or for `timeout` s."""
        self.part.wait(timeout)

    def outcomes(self) -> Sequence[Outcome]:
        """One per work, in order."""
        made = iter(self.part.outcomes())
        return [next(made) if launched else self.known for launched in self.launched]


def event_of(ticket: Ticket) -> Any:
    """Return the CUDA event that happens when a ticket's launches are over; None without any."""
    return getattr(ticket, "event", None)
