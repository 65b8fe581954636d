"""A recorded command log run again: the log holds what listeners said, a witness judges. Pure."""

from __future__ import annotations

from engine.api import SAMPLE_RATE, Audio, Cancel, Command, Ended, Open, Playback
from engine.simulation.arrivals import Arrival
from engine.simulation.listeners import Listener, Player
from engine.simulation.report import Reply


class Witness:
    """Hears one recorded utterance at the engine's door: no network, no buffer of its own.

    Args:
        options: what was opened.
        now: when.
    """

    def __init__(self, options: Open, now: float) -> None:
        listener = Listener(reports="honest" if options.acks else "none")
        self._reply = Reply(Arrival(now, "", listener, options.key))
        self._player = Player(0.0)

    def told(self, command: Command, now: float) -> None:
        """The listener paused, went on or interrupted."""
        if isinstance(command, Cancel):
            self._player.stop(now)
        elif isinstance(command, Playback):
            if command.state == "paused":
                self._player.pause(now)
            else:
                self._player.resume(now)

    def sound(self, audio: Audio, now: float) -> None:
        """Sound leaves the engine."""
        if audio.pcm:
            self._player.receive(len(audio.pcm) / 2 / SAMPLE_RATE, now)

    def end(self, ended: Ended, now: float) -> None:
        """The engine is done with it."""
        self._reply.ended = ended.detail or ended.reason
        self._reply.made = ended.generated / SAMPLE_RATE
        if ended.reason == "refused":
            self._reply.refused_after = now - self._reply.arrival.at

    @property
    def honest(self) -> bool:
        """A log does not say who lied."""
        return True

    def lead(self, now: float) -> float | None:
        """Return the seconds of sound ahead of the listener; None before any."""
        player = self._player
        return player.received - player.rendered(now) if player.received else None

    def report(self, now: float) -> Reply:
        """Return what was heard."""
        reply, player = self._reply, self._player
        if player.first_at is not None:
            reply.first_sound = player.first_at - reply.arrival.at
        reply.received, reply.heard = player.received, player.rendered(now)
        reply.stalls, reply.silence, reply.late = player.stalls, player.silence, player.silence
        return reply
