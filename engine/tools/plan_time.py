"""What choosing the next launch costs, over the number of live utterances.

    python -m engine.tools.plan_time --live 64 400 1000

Listeners hear speech in real time on a pretended device with time for all of them; every call of
the policy is timed in seconds of its thread, so that other programs do not count.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Collection, Sequence
from typing import Any

from rich.table import Table

from engine.config import EngineConfig, ModelConfig, SchedulerConfig
from engine.costs import CostModel
from engine.scheduler import Scheduler
from engine.silent import scripted_costs
from engine.simulation.arrivals import Arrival
from engine.simulation.simulation import Simulation
from engine.tools.tables import console
from engine.utterance import Utterance
from engine.work import ONE_STREAM, Batch, Stage, Stages, Stream

SECONDS = 1.5  # s of virtual time in which all come
TEXT = "Every one of these listeners hears several seconds of speech from a single sentence."
ROWS = 64
FASTER = 40  # the pretended device must keep up with a thousand listeners
MICRO = 1e6


class Timed(Scheduler):
    """The scheduler, with a stopwatch at its doors."""

    def __init__(self, config: SchedulerConfig, costs: CostModel, stages: Stages) -> None:
        super().__init__(config, costs, stages)
        self.planning: list[float] = []  # s of each call that found a batch
        self.touching: list[float] = []  # s of each
        self.launching: list[float] = []  # s of each look at a launched batch
        self._inside = False

    def touch(self, utterance: Utterance, now: float) -> None:
        """Time a look at an utterance; one inside another call counts there."""
        if self._inside:
            super().touch(utterance, now)
            return
        began = time.thread_time()
        super().touch(utterance, now)
        self.touching.append(time.thread_time() - began)

    def launched(self, batch: Batch, now: float) -> None:
        """Time a look at those in a batch."""
        self._inside = True
        began = time.thread_time()
        super().launched(batch, now)
        self.launching.append(time.thread_time() - began)
        self._inside = False

    def plan(self, now: float, streams: Collection[Stream] = ONE_STREAM) -> Batch | None:
        """Time a decision."""
        self._inside = True
        began = time.thread_time()
        batch = super().plan(now, streams)
        if batch:
            self.planning.append(time.thread_time() - began)
        self._inside = False
        return batch


def measure(live: int) -> dict[str, Any]:
    """Return the times of one simulation with `live` utterances at once."""
    policies: list[Timed] = []

    def timed(config: SchedulerConfig, costs: CostModel, stages: Stages) -> Timed:
        policies.append(Timed(config, costs, stages))
        return policies[-1]

    load = [Arrival(SECONDS * number / live, TEXT) for number in range(live)]
    model = ModelConfig(checkpoint="silent", slots=live, rows=ROWS)
    Simulation(load, EngineConfig(model=model), costs=_fast, policy=timed).run()
    policy = policies[0]
    plans = sorted(policy.planning)
    median = plans[len(plans) // 2]
    batches = len(plans)
    return {
        "live": live,
        "batches": batches,
        "plan_median": median,
        "plan_p99": plans[int(0.99 * batches)],
        "plan_per_live": median / live,
        "touch_median": sorted(policy.touching)[len(policy.touching) // 2],
        "per_batch": sum(plans + policy.touching + policy.launching) / batches,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="plan_time", description=__doc__.split("\n")[0])
    parser.add_argument("--live", type=int, nargs="+", default=[64, 400, 1000])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    results = [measure(live) for live in options.live]
    if options.json:
        print(json.dumps(results, indent=2))
        return 0
    table = Table("live", "batches", "plan µs", "p99 µs", "µs per live", "touch µs", "µs per batch")
    for each in results:
        times = ("plan_median", "plan_p99", "plan_per_live", "touch_median", "per_batch")
        shown = (f"{each[name] * MICRO:.2f}" for name in times)
        table.add_row(f"{each['live']}", f"{each['batches']}", *shown)
    console().print(table)
    return 0


def _fast(stage: Stage, rows: int, frames: int) -> float:
    return scripted_costs(stage, rows, frames) / FASTER


if __name__ == "__main__":
    sys.exit(main())
