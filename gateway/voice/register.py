"""The utterances of one session: open ones, and those that are over but may still be heard."""

from __future__ import annotations

from collections import OrderedDict

from gateway.protocol import ProtocolError
from gateway.voice.sound_flow import SoundFlow
from gateway.voice.speaking import Speaking

REMEMBERED = 32  # utterances that are over but may still be acked or cancelled
NAMES = 1000  # names that may not be used again


class Register:
    """Finds an utterance by its name or number."""

    def __init__(self) -> None:
        self.open: dict[str, Speaking] = {}  # by name
        self.over: OrderedDict[str, Speaking] = OrderedDict()  # by name, the latest few
        self._by_n: dict[int, Speaking] = {}  # both, in the order of their `say`
        self._names: OrderedDict[str, None] = OrderedDict()
        self._number = 0

    def next_n(self) -> int:
        """The next number of the binary header: not 0, not one still in use."""
        self._number = self._number % 65_535 + 1
        while self._number in self._by_n:
            self._number = self._number % 65_535 + 1
        return self._number

    def add(self, speaking: Speaking) -> None:
        """Keep a new utterance."""
        self.open[speaking.utterance] = self._by_n[speaking.n] = speaking
        self._names[speaking.utterance] = None
        if len(self._names) > NAMES:
            self._names.popitem(last=False)

    def ended(self, speaking: Speaking) -> None:
        """Move it to those that are over, and forget the oldest of them."""
        self.open.pop(speaking.utterance, None)
        self.over[speaking.utterance] = speaking
        if len(self.over) > REMEMBERED:
            _, forgotten = self.over.popitem(last=False)
            self._by_n.pop(forgotten.n, None)

    def clear(self) -> None:
        """Forget all."""
        for each in (self.open, self.over, self._by_n, self._names):
            each.clear()

    def find(self, utterance: str) -> Speaking:
        """The open utterance of that name. Raises ProtocolError."""
        if utterance in self.open:
            return self.open[utterance]
        used = self.used(utterance)
        raise ProtocolError(
            "utterance_closed" if used else "unknown_utterance",
            f"`utterance`: {'has ended' if used else 'want one opened by `say`'}: {utterance}",
            param="utterance",
            utterance=utterance,
        )

    def numbered(self, n: int) -> Speaking | None:
        """The utterance an ack is about; None if forgotten.

        Raises: LookupError for a number that was never given.
        """
        if n not in self._by_n and not 0 < n <= self._number:
            raise LookupError(n)
        return self._by_n.get(n)

    def used(self, utterance: str) -> bool:
        """Whether the name was used in this session, lately."""
        return utterance in self._names

    def all(self) -> list[Speaking]:
        """All that are kept, in the order of their `say`."""
        return list(self._by_n.values())

    def sounding(self) -> list[SoundFlow]:
        """What may still be heard."""
        return [each.sound for each in self._by_n.values() if not each.sound.stopped]

    def predecessor(self, speaking: Speaking, now: float) -> Speaking | None:
        """The utterance heard just before this one, if it is still to be heard."""
        everyone = self.all()
        for other in reversed(everyone[: everyone.index(speaking)]):
            queued = other.mode != "parallel" and other.engine_id and not other.sound.stopped
            if queued and (other.open or other.sound.unheard(now) > 0):
                return other
        return None
