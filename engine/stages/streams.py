"""A device's streams: which one a launch runs on, and behind what.

Priorities make the card run blocks of a first sound's launches before all that wait, and those of
chunks for who is heard already after them. A launch under way is never interrupted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch

from engine.graphs import Home
from engine.stages.tickets import event_of
from engine.work import ONE_STREAM, Stream, Ticket

PRIORITIES = {Stream.FAST: -3, Stream.MAIN: -1, Stream.SIDE: 0}  # the lower, the sooner


class DeviceStreams:
    """The streams of one card.

    Args:
        overlap: three streams side by side; else everything runs on one.
    """

    def __init__(self, device: torch.device, *, overlap: bool) -> None:
        self.names: Collection[Stream] = tuple(Stream) if overlap else ONE_STREAM
        self._homes = {
            name: Home(
                torch.cuda.Stream(device, priority=PRIORITIES[name]),
                torch.cuda.graph_pool_handle(),
            )
            for name in self.names
        }

    def home(self, stream: Stream) -> Home:
        """Return where a stream's graphs are captured; all share one where there is only one."""
        return self._homes.get(stream, self._homes[Stream.MAIN])

    def enter(self, stream: Stream, after: Sequence[Ticket]) -> None:
        """Let what the calling thread launches run on `stream`, behind other streams' launches.

        It stays so: the thread that launches has the device to itself, and coming back takes time.
        """
        home = self.home(stream)
        for ticket in after:
            if event := event_of(ticket):
                home.stream.wait_event(event)
        torch.cuda.set_stream(home.stream)
