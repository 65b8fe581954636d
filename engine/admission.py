"""May this utterance be opened? Predicted, so that nobody who was admitted ever starves. Pure.

The device works in *sweeps*: one frame for everyone who generates, and the chunks of those about to
run dry. A newcomer is admitted if, at every moment of the near future, the device will have had
time for the sweeps that keep the poorest listener above the reserve.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection
from dataclasses import dataclass, field
from math import ceil, inf

from engine.api import FRAME_SECONDS, Command, Open
from engine.config import SchedulerConfig
from engine.costs import CostModel
from engine.utterance import Utterance
from engine.work import Stage

HORIZON = 2.0  # s ahead that the prediction looks
MOMENTS = (0.1, 0.25, 0.5, 1.0, HORIZON)  # s ahead at which listeners are checked
POOR = 0.3  # s of sound ahead below which a listener's chunks are small
LOOK_EVERY = 0.005  # s between looks at whether a held utterance fits by now
RETRY_AFTER = 0.5  # s: in that time one of eight replies of four seconds ends


@dataclass(slots=True)
class Held:
    """An utterance that waits for room, with what was said to it meanwhile."""

    options: Open
    until: float  # then it is refused
    commands: list[Command] = field(default_factory=list)


class Admission:
    """Decides who gets in, and keeps those who may get in shortly.

    Args:
        config: reserve, load limit and how long to hold.
        costs: expected durations.
        slots: utterances the device can hold.
    """

    def __init__(self, config: SchedulerConfig, costs: CostModel, slots: int) -> None:
        self._held: deque[Held] = deque()
        self._look_at = -inf
        self._config = config
        self._costs = costs
        self._slots = slots

    def admits(self, options: Open, live: Collection[Utterance], now: float) -> bool:
        """Whether one more utterance leaves every listener's sound unbroken.

        An idle device admits anyone: late sound beats none.
        """
        if len(live) >= self._slots:
            return False
        if not any(each.generating for each in live):
            return True
        slack = predicted_slack(live, costs=self._costs, config=self._config, now=now)
        if slack < 0:
            return False
        return slack > self._config.reserve or self._fair(options.key, live)

    def hold(self, options: Open, now: float) -> None:
        """Keep an utterance that was not admitted for a little while."""
        self._held.append(Held(options, now + self._config.hold))

    def waiting(self, name: str) -> Held | None:
        """Return the held utterance of that name."""
        return next((each for each in self._held if each.options.utterance == name), None)

    def drop(self, held: Held) -> None:
        """Forget a held utterance that gave up."""
        self._held.remove(held)

    def next_in(self, live: Collection[Utterance], now: float) -> Held | None:
        """Take out the first held utterance if there is room now; first come, first served."""
        if not self._held or now < self._look_at:
            return None
        if self.admits(self._held[0].options, live, now):
            return self._held.popleft()
        self._look_at = now + LOOK_EVERY  # a full device has better things to do
        return None

    def expired(self, now: float) -> Held | None:
        """Take out the first held utterance if it has waited long enough."""
        return self._held.popleft() if self._held and self._held[0].until <= now else None

    @property
    def busy(self) -> bool:
        """Whether anyone is held."""
        return bool(self._held)

    @property
    def wakes_at(self) -> float:
        """When the first held utterance has waited long enough, s."""
        return self._held[0].until if self._held else inf

    def _fair(self, key: str, live: Collection[Utterance]) -> bool:
        """On a device that is nearly full, nobody gets more than an equal share."""
        owners = Counter(each.options.key for each in live)
        owners[key] += 1
        return owners[key] <= ceil(owners.total() / len(owners))


def predicted_slack(
    live: Collection[Utterance], *, costs: CostModel, config: SchedulerConfig, now: float
) -> float:
    """Return the least spare device time with one more utterance, s; negative: someone starves.

    Those who listen come first, whenever they are poor; start-ups share what is left, and must
    have had their turn by the end of the horizon.
    """
    generating = [each for each in live if each.generating]
    # one that has said all its text is silent for want of words: no device time could help it
    leads = [_ahead(each, now) for each in generating if each.samples and not each.stalled]
    rows = len(generating) + 1
    starting = rows - len(leads)
    poor = starting + sum(1 for lead in leads if lead < POOR)
    largest = config.chunk_ladder[-1]
    step = costs.predict(Stage.TALKER, rows) + costs.predict(Stage.PREDICTOR, rows)
    chunks = costs.predict(Stage.CODEC, poor) + costs.predict(Stage.CODEC, rows, largest) / largest
    sweep = step + chunks
    start_up = starting * costs.until_sound(Stage.PREFILL)
    slack = HORIZON * (config.load_limit - sweep / FRAME_SECONDS) - start_up
    if not leads:
        return slack
    blocked = max(costs.predict(Stage.PREFILL), costs.predict(Stage.PREDICTOR, rows))
    poorest = min(leads) - config.reserve
    spare = (
        moment * config.load_limit - blocked - sweep * max(0.0, moment - poorest) / FRAME_SECONDS
        for moment in MOMENTS
    )
    return min(slack, *spare)


def _ahead(utterance: Utterance, now: float) -> float:
    """Seconds until the listener needs a frame that is not made yet."""
    return utterance.clock.dry_at(now) - now + utterance.unsent
