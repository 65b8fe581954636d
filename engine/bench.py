"""`python -m engine.bench`: how long each stage takes, by rows, on this device.

Drives the stages as the loop does, without its clock: prefill, then Talker and Code Predictor in
turn, then the codec. `--write-costs` keeps the table for the simulator. Then an engine speaks with
as many utterances, for the host's own time between two batches (`engine.turnaround`).
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from engine.api import Append, Ended, EngineError, Event, Finish, Open
from engine.config import EngineConfig, ModelConfig, SchedulerConfig
from engine.measurement import Measurement
from engine.model.checkpoint import load_random
from engine.model.random_weights import full_size
from engine.thread import EngineThread, build
from engine.work import Stage, Stages

USUAL_PROMPT = 64  # rows: a sentence or two
FRAMES = 50  # of each utterance of the engine that speaks
TEXT = "Your order has left the warehouse and will arrive on Thursday before noon."
CROWDED = EngineConfig(scheduler=SchedulerConfig(load_limit=1e6))  # admits everyone


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table, write what was asked for."""
    parser = argparse.ArgumentParser(prog="playhead engine-bench", description=__doc__)
    parser.add_argument("--checkpoint", default="embedded", help="as in the configuration")
    parser.add_argument("--random", metavar="SIZE", help="random weights: 1.7b or 0.6b")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--rows", default="1,8,32,64", help="rows to measure")
    parser.add_argument("--tokens", default="200", help="prompt rows; the last for the steps")
    parser.add_argument("--tune", action="store_true", help="measure the products' tiles first")
    parser.add_argument("--json", type=Path, help="write every figure")
    parser.add_argument("--write-costs", type=Path, help="write a cost table for the simulator")
    options = parser.parse_args(arguments)
    try:
        report = _report(options)
    except EngineError as error:
        print(f"playhead engine-bench: {error}", file=sys.stderr)
        return 1
    print(table(report))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1), encoding="utf-8")
    if options.write_costs:
        options.write_costs.write_text(costs(report), encoding="utf-8")
    return 0


def table(report: dict[str, Any]) -> str:
    """Lay a report out for reading: milliseconds by stage and rows."""
    lines = [f"{key} {value}" for key, value in report.items() if not isinstance(value, list)]
    for launch in report["launches"]:
        lines.append(
            f"{launch['stage']:<10} rows {launch['rows']:<4} frames {launch['frames']:<3} "
            f"tokens {launch.get('tokens', ''):<5}"
            f"{1e3 * launch['seconds']:8.3f} ms   host {1e3 * launch['host']:6.3f} ms"
        )
    for each in report["turnarounds"]:
        lines.append(
            f"utterances {each['utterances']:<4} turns {each['turns']:<6} host between batches: "
            f"p50 {_ms(each['between_p50'])} p95 {_ms(each['between_p95'])} ms, without launching: "
            f"p50 {_ms(each['deciding_p50'])} p95 {_ms(each['deciding_p95'])} ms"
        )
    return "\n".join(lines)


def costs(report: dict[str, Any]) -> str:
    """Return the launches as TOML tables."""
    head = f"# Measured by `playhead engine-bench` on {report['device']}, {report['date']}.\n"
    return head + "".join(
        f'\n[[launch]]\nstage = "{each["stage"]}"\nrows = {each["rows"]}\n'
        f"frames = {each['frames']}\nseconds = {each['seconds']:.7f}\n"
        for each in _costly(report["launches"])
    )


def _costly(launches: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the launches of the steps' run, with prompts of a usual length if there were any."""
    usual = {each["rows"]: each for each in launches if each.get("tokens") == USUAL_PROMPT}
    return [
        usual.get(each["rows"], each) if each["stage"] == Stage.PREFILL else each
        for each in launches
        if "tokens" not in each
    ]


def _report(options: argparse.Namespace) -> dict[str, Any]:
    counts = [int(each) for each in options.rows.split(",")]
    name = f"random:{options.random}" if options.random else options.checkpoint
    if options.tune:
        _tune(name, max(counts))
    began = time.monotonic()
    model = ModelConfig(
        *(name, options.device, options.dtype),
        slots=max(counts),
        rows=max(counts),
        normalise="off",
        overlap=False,  # what a launch takes that has the device to itself
    )
    stages = build(EngineConfig(model=model))
    on_cuda = torch.cuda.is_available() and options.device != "cpu" and name != "silent"
    launches: list[dict[str, Any]] = []
    turnarounds: list[dict[str, Any]] = []
    report: dict[str, Any] = {
        "checkpoint": name,
        "device": torch.cuda.get_device_name() if on_cuda else "cpu",
        "date": time.strftime("%Y-%m-%d"),
        "torch": torch.__version__,
        "start_seconds": round(time.monotonic() - began, 2),
        "gigabytes": round(torch.cuda.memory_reserved() / 1e9, 2) if on_cuda else 0,
        "launches": launches,
        "turnarounds": turnarounds,
    }
    *prompts, last = (int(each) for each in options.tokens.split(","))
    for rows in counts:
        for tokens in prompts:
            launches += Measurement(stages, on_cuda=on_cuda).prefill(rows, tokens)
        launches += Measurement(stages, on_cuda=on_cuda).run(rows, last)
    turnarounds += [turnaround(stages, rows) for rows in counts]
    return report


def turnaround(stages: Stages, utterances: int) -> dict[str, Any]:
    """Let an engine speak with some utterances at once; return its time between batches, s."""
    audience = _Audience(utterances)
    engine = EngineThread(CROWDED, deliver=audience.deliver, died=audience.lose, stages=stages)
    engine.start()
    voice = engine.wait_ready().default_voice
    for number in range(utterances):
        name = f"bench-{number}"
        limits: dict[str, Any] = {"max_lead": None, "max_frames": FRAMES, "ignore_eos": True}
        engine.send(Open(name, voice, seed=number, **limits))
        engine.send(Append(name, TEXT))
        engine.send(Finish(name))
    audience.wait()
    engine.stop()
    return {"utterances": utterances, **engine.turnaround.figures()}


class _Audience:
    """Waits until everyone has spoken; called on the engine's thread."""

    def __init__(self, utterances: int) -> None:
        self._left = utterances
        self._error: BaseException | None = None
        self._over = threading.Event()

    def deliver(self, events: list[Event]) -> None:
        self._left -= sum(isinstance(event, Ended) for event in events)
        if not self._left:
            self._over.set()

    def lose(self, error: BaseException) -> None:
        self._error = error
        self._over.set()

    def wait(self) -> None:
        """Raises: EngineError if the engine died instead."""
        self._over.wait()
        if self._error is not None:
            raise EngineError(f"the engine died: {self._error!r}") from self._error


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e3 * seconds:.3f}"


def _tune(name: str, rows: int) -> None:
    from engine.stages.tune import tune  # lazily: it needs Triton

    device = torch.device("cuda")
    tune(load_random(full_size(name), device=device, dtype=torch.bfloat16), rows)
    torch.cuda.empty_cache()


if __name__ == "__main__":
    sys.exit(main())
