"""What a simulation found: per reply, per device, and the figures made of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import nan
from typing import Any

from engine.percentile import percentile
from engine.simulation.arrivals import Arrival
from engine.work import Stage

SHARES = (0.5, 0.95, 0.99)


@dataclass(slots=True)
class Reply:
    """What one listener heard, and what was made for it."""

    arrival: Arrival
    engine: int = 0
    first_sound: float | None = None  # s from the request to the sound's arrival
    received: float = 0.0  # s of sound
    heard: float = 0.0  # s that came out of the client's buffer
    stalls: int = 0
    silence: float = 0.0  # s of silence inside the reply
    late: float = 0.0  # s by which the engine itself was late, network and client apart
    made: float = 0.0  # s of sound generated
    refused_after: float | None = None  # s from the request to the refusal's arrival
    ended: str = ""


@dataclass(slots=True)
class DeviceUse:
    """What a device did, or several."""

    seconds: dict[Stage, float] = field(default_factory=lambda: dict.fromkeys(Stage, 0.0))
    launches: dict[Stage, int] = field(default_factory=lambda: dict.fromkeys(Stage, 0))
    rows: dict[Stage, int] = field(default_factory=lambda: dict.fromkeys(Stage, 0))
    missed: dict[Stage, float] = field(default_factory=lambda: dict.fromkeys(Stage, 0.0))
    busy: float = 0.0  # s in which anything ran, however many launches at once
    lived: float = 0.0  # s of virtual time
    _runs: list[tuple[float, float]] = field(default_factory=list)  # from, to; what `busy` adds up

    def add(self, stage: Stage, rows: int, *, predicted: float, began: float, ended: float) -> None:
        """Count one launch; none ended later before."""
        self.seconds[stage] += ended - began
        self.launches[stage] += 1
        self.rows[stage] += rows
        self.missed[stage] += abs(predicted - (ended - began))
        while self._runs and self._runs[-1][1] >= began:
            earlier, until = self._runs.pop()
            self.busy -= until - earlier
            began = min(began, earlier)
        self._runs.append((began, ended))
        self.busy += ended - began

    def absorb(self, other: DeviceUse) -> None:
        """Count another device's launches as well."""
        self.busy += other.busy
        self.lived += other.lived
        for stage in Stage:
            self.seconds[stage] += other.seconds[stage]
            self.launches[stage] += other.launches[stage]
            self.rows[stage] += other.rows[stage]
            self.missed[stage] += other.missed[stage]

    @property
    def total(self) -> float:
        """Seconds of work; launches side by side add up."""
        return sum(self.seconds.values())


@dataclass(frozen=True, slots=True)
class Report:
    """The replies of one simulation, and what they cost."""

    replies: list[Reply] = field(default_factory=list)
    device: DeviceUse = field(default_factory=DeviceUse)
    leads: list[float] = field(default_factory=list)  # s of unheard sound, sampled over replies
    slacks: list[float] = field(
        default_factory=list
    )  # s until the next work must start, of honest listeners
    duration: float = 0.0  # s of virtual time

    @classmethod
    def pooled(cls, reports: Sequence[Report]) -> Report:
        """Return several simulations as one; what counts per second of time adds up."""
        return cls(
            [reply for each in reports for reply in each.replies],
            pooled(each.device for each in reports),
            [lead for each in reports for lead in each.leads],
            [slack for each in reports for slack in each.slacks],
            sum(each.duration for each in reports),
        )

    @property
    def device_seconds(self) -> float:
        """Seconds that devices worked; launches side by side add up."""
        return self.device.total

    @property
    def underrun_replies(self) -> int:
        """Replies in which the listener heard silence."""
        return sum(1 for reply in self.replies if reply.stalls)

    @property
    def late_replies(self) -> int:
        """Replies whose sound left the engine after the moment an even network would need it."""
        return sum(1 for reply in self.replies if reply.late > 0)

    @property
    def refused(self) -> list[Reply]:
        """Replies that were not taken on."""
        return [reply for reply in self.replies if reply.refused_after is not None]

    @property
    def heard(self) -> float:
        """Seconds of sound that were heard."""
        return sum(reply.heard for reply in self.replies)

    @property
    def wasted(self) -> float:
        """Seconds of sound that were made and never heard."""
        return sum(max(0.0, reply.made - reply.heard) for reply in self.replies)

    @property
    def wasted_device_seconds(self) -> float:
        """The device's part in them."""
        made = sum(reply.made for reply in self.replies)
        return self.device_seconds * self.wasted / made if made else 0.0

    def first_sound(self, share: float) -> float:
        """Return a percentile of the time to first sound, s; `nan` if there was none."""
        return percentile((r.first_sound for r in self.replies if r.first_sound is not None), share)

    def figures(self) -> dict[str, Any]:
        """Return every figure under the name that JSON uses; durations in s."""
        device, refused = self.device, self.refused
        spoken = [reply for reply in self.replies if reply.received]
        clean = sum(reply.heard for reply in self.replies if not reply.stalls)
        return {
            "replies": len(self.replies),
            "completed": sum(1 for reply in self.replies if reply.ended == "complete"),
            "cancelled": sum(1 for reply in self.replies if reply.ended == "cancelled"),
            "refused": len(refused),
            "refusal_p99": _rounded(percentile((r.refused_after or 0.0 for r in refused), 0.99)),
            "underrun_replies": self.underrun_replies,
            "gaps": sum(reply.stalls for reply in self.replies),
            "underrun_seconds": _rounded(sum(reply.silence for reply in self.replies)),
            "late_replies": self.late_replies,
            "first_sound": _shares(r.first_sound for r in spoken if r.first_sound is not None),
            "heard_seconds": _rounded(self.heard),
            "made_seconds": _rounded(sum(reply.made for reply in self.replies)),
            "wasted_seconds": _rounded(self.wasted),
            "gpu_seconds": _rounded(self.device_seconds),
            "gpu_seconds_per_heard_second": _rounded(_ratio(self.device_seconds, self.heard)),
            "gpu_seconds_wasted": _rounded(self.wasted_device_seconds),
            "gpu_busy_share": _rounded(_ratio(device.busy, device.lived)),
            "goodput": _rounded(_ratio(clean, self.duration)),
            "mean_lead": _rounded(_ratio(sum(self.leads), len(self.leads))),
            "slack": {"p1": _rounded(percentile(self.slacks, 0.01)), **_shares(self.slacks)},
            "seconds": _rounded(self.duration),
            "owners": self._owners(),
            "stages": {
                stage.value: {
                    "launches": device.launches[stage],
                    "mean_rows": _rounded(_ratio(device.rows[stage], device.launches[stage])),
                    "gpu_seconds": _rounded(device.seconds[stage]),
                    "prediction_error": _rounded(
                        _ratio(device.missed[stage], device.seconds[stage])
                    ),
                }
                for stage in Stage
            },
        }

    def _owners(self) -> dict[str, dict[str, Any]]:
        """Return what the replies of each key heard, where there is more than one."""
        keys = sorted({reply.arrival.key for reply in self.replies})
        owned = {key: [r for r in self.replies if r.arrival.key == key] for key in keys}
        return {
            key: {
                "replies": len(replies),
                "refused": sum(1 for reply in replies if reply.refused_after is not None),
                "underrun_replies": sum(1 for reply in replies if reply.stalls),
                "first_sound": _shares(r.first_sound for r in replies if r.first_sound is not None),
            }
            for key, replies in owned.items()
            if len(owned) > 1
        }


def pooled(uses: Iterable[DeviceUse]) -> DeviceUse:
    """Return what several devices did together."""
    together = DeviceUse()
    for each in uses:
        together.absorb(each)
    return together


def _shares(values: Iterable[float]) -> dict[str, float | None]:
    ordered: Sequence[float] = sorted(values)
    return {f"p{share * 100:.0f}": _rounded(percentile(ordered, share)) for share in SHARES}


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else nan


def _rounded(value: float) -> float | None:
    return None if value != value else round(value, 5)  # JSON knows no NaN
