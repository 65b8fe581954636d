"""`playhead simulate`: what listeners would hear at a load, from launch times alone.

One policy in detail, several side by side, or figures over a range of rates; as tables, JSON or
pictures. Virtual time: minutes of a busy device pass in seconds of one core.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

from engine.api import ConfigError
from engine.config import EngineConfig, ModelConfig, load
from engine.scheduler import Scheduler
from engine.silent import Costs, scripted_costs
from engine.simulation.arrivals import CHARACTERS, PATTERNS, Arrival, arrivals
from engine.simulation.costs import read_costs
from engine.simulation.listeners import POPULATIONS
from engine.simulation.report import Report
from engine.simulation.simulation import Simulation
from engine.tools import tables
from engine.tools.plots import sweep_plot, timeline_plot
from engine.tools.policies import ENTRANTS
from engine.trace import Recorder, Trace, read_log
from engine.work import ONE_STREAM, Observer, Stream

SLOTS = 1024  # utterances a large device has memory for: admission decides by time
ROWS = 64  # most works in one launch, as the cost file was measured
COSTS = (  # of a checkout, of an installation
    Path(__file__).parents[2] / "configs" / "costs",
    Path(sys.prefix) / "share" / "playhead" / "configs" / "costs",
)
STREAMS = {1: ONE_STREAM, 3: tuple(Stream)}  # as a card's `overlap` off and on
USAGE_ERROR = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate, and print what was found."""
    options = parser().parse_args(arguments)
    chosen = options.policy or ["playhead"]
    options.policy = list(ENTRANTS) if "all" in chosen else list(dict.fromkeys(chosen))
    try:
        return _run(options)
    except ConfigError as error:
        print(f"playhead simulate: {error}", file=sys.stderr)
        return USAGE_ERROR


def _run(options: argparse.Namespace) -> int:
    config, costs = _config(options), _costs(options)
    if options.replay:
        return _replay(options, config, costs)
    rates = options.sweep or [options.rps]
    results: list[dict[str, Any]] = []
    for rate in rates:
        for name in options.policy:
            results.append(_one(options, config, costs, rate=rate, name=name))
            if not options.json:
                tables.progress(results[-1])
    _show(options, results)
    return 0


def _one(
    options: argparse.Namespace,
    config: EngineConfig,
    costs: Costs,
    *,
    rate: float,
    name: str,
) -> dict[str, Any]:
    """Simulate one policy at one rate, with one seed or several; the first is watched."""
    trace = Trace() if options.trace or options.timeline else None
    recorder = Recorder() if options.record else None
    began = time.process_time()
    observers: list[Observer] = [each for each in (trace, recorder) if each]
    reports = []
    for seed in range(options.seed, options.seed + options.seeds):
        replies = _arrivals(options, rate, seed)
        reports.append(
            simulate(
                options, config, costs, name=name, replies=replies, seed=seed, observers=observers
            )
        )
        observers = []
    report = Report.pooled(reports)
    taken = time.process_time() - began
    if trace and options.trace:
        options.trace.write_text(json.dumps(trace.to_chrome()), encoding="utf-8")
    if trace and options.timeline:
        options.timeline.write_text(timeline_plot(trace.spans), encoding="utf-8")
    if recorder:
        options.record.write_text(recorder.to_lines(), encoding="utf-8")
    head = {
        "policy": name,
        "listeners": options.listeners,
        "rps": rate,
        "seed": options.seed,
        "seeds": options.seeds,
        "engines": options.engines,
        "streams": len(_streams(options, name)),
    }
    speed = {"times_real_time": round(report.duration / max(taken, 1e-9), 1)}
    return head | report.figures() | speed


def simulate(
    options: argparse.Namespace,
    config: EngineConfig,
    costs: Costs,
    *,
    name: str,
    replies: Sequence[Arrival],
    seed: int,
    observers: Sequence[Observer] = (),
) -> Report:
    """Run one policy over one load."""
    entrant = ENTRANTS[name]
    max_lead = entrant.max_lead
    if options.max_lead is not None:
        max_lead = (options.max_lead or None, options.max_lead or None)
    simulation = Simulation(
        replies,
        config,
        costs=costs,
        engines=options.engines,
        policy=entrant.policy,
        max_lead=max_lead,
        listens=entrant.listens,
        watch_slack=options.slack,
        hiccups=options.hiccups,
        streams=_streams(options, name),
        seed=seed,
        observers=observers,
    )
    return simulation.run()


def _replay(options: argparse.Namespace, config: EngineConfig, costs: Costs) -> int:
    """Run a recorded command log again, without listeners: the log holds what they said."""
    trace = Trace()
    commands = read_log(options.replay)
    streams = _streams(options, "playhead")
    simulation = Simulation(
        [], config, costs=costs, streams=streams, seed=options.seed, observers=[trace]
    )
    figures = simulation.replay(commands).figures()
    if options.trace:
        options.trace.write_text(json.dumps(trace.to_chrome()), encoding="utf-8")
    if options.timeline:
        options.timeline.write_text(timeline_plot(trace.spans), encoding="utf-8")
    _show(options, [{"policy": "playhead", "listeners": "recorded", "rps": 0.0} | figures])
    return 0


def _show(options: argparse.Namespace, results: list[dict[str, Any]]) -> None:
    if options.plot:
        options.plot.write_text(sweep_plot(results), encoding="utf-8")
    if options.json:
        print(json.dumps(results[0] if len(results) == 1 else results, indent=2))
    elif len(results) == 1:
        tables.detail(results[0])
    else:
        tables.comparison(results)


def _arrivals(options: argparse.Namespace, rate: float, seed: int) -> list[Arrival]:
    replies = arrivals(
        rate,
        options.duration,
        population=POPULATIONS[options.listeners],
        seed=seed,
        pattern=PATTERNS[options.arrivals],
        characters=options.characters,
    )
    listener = POPULATIONS[options.listeners].base
    for at, count in options.burst:
        text = "a" * (int(options.characters) - 1) + "."
        replies += [Arrival(at, text, listener, key=f"burst at {at:g} s")] * int(count)
    if options.keys:
        replies = [
            replace(each, key=each.key or f"k{n % options.keys}") for n, each in enumerate(replies)
        ]
    return replies


def _streams(options: argparse.Namespace, name: str) -> Collection[Stream]:
    """Return what a policy's device runs side by side; those of others know one stream only."""
    return STREAMS[options.streams] if ENTRANTS[name].policy is Scheduler else ONE_STREAM


def _config(options: argparse.Namespace) -> EngineConfig:
    base = EngineConfig(model=ModelConfig(checkpoint="silent", slots=SLOTS, rows=ROWS))
    if not (options.config or options.set):
        return base
    sections = {"engine": EngineConfig}
    overrides = options.set
    if not options.config:
        overrides = [f"engine.model.slots={SLOTS}", f"engine.model.rows={ROWS}", *overrides]
    return load(options.config, overrides, sections, others=["gateway"])["engine"]


def _costs(options: argparse.Namespace) -> Costs:
    if options.costs is None:
        return scripted_costs
    path: Path = options.costs
    if path.suffix or path.exists():
        return read_costs(path)
    shipped = [folder / f"{path}.toml" for folder in COSTS]
    path = next((each for each in shipped if each.exists()), shipped[0])
    return read_costs(path)


def parser() -> argparse.ArgumentParser:
    """Return what the command line understands."""
    parser_ = argparse.ArgumentParser(prog="playhead simulate", description=__doc__.split("\n")[0])
    add = parser_.add_argument
    names = ", ".join
    add("--rps", type=_number(float, 0), default=20.0, help="replies a second (20); 0: only bursts")
    add("--duration", type=_number(float, 0), default=30.0, help="seconds of arrivals (30)")
    add("--seed", type=int, default=7, help="of arrivals, listeners and networks (7)")
    add(
        "--seeds", type=_number(int, 1), default=1, help="runs, each with the next seed, as one (1)"
    )
    add("--listeners", choices=list(POPULATIONS), default="plain", help="who listens (plain)")
    add(
        "--policy",
        action="append",
        choices=[*ENTRANTS, "all"],
        help=f"who decides; may be repeated: {names(ENTRANTS)}, all (playhead)",
    )
    add("--arrivals", choices=list(PATTERNS), default="poisson", help="pattern (poisson)")
    add(
        "--burst",
        action="append",
        nargs=2,
        type=_number(float, 0),
        default=[],
        metavar=("AT", "COUNT"),
        help="replies at one moment besides; may be repeated",
    )
    add(
        "--characters",
        type=_number(float, 1),
        default=CHARACTERS,
        help="mean length of a text (68)",
    )
    add("--keys", type=_number(int, 0), default=0, help="owners the replies belong to in turn")
    add("--engines", type=_number(int, 1), default=1, help="devices (1)")
    add(
        "--streams",
        type=int,
        choices=list(STREAMS),
        default=1,
        help="what a device runs side by side under our rule: 3 as on a card (1)",
    )
    add("--costs", type=Path, help="launch times: a file, or a name in configs/costs such as h200")
    add(
        "--max-lead",
        type=_number(float, 0),
        help="seconds for everyone, 0: no limit; else the policy's own",
    )
    add(
        "--hiccups",
        type=_number(float, 0),
        default=0.0,
        help="spread of launch times, as a share (0)",
    )
    add("--slack", action="store_true", help="sample every reply's slack as well")
    add("--sweep", type=_rates, metavar="RATES", help="rates instead of --rps, such as 1,10,100")
    add("--config", type=Path, help="configuration file; its [engine] tables count")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="engine.scheduler.… = …")
    add("--json", action="store_true", help="figures as JSON")
    add("--plot", type=Path, metavar="SVG", help="first sound and underruns over rate")
    add("--timeline", type=Path, metavar="SVG", help="one device: launches and utterances")
    add("--trace", type=Path, metavar="JSON", help="for chrome://tracing and ui.perfetto.dev")
    add("--record", type=Path, metavar="LOG", help="write the commands, for --replay")
    add("--replay", type=Path, metavar="LOG", help="run recorded commands again")
    return parser_


def _number(kind: Callable[[str], float], least: float) -> Callable[[str], float]:
    """Return what reads an option: a finite number of at least `least`."""

    def number(text: str) -> float:
        value = kind(text)
        if not least <= value < inf:
            raise argparse.ArgumentTypeError(f"want {least:g} or more, got: {text}")
        return value

    return number


def _rates(text: str) -> list[float]:
    return [_number(float, 0)(each) for each in text.split(",")]


if __name__ == "__main__":
    sys.exit(main())
