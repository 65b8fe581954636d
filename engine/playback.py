"""Where one listener is, and when silence would start. Pure; `now` is always an argument.

Two estimates are kept. *Open loop*: playback starts the moment sound is sent and never pauses, the
earliest that is physically possible. *Acked*: the last reported position, carried forward. The
later of the two counts, so a report can only give time back and lying gains nothing.
"""

from __future__ import annotations

from math import inf

from engine.api import PlaybackState, PlayheadModel

CLIENT_WORK = 0.02  # s a client needs from the socket to the rendered sample (decode, callback)
STALE_AFTER = 1.0  # s without a report: the estimate is carried forward but no longer believed
PAUSE_BELIEVED = 5.0  # s that a pause outlives its last report
NOTICEABLE = 0.001  # s: a report that moves the estimate by less changes no decision


class PlaybackClock:
    """The playhead of one utterance.

    Args:
        opened_at: when the utterance was opened, s.
        patience: s after `opened_at` (or after the predecessor ends) at which first sound is due.
        acks: the listener promised reports.
        after: the clock of the utterance heard before this one.
    """

    def __init__(
        self, opened_at: float, *, patience: float, acks: bool, after: PlaybackClock | None = None
    ) -> None:
        self.sent = 0.0  # s of sound sent
        self.complete = False  # nothing more will be sent
        self._due = opened_at + patience
        self._acks = acks
        self._after = after
        self._dry_open = -inf
        self._rendered = 0.0  # s, at `_true_at`
        self._state: PlaybackState = "waiting"
        self._delay = 0.0
        self._true_at = -inf  # when `_rendered` was true; -inf: never reported
        self._heard_at = -inf  # when the report arrived
        self._dry_told = -inf  # the estimate when a report last moved it; -inf: sound came since
        self._closed_at = inf  # cancelled or failed: nothing sounds afterwards

    # ------------------------------------------------------------- facts

    def audio_sent(self, seconds: float, now: float) -> None:
        """Count sound that leaves for the listener."""
        self._dry_open = max(self._dry_open, now) + seconds
        self.sent += seconds
        self._dry_told = -inf

    def reported(self, rendered: float, state: PlaybackState, delay: float, now: float) -> bool:
        """Take the listener's word that `rendered` s had sounded `delay` s ago.

        Returns whether that moved the estimate. Another state always does: a pause and an end have
        the same estimate, but whoever is queued behind hears of the one and not of the other.
        """
        self._rendered = max(self._rendered, min(rendered, self.sent))
        turned, self._state = state != self._state, state
        self._delay = delay
        self._true_at = now - delay
        self._heard_at = now
        dry = self.dry_at(now)
        if not turned and (dry == self._dry_told or abs(dry - self._dry_told) < NOTICEABLE):
            return False
        self._dry_told = dry
        return True

    def close(self, now: float) -> None:
        """The utterance was stopped: successors need not wait for it."""
        self._closed_at = now
        self.complete = True

    # ----------------------------------------------------------- questions

    def dry_at(self, now: float) -> float:
        """Return the moment silence would start, s; `inf` while paused or ended."""
        dry = self._due if self.sent == 0 else max(self._dry_open, self._dry_acked(now))
        if self._after is None:
            return dry
        return max(dry, self._predecessor_ends(now) + self.sent)

    def ends_at(self, now: float) -> float:
        """Return when the sound sent so far will have been heard."""
        if self._closed_at < inf:
            return self._closed_at
        if self._state == "ended" and self._rendered >= self.sent:
            return self._true_at
        return self.dry_at(now)

    def lead(self, now: float) -> float:
        """Return the seconds of sound that lie ahead of the listener."""
        return self.lead_until(self.dry_at(now), now)

    def lead_until(self, dry: float, now: float) -> float:
        """Return the same, where `dry_at(now)` is known."""
        if self.sent == 0 and self._after is None:
            return 0.0
        if dry < inf:
            return max(0.0, dry - now)
        return self.sent - self._rendered

    def changes_at(self, now: float) -> float:
        """Return when the estimate changes by time alone, s; `inf` if only facts change it."""
        stands = self._state in ("paused", "waiting")
        ends = self._heard_at + PAUSE_BELIEVED if stands else inf
        own = ends if ends > now else inf
        return own if self._after is None else min(own, self._after.changes_at(now))

    def model(self, now: float) -> PlayheadModel:
        """Name what the estimate rests on."""
        if not self._acks or self._heard_at == -inf:
            return "open_loop"
        return "stale" if now - self._heard_at > STALE_AFTER else "acked"

    # ------------------------------------------------------------ estimates

    def _dry_acked(self, now: float) -> float:
        if self._heard_at == -inf:
            return -inf
        unheard = self.sent - self._rendered
        if self._state == "ended":
            return inf if unheard <= 0 and self.complete else -inf
        if self._state == "paused":
            return inf if now < self._heard_at + PAUSE_BELIEVED else -inf
        if self._state == "waiting":
            return now + unheard if now < self._heard_at + PAUSE_BELIEVED else -inf
        return self._true_at + unheard - self._delay - CLIENT_WORK

    def _predecessor_ends(self, now: float) -> float:
        assert self._after is not None
        ends_at = self._after.ends_at(now)
        if ends_at <= now and self._after.complete:
            self._after = None  # heard: let go of the chain, but nothing sounded before its end
            self._due = max(self._due, ends_at)
            if self.sent:
                self._dry_open = max(self._dry_open, ends_at + self.sent)
        return ends_at
