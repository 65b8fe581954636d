"""What a launch returns: facts that are there already, or that the device still owes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

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
