"""One reply between gateway and listener: requests, sound and reports on a network. Pure.

The gateway is taken for granted: it passes on what it is told, and knows the least one-way delay.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from engine.api import (
    FRAME_SECONDS,
    SAMPLE_RATE,
    Append,
    Audio,
    Cancel,
    Command,
    Ended,
    Finish,
    Open,
    Playback,
)
from engine.segment import FRAMES_PER_CHARACTER
from engine.simulation.arrivals import Arrival
from engine.simulation.listeners import TINY, Player
from engine.simulation.network import Link, Network
from engine.simulation.report import Reply

if TYPE_CHECKING:
    from engine.simulation.simulation import Simulation

LATE = 1e-6  # s: rounding, not lateness


class Conversation:
    """One reply, from the request to the last sound heard.

    Args:
        name: of the utterance.
        number: of the reply; seeds its chance.
        arrival: what is asked for, and by whom.
        simulation: where things happen.
        engine: the one that speaks.
    """

    def __init__(
        self, name: str, number: int, arrival: Arrival, simulation: Simulation, *, engine: int
    ) -> None:
        self._name = name
        self._arrival = arrival
        self._simulation = simulation
        self._listener = listener = arrival.listener
        self._reply = Reply(arrival, engine)
        self._player = Player(listener.start_buffer)
        self._even = Player(listener.start_buffer)  # the same listener on a network without jitter
        self._random = Random(f"{simulation.seed}/{number}/network")
        self._down = Link(listener.network, Random(f"{simulation.seed}/{number}/down"))
        self._up = Link(listener.network, Random(f"{simulation.seed}/{number}/up"))
        self._stopped = False  # nothing more is reported
        self._interrupted_at: float | None = None  # by the engine's clock
        self._expected = len(arrival.text) * FRAMES_PER_CHARACTER * FRAME_SECONDS

    # --------------------------------------------------------------- request

    def begin(self) -> None:
        """Ask for the reply; time counts from here."""
        simulation, listener, name = self._simulation, self._listener, self._name
        now = simulation.now
        acked, unacked = simulation.max_lead
        acks = listener.acks and simulation.listens
        self._ask(
            Open(
                name,
                "tone",
                acks=acks,
                max_lead=acked if acks else unacked,
                key=self._arrival.key,
                status=simulation.watch_slack,
            ),
            now,
        )
        if listener.words_per_second is None:
            self._ask(Append(name, self._arrival.text), now)
            self._ask(Finish(name), now)
            return
        words = self._arrival.text.split(" ")
        for index, word in enumerate(words):
            text = word if index == len(words) - 1 else f"{word} "
            self._ask(Append(name, text), now + index / listener.words_per_second)
        self._ask(Finish(name), now + (len(words) - 1) / listener.words_per_second)

    def _ask(self, command: Command, now: float) -> None:
        """Send on the way up, which keeps the order of what is sent at the same moment."""
        simulation = self._simulation
        arrives = self._up.arrives(now) if now <= simulation.now else now + self._delay
        simulation.at(arrives, simulation.send, self._reply.engine, command)

    @property
    def _delay(self) -> float:
        network: Network = self._listener.network
        return network.delay

    # ----------------------------------------------------------------- sound

    def sound(self, audio: Audio, now: float) -> None:
        """Sound leaves the engine."""
        length = len(audio.pcm) / 2 / SAMPLE_RATE
        if length and self._interrupted_at is None:
            self._even.receive(length, now)
        self._simulation.at(self._down.arrives(now), self._receive, length, audio.last)

    def end(self, ended: Ended, now: float) -> None:
        """The engine is done with the reply."""
        reply = self._reply
        reply.ended = ended.detail or ended.reason
        reply.made = ended.generated / SAMPLE_RATE
        reply.late = self._even.silence if self._even.silence > LATE else 0.0
        if ended.reason in ("refused", "failed"):
            self._simulation.at(self._down.arrives(now), self._refused)

    def _refused(self) -> None:
        self._reply.refused_after = self._simulation.now - self._arrival.at
        self._leave()

    def _receive(self, length: float, last: bool) -> None:
        player, now = self._player, self._simulation.now
        if self._stopped:
            return
        before = player.state(now)
        if length:
            player.receive(length, now)
        if last:
            player.finish(now)
        if before == "waiting" and player.started_at is not None:
            self._started(now)
        elif before == "stalled":
            self._report()
        if player.started_at is not None:
            self._watch_end()

    def _started(self, now: float) -> None:
        simulation, listener = self._simulation, self._listener
        if listener.pause_after is not None:
            simulation.at(now + listener.pause_after * self._expected, self._pause)
        if listener.barge_in_after is not None:
            simulation.at(now + listener.barge_in_after * self._expected, self._barge_in)
        if listener.acks:
            self._report()
            simulation.at(now + listener.interval, self._tick)

    def _watch_end(self) -> None:
        dry_at = self._player.dry_at
        if self._player.complete and dry_at < float("inf"):
            self._simulation.at(dry_at, self._maybe_over)

    def _maybe_over(self) -> None:
        now = self._simulation.now
        if not self._stopped and self._player.complete and self._player.dry_at <= now + TINY:
            self._report()
            self._leave()

    # -------------------------------------------------------------- the human

    def _pause(self) -> None:
        now = self._simulation.now
        if self._stopped or self._player.state(now) not in ("playing", "stalled"):
            return
        self._player.pause(now)
        self._even.pause(now)
        self._report()
        self._simulation.at(now + self._listener.pause, self._resume)

    def _resume(self) -> None:
        now = self._simulation.now
        self._player.resume(now)
        self._even.resume(now)
        if not self._stopped:
            self._report()
            self._watch_end()

    def _barge_in(self) -> None:
        now = self._simulation.now
        if self._stopped:
            return
        self._player.stop(now)
        self._interrupted_at = now
        self._ask(Cancel(self._name), now)
        self._leave()

    def _leave(self) -> None:
        self._stopped = True
        self._simulation.over(self._name)

    # --------------------------------------------------------------- reports

    def _tick(self) -> None:
        if not self._stopped:
            self._report()
            self._simulation.at(self._simulation.now + self._listener.interval, self._tick)

    def _report(self) -> None:
        listener, player, simulation = self._listener, self._player, self._simulation
        if not (listener.acks and simulation.listens) or self._random.random() < listener.loss:
            return
        now = simulation.now
        rendered, state = player.rendered(now), player.state(now)
        if listener.reports == "greedy":
            rendered, state = player.received, "playing"
        report = Playback(self._name, rendered, state, self._delay)
        simulation.at(self._up.arrives(now), simulation.send, self._reply.engine, report)

    # --------------------------------------------------------------- figures

    @property
    def honest(self) -> bool:
        """Whether the listener says what is true, if anything."""
        return self._listener.reports != "greedy"

    def lead(self, now: float) -> float | None:
        """Return the seconds of sound ahead of the listener; None before any and after all."""
        if self._even.received == 0:
            return None
        return max(0.0, self._even.received - self._player.rendered(now))

    def report(self, now: float) -> Reply:
        """Return what was heard."""
        reply, player = self._reply, self._player
        if player.first_at is not None:
            reply.first_sound = player.first_at - self._arrival.at
        reply.received = player.received
        reply.heard = player.rendered(now)
        reply.stalls, reply.silence = player.stalls, player.silence
        return reply
