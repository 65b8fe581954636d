"""`python -m engine.tools.drive --rps 1,10`: what an engine delivers, without a network.

The engine runs on its thread in this process. Replies are asked for at the moments of a Poisson
process, however the engine does (open loop), without a lead limit, and each is of a fixed number of
frames. Every piece of sound is played by the simulator's player at the moment it is delivered.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from engine.api import SAMPLE_RATE, Append, Audio, Ended, EngineError, Event, Finish, Info, Open
from engine.config import EngineConfig, ModelConfig
from engine.percentile import percentile
from engine.simulation.listeners import Player
from engine.thread import EngineThread
from engine.tools import tables
from engine.tools.profile import Profile, profile
from engine.trace import Trace

TEXTS = (
    "The river turned south below the old mill.",
    "Your order has left the warehouse and will arrive on Thursday before noon.",
    "I looked it up: the museum opens at ten, and the last tour starts at four.",
    "Please hold the line while I check whether another seat is free.",
)
PATIENCE = 30.0  # s after the last reply was asked for
MILLI = 1e3
SLOWER = "profiled: the host notes every launch, so these figures are slower than without"


@dataclass(slots=True)
class Reply:
    """One utterance, asked for at `asked` and played as it comes."""

    asked: float
    player: Player = field(default_factory=lambda: Player(0.0))
    ended_at: float | None = None
    reason: str = ""


class Crowd:
    """Everyone who listens to one engine; `deliver` is called on its thread."""

    def __init__(self) -> None:
        self.replies: dict[str, Reply] = {}
        self.died: BaseException | None = None
        self._changed = threading.Condition()
        self._open = 0

    def ask(self, engine: EngineThread, options: Open, text: str) -> None:
        """Open an utterance and send all of its text."""
        name = options.utterance
        with self._changed:
            self.replies[name] = Reply(time.monotonic())
            self._open += 1
        for command in (options, Append(name, text), Finish(name)):
            engine.send(command)

    def deliver(self, events: list[Event]) -> None:
        """Hear what one turn of the engine brought."""
        now = time.monotonic()
        with self._changed:
            for event in events:
                if isinstance(event, Audio) and event.pcm:
                    length = len(event.pcm) / 2 / SAMPLE_RATE
                    self.replies[event.utterance].player.receive(length, now)
                elif isinstance(event, Ended):
                    self._end(event, now)
            self._changed.notify_all()

    def lose(self, error: BaseException) -> None:
        """The engine is gone."""
        with self._changed:
            self.died = error
            self._changed.notify_all()

    def wait(self, timeout: float) -> None:
        """Block until everyone has heard the end, the engine is gone, or for `timeout` s."""
        with self._changed:
            self._changed.wait_for(lambda: not self._open or self.died is not None, timeout)

    def _end(self, event: Ended, now: float) -> None:
        reply = self.replies[event.utterance]
        reply.ended_at, reply.reason = now, event.detail or event.reason
        reply.player.finish(now)
        self._open -= 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one load after the other and print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m engine.tools.drive", description=__doc__)
    parser.add_argument("--checkpoint", default="embedded", help="as in the configuration")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--slots", type=int, default=128)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--rps", default="1", help="replies a second: 1,10,20")
    parser.add_argument("--seconds", type=float, default=8.0, help="of arrivals, per load")
    parser.add_argument("--frames", type=int, default=50, help="of each reply; 80 ms each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--overlap",
        choices=("off", "on"),
        default="on",
        help="on CUDA: first sounds and chunks beside the steps of the others",
    )
    parser.add_argument(
        "--deterministic", action="store_true", help="company changes no code that is drawn"
    )
    parser.add_argument(
        "--profile", action="store_true", help="show where time went; costs the host some"
    )
    parser.add_argument("--json", type=Path, help="write every figure")
    options = parser.parse_args(arguments)
    try:
        results = _measure(options)
    except EngineError as error:
        print(f"drive: {error}", file=sys.stderr)
        return 1
    if options.json:
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")
    return 0


def figures(rate: float, replies: Sequence[Reply]) -> dict[str, Any]:
    """Summarise the replies of one load; durations in ms. Refused replies count as ends only."""
    first = [each.player.first_at - each.asked for each in replies if each.player.first_at]
    whole = [
        each.ended_at - each.asked for each in replies if each.ended_at and each.player.received
    ]
    return {
        "rate": rate,
        "replies": len(replies),
        "ends": dict(Counter(each.reason or "never" for each in replies)),
        "first_p50": _percentile(first, 0.5),
        "first_p95": _percentile(first, 0.95),
        "first_p99": _percentile(first, 0.99),
        "whole_p50": _percentile(whole, 0.5),
        "whole_p95": _percentile(whole, 0.95),
        "underruns": sum(each.player.stalls for each in replies),
        "silence": MILLI * sum(each.player.silence for each in replies),
    }


def line(result: dict[str, Any]) -> str:
    """One load, for reading; `turnaround` is the host's own time between two batches."""
    first, whole = (
        " ".join(f"{key} {_ms(result, f'{kind}_{key}')}" for key in keys)
        for kind, keys in (("first", ("p50", "p95", "p99")), ("whole", ("p50", "p95")))
    )
    between = " ".join(
        f"{key} {_between(result['turnaround'][f'between_{key}'])}" for key in ("p50", "p95")
    )
    return (
        f"{result['rate']:6g}/s  {result['replies']:5d} replies  first sound {first} ms"
        f"  end to end {whole} ms  underruns {result['underruns']} ({result['silence']:.1f} ms)"
        f"  {result['ends']}  host between batches {between} ms"
    )


def _measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    model = ModelConfig(
        *(options.checkpoint, options.device),
        slots=options.slots,
        rows=options.rows,
        overlap=options.overlap == "on",
        deterministic=options.deterministic,
        normalise="off",
    )
    crowd = Crowd()
    began = time.monotonic()
    with _folder(options) as folder:
        config = EngineConfig(model=model, trace=folder)
        engine = EngineThread(config, deliver=crowd.deliver, died=crowd.lose)
        engine.start()
        info = engine.wait_ready()
        print(f"{info.model} ready after {time.monotonic() - began:.1f} s", flush=True)
        if options.profile:
            print(SLOWER, flush=True)
        rates = map(float, options.rps.split(","))
        results = [_one(engine, crowd, info, rate, options) for rate in rates]
        engine.stop()
    return results


def _folder(options: argparse.Namespace) -> AbstractContextManager[str]:
    """Return where a profiled engine writes its files, which nobody reads; "": it keeps nothing."""
    if not options.profile:
        return nullcontext("")
    return tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # it may still write, dying


def _one(
    engine: EngineThread, crowd: Crowd, info: Info, rate: float, options: argparse.Namespace
) -> dict[str, Any]:
    """Run one load, print what was found, and return it."""
    crowd.replies.clear()
    engine.turnaround.clear()
    trace = engine.trace
    if trace:
        trace.clear()
    _load(engine, crowd, info, rate, options)
    crowd.wait(PATIENCE)
    result = figures(rate, list(crowd.replies.values()))
    result["turnaround"] = engine.turnaround.figures()
    print(line(result), flush=True)
    if crowd.died is not None:
        raise EngineError(f"the engine died: {crowd.died!r}")
    if trace:
        found = _profile(trace, crowd)
        tables.profile(found)
        result["profile"] = asdict(found)
    return result


def _profile(trace: Trace, crowd: Crowd) -> Profile:
    replies = crowd.replies.items()
    asked = {name: each.asked for name, each in replies}
    delivered = {name: each.player.first_at for name, each in replies if each.player.first_at}
    return profile(trace, asked=asked, delivered=delivered)


def _load(
    engine: EngineThread, crowd: Crowd, info: Info, rate: float, options: argparse.Namespace
) -> None:
    """Ask at the moments of a Poisson process for some seconds."""
    draw = Random(f"{options.seed} {rate}")
    due = time.monotonic()
    until = due + options.seconds
    number = 0
    while (due := due + draw.expovariate(rate)) < until:
        time.sleep(max(0.0, due - time.monotonic()))
        opening = Open(
            f"{rate:g}-{number}",
            info.default_voice,
            seed=number,
            max_lead=None,
            max_frames=options.frames,
            ignore_eos=True,
        )
        crowd.ask(engine, opening, draw.choice(TEXTS))
        number += 1


def _percentile(values: Sequence[float], share: float) -> float | None:
    """In ms; None of nothing."""
    return MILLI * percentile(values, share) if values else None


def _ms(result: dict[str, Any], key: str) -> str:
    return "-" if result[key] is None else f"{result[key]:.1f}"


def _between(seconds: float | None) -> str:
    return "-" if seconds is None else f"{MILLI * seconds:.2f}"


if __name__ == "__main__":
    sys.exit(main())
