"""What a listener hears of sound that arrives in pieces: a simulated player. Pure.

Playback starts when `start_buffer` seconds are here (0: at the first sample) and runs at speed 1. A
piece that arrives after everything before it was played is an underrun, however short: there is no
tolerance. `now` is always an argument.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stretch:
    """Playback runs from here, until the next stretch begins or sound runs out."""

    at: float  # s, on the clock of the listener
    position: float  # s, in the sound


class Playback:
    """One reply in the player."""

    def __init__(self, start_buffer: float = 0.0) -> None:
        self.received = 0.0  # s of sound here
        self.underruns = 0
        self.dry = 0.0  # s of silence inside the reply
        self.whole = False
        self._start_buffer = start_buffer
        self._stretches: list[Stretch] = []
        self._deadline: float | None = None  # what is here has been played; None: not started
        self._left: float | None = None  # s unplayed at the moment of a pause

    @property
    def started(self) -> bool:
        """Whether anything was played yet."""
        return bool(self._stretches)

    @property
    def paused(self) -> bool:
        """Whether the listener holds it."""
        return self._left is not None

    @property
    def deadline(self) -> float | None:
        """When all sound here will have been played; None if it is paused or not started."""
        return None if self.paused else self._deadline

    def lead(self, now: float) -> float:
        """Seconds here and not played yet."""
        if self._left is not None:
            return self._left
        return self.received if self._deadline is None else max(0.0, self._deadline - now)

    def arrived(self, now: float, duration: float) -> None:
        """A piece of sound is here; `duration` in s. A piece without a sample changes nothing."""
        if duration <= 0:
            return
        position = self.received
        self.received += duration
        if self._left is not None:
            self._left += duration
        elif self._deadline is None:
            self._try_start(now)
        else:
            if now > self._deadline:
                self._ran_dry(now, position)
            self._deadline += duration

    def finish(self, now: float) -> None:
        """No more will come; a reply shorter than the start buffer is played now."""
        self.whole = True
        if self._deadline is None and self.received:
            self._try_start(now)

    def pause(self, now: float) -> None:
        """Stand still. Only playback that has started can be paused."""
        assert self._deadline is not None and self._left is None
        if now > self._deadline and not self.whole:
            self._ran_dry(now, self.received)
        self._left = max(0.0, self._deadline - now)

    def resume(self, now: float) -> None:
        """Go on where it stood."""
        assert self._left is not None
        self._stretches.append(Stretch(now, self.received - self._left))
        self._deadline = now + self._left
        self._left = None

    def when(self, position: float) -> float | None:
        """The moment at which `position` (s) is played; None if it is not known yet."""
        held = self._left or 0.0
        if not self._stretches or position > self.received - held:
            return None
        stretch = next(each for each in reversed(self._stretches) if each.position <= position)
        return stretch.at + position - stretch.position

    def heard(self, now: float) -> float:
        """Seconds of sound played until `now`."""
        ends = [stretch.position for stretch in self._stretches[1:]]
        ends.append(self.received - (self._left or 0.0))
        for stretch, end in reversed(list(zip(self._stretches, ends, strict=True))):
            if stretch.at <= now:
                return min(end, stretch.position + now - stretch.at)
        return 0.0

    def _try_start(self, now: float) -> None:
        if self.received >= self._start_buffer or self.whole:
            self._stretches.append(Stretch(now, 0.0))
            self._deadline = now + self.received

    def _ran_dry(self, now: float, position: float) -> None:
        assert self._deadline is not None
        self.underruns += 1
        self.dry += now - self._deadline
        self._deadline = now
        self._stretches.append(Stretch(now, position))
