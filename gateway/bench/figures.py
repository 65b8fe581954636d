"""Replies → the figures of a run. Pure; percentiles are by nearest rank."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gateway.bench.take import Reply

LAG_LIMIT = 0.005  # s: a load generator later than this measures itself


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Of one figure over the replies that have it; None if none has."""

    p50: float | None
    p95: float | None
    p99: float | None
    most: float | None

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Quantiles:
        """Leave out what is None."""
        known = sorted(value for value in values if value is not None)
        return cls(*(percentile(known, share) for share in (50, 95, 99, 100)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What the figures depend on besides the replies."""

    duration: float  # s measured
    gpus: int = 1
    dollars_per_hour: float | None = None
    duty: float = 1.0  # share of paid hours in which the server is as busy as here
    loop_lag: float | None = None  # s, p95 of the load processes' event loops, the worst of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One run. Times in s."""

    replies: int
    outcomes: dict[str, int]
    codes: dict[str, int]
    first_playable: Quantiles
    audible: Quantiles
    end: Quantiles
    underrun_replies: int
    underrun_seconds: float
    replies_per_second: float
    sound_per_second: float  # s of sound received in a second
    heard_per_second: float
    lead: float  # s of unheard sound in hand, the mean over the replies
    wasted: float  # s received and never heard
    device_wasted: float  # GPU seconds paid for them
    device_per_heard: float | None  # GPU seconds paid per second heard
    dollars_per_million: float | None  # heard characters
    duty: float
    lag: Quantiles
    loop_lag: float | None
    void: str  # why these figures say nothing; empty: they count

    def fields(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @classmethod
    def read(cls, fields: dict[str, Any]) -> Summary:
        """From `fields`."""
        quantiles = {
            name: Quantiles(**fields[name]) for name in ("first_playable", "audible", "end", "lag")
        }
        return cls(**{**fields, **quantiles})


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """The nearest rank: the least value that `share` percent of all do not exceed.

    Args:
        ordered: ascending; empty gives None.
    """
    if not ordered:
        return None
    return ordered[max(1, math.ceil(round(share / 100 * len(ordered), 9))) - 1]


def summarize(replies: Sequence[Reply], conditions: Conditions) -> Summary:
    """The figures of the replies that fell into the measured time."""
    spoken = [reply for reply in replies if reply.outcome in ("complete", "cancelled")]
    lag = Quantiles.of(reply.lag for reply in replies)
    heard = sum(reply.heard for reply in spoken)
    sound = sum(reply.sound for reply in spoken)
    characters = sum(reply.heard_characters for reply in spoken)
    duration = conditions.duration
    return Summary(
        replies=len(replies),
        outcomes=dict(Counter(reply.outcome for reply in replies)),
        codes=dict(Counter(reply.code for reply in replies if reply.code)),
        first_playable=Quantiles.of(reply.first_playable for reply in spoken),
        audible=Quantiles.of(reply.audible for reply in spoken),
        end=Quantiles.of(reply.end for reply in replies if reply.outcome == "complete"),
        underrun_replies=sum(reply.underruns > 0 for reply in spoken),
        underrun_seconds=sum(reply.dry for reply in spoken),
        replies_per_second=len(spoken) / duration,
        sound_per_second=sound / duration,
        heard_per_second=heard / duration,
        lead=sum(reply.lead for reply in spoken) / len(spoken) if spoken else 0.0,
        wasted=sound - heard,
        device_wasted=conditions.gpus * duration * (1 - heard / sound) if sound else 0.0,
        device_per_heard=conditions.gpus * duration / heard if heard else None,
        dollars_per_million=_dollars(characters, conditions),
        duty=conditions.duty,
        lag=lag,
        loop_lag=conditions.loop_lag,
        void=_void(lag, conditions.loop_lag, spoken),
    )


def _dollars(characters: float, conditions: Conditions) -> float | None:
    if conditions.dollars_per_hour is None or not characters:
        return None
    heard_per_hour = characters / conditions.duration * 3600 * conditions.duty
    return conditions.dollars_per_hour / heard_per_hour * 1e6


def _void(lag: Quantiles, loop_lag: float | None, spoken: Sequence[Reply]) -> str:
    late = "the load generator was late: p95 {:.1f} ms; want at most {:.0f}: use more `--processes`"
    worst = max(lag.p95 or 0.0, loop_lag or 0.0)
    if not any(reply.sound for reply in spoken):
        return "no reply with sound fell into the measured time"
    return late.format(worst * 1000, LAG_LIMIT * 1000) if worst > LAG_LIMIT else ""
