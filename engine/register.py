"""Who is live, in which slot, and who is heard after whom. Pure bookkeeping.

An utterance is live while it holds a slot; its clock outlives it until its sound has been heard,
because a queued successor is due when that ends.
"""

from __future__ import annotations

from collections.abc import Iterator

from engine.api import Open
from engine.playback import PlaybackClock
from engine.slots import Slots
from engine.utterance import Utterance


class Register:
    """The live utterances of one device and the clocks of those still sounding."""

    def __init__(self, slots: int) -> None:
        self.slots = Slots(slots)
        self._utterances: dict[str, Utterance] = {}  # in order of opening
        self._clocks: dict[str, PlaybackClock] = {}
        self._successors: dict[str, str] = {}  # utterance → the one queued behind it

    def __len__(self) -> int:
        return len(self._utterances)

    def __contains__(self, utterance: object) -> bool:
        return utterance in self._utterances.values()

    def __iter__(self) -> Iterator[Utterance]:
        return iter(self._utterances.values())

    def get(self, name: str) -> Utterance | None:
        """Return a live utterance."""
        return self._utterances.get(name)

    def clock(self, name: str | None) -> PlaybackClock | None:
        """Return the clock of an utterance that is live or still sounding."""
        return self._clocks.get(name or "")

    def add(self, utterance: Utterance) -> None:
        """Take a new utterance in; its slot was allocated for it."""
        options: Open = utterance.options
        name = options.utterance
        self._utterances[name] = utterance
        self._clocks[name] = utterance.clock
        self._successors.pop(name, None)  # an earlier bearer of the name: links never form a ring
        if options.after != name and options.after in self._clocks:
            self._successors[options.after or ""] = name

    def remove(self, utterance: Utterance) -> None:
        """Let a slot go; the clock stays until its sound is over."""
        del self._utterances[utterance.options.utterance]
        self.slots.free(utterance.slot)

    def behind(self, name: str) -> Iterator[Utterance]:
        """Yield the live utterances queued behind this one, near to far."""
        while name := self._successors.get(name, ""):
            if utterance := self._utterances.get(name):
                yield utterance

    def prune(self, now: float) -> None:
        """Forget clocks whose sound has been heard."""
        for name, clock in list(self._clocks.items()):
            if name not in self._utterances and clock.ends_at(now) <= now:
                del self._clocks[name]
                self._successors.pop(name, None)
