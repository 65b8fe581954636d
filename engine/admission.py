"""May this utterance be opened? Predicted from costs, so that nobody admitted starves. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from engine.config import SchedulerConfig
from engine.costs import CostModel
from engine.utterance import Utterance

RETRY_AFTER = 0.5  # s: in that time one of eight replies of four seconds ends


def retry_after(
    live: Sequence[Utterance],
    *,
    slots: int,
    costs: CostModel,
    config: SchedulerConfig,
) -> float | None:
    """Return None to admit one more utterance, or the seconds after which to ask again.

    Utterances whose speech is all made cost nothing but their slot. One utterance is always
    admitted to an idle device, however slow it is: late sound beats none.
    """
    generating = sum(1 for each in live if each.generating)
    # Under pressure chunks shrink to the smallest: who cannot be kept up then, never can.
    share = costs.busy_share(generating + 1, config.chunk_ladder[0])
    if len(live) < slots and (not generating or share <= config.load_limit):
        return None
    return RETRY_AFTER
