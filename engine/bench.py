"""`python -m engine.bench`: how long each stage takes, by rows, on this device.

Drives the stages as the loop does, without its clock: prefill, then Talker and Code Predictor in
turn, then the codec. `--write-costs` keeps the table for the simulator.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

from engine.api import EngineError, Open
from engine.config import ModelConfig
from engine.model.checkpoint import load_random
from engine.model.random_weights import full_size
from engine.playback import PlaybackClock
from engine.stages import ModelStages, build
from engine.utterance import Utterance
from engine.work import Batch, Stage, Ticket, Work

FRAME_OF_PROMPT = 10  # rows around the text
FIRST_WORD, WORDS = 300, 500  # text ids that every tokenizer has
WARM_FRAMES = 4
FRAMES = 24  # measured, per number of rows
REPEATS = 5  # of a prefill and of each chunk, after one to warm up
CHUNKS = (1, 2, 4, 8, 12)  # frames of a codec work


class Silence:
    """Trims nothing."""

    def push(self, pcm: bytes, *, last: bool) -> bytes:
        """Pass on what comes."""
        return pcm


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
    lines = [f"{key} {value}" for key, value in report.items() if key != "launches"]
    for launch in report["launches"]:
        lines.append(
            f"{launch['stage']:<10} rows {launch['rows']:<4} frames {launch['frames']:<3} "
            f"tokens {launch.get('tokens', ''):<5}"
            f"{1e3 * launch['seconds']:8.3f} ms   host {1e3 * launch['host']:6.3f} ms"
        )
    return "\n".join(lines)


def costs(report: dict[str, Any]) -> str:
    """Return the launches as TOML tables."""
    head = f"# Measured by `playhead engine-bench` on {report['device']}, {report['date']}.\n"
    return head + "".join(
        f'\n[[launch]]\nstage = "{each["stage"]}"\nrows = {each["rows"]}\n'
        f"frames = {each['frames']}\nseconds = {each['seconds']:.7f}\n"
        for each in report["launches"]
        if "tokens" not in each
    )


def _report(options: argparse.Namespace) -> dict[str, Any]:
    counts = [int(each) for each in options.rows.split(",")]
    name = f"random:{options.random}" if options.random else options.checkpoint
    if options.tune:
        _tune(name, max(counts))
    began = time.monotonic()
    stages = build(
        ModelConfig(
            name, options.device, options.dtype, slots=max(counts), rows=max(counts),
            normalise="off",
        )
    )  # fmt: skip
    on_cuda = torch.cuda.is_available() and options.device != "cpu"
    launches: list[dict[str, Any]] = []
    report: dict[str, Any] = {
        "checkpoint": name,
        "device": torch.cuda.get_device_name() if on_cuda else "cpu",
        "date": time.strftime("%Y-%m-%d"),
        "torch": torch.__version__,
        "start_seconds": round(time.monotonic() - began, 2),
        "gigabytes": round(torch.cuda.memory_reserved() / 1e9, 2) if on_cuda else 0,
        "launches": launches,
    }
    *prompts, last = (int(each) for each in options.tokens.split(","))
    for rows in counts:
        for tokens in prompts:
            launches += Measurement(stages, on_cuda=on_cuda).prefill(rows, tokens)
        launches += Measurement(stages, on_cuda=on_cuda).run(rows, last)
    return report


def _tune(name: str, rows: int) -> None:
    from engine.stages.tune import tune  # lazily: it needs Triton

    device = torch.device("cuda")
    tune(load_random(full_size(name), device=device, dtype=torch.bfloat16), rows)
    torch.cuda.empty_cache()


@dataclass(frozen=True, slots=True)
class _Mark:
    """The end of one launch."""

    end: Any  # a CUDA event, or seconds
    stage: Stage
    frames: int
    host: float  # s that the launching call took
    count: bool


class Measurement:
    """Launches of one batch of utterances, timed on the device."""

    def __init__(self, stages: ModelStages, *, on_cuda: bool) -> None:
        self._stages = stages
        self._on_cuda = on_cuda
        self._marks: list[_Mark] = []
        self._flight: Ticket | None = None

    def prefill(self, rows: int, tokens: int) -> list[dict[str, Any]]:
        """Start `rows` prompts of `tokens` rows, and nothing else."""
        self._prefill(rows, tokens)
        return [line | {"tokens": tokens} for line in self._lines(rows)]

    def run(self, rows: int, tokens: int) -> list[dict[str, Any]]:
        """Speak with `rows` utterances and return one line per stage and chunk."""
        utterances = self._prefill(rows, tokens)
        self._advance(utterances, Stage.PREFILL)
        for frame in range(WARM_FRAMES + FRAMES):
            if frame:
                self._launch(Stage.TALKER, utterances, 1, count=frame > WARM_FRAMES)
                self._advance(utterances, Stage.TALKER)
            self._launch(Stage.PREDICTOR, utterances, 1, count=frame >= WARM_FRAMES)
            self._advance(utterances, Stage.PREDICTOR)
        for chunk in CHUNKS:
            for repeat in range(1 + REPEATS):
                self._launch(Stage.CODEC, utterances, chunk, count=repeat > 0)
                for each in utterances:
                    each.advance(Stage.CODEC, chunk)
        lines = self._lines(rows)
        for each in utterances:
            self._stages.release(each.slot)
        return lines

    def _prefill(self, rows: int, tokens: int) -> list[Utterance]:
        utterances = [self._utterance(slot, tokens) for slot in range(rows)]
        for repeat in range(1 + REPEATS):
            self._launch(Stage.PREFILL, utterances, 1, count=repeat > 0)
        return utterances

    def _lines(self, rows: int) -> list[dict[str, Any]]:
        return [
            {
                "stage": str(stage),
                "rows": rows,
                "frames": frames,
                "seconds": median(device for device, _ in times),
                "host": median(host for _, host in times),
            }
            for (stage, frames), times in self._results().items()
        ]

    def _launch(
        self, stage: Stage, utterances: Sequence[Utterance], frames: int, *, count: bool = True
    ) -> None:
        """Launch behind what runs, and settle the launch before: two in flight, as in the loop."""
        batch = Batch(stage, [Work(each, stage, frames, 0.0) for each in utterances])
        began = time.perf_counter()
        ticket = self._stages.launch(batch)
        host = time.perf_counter() - began
        self._marks.append(_Mark(_event(self._on_cuda), stage, frames, host, count))
        if self._flight is not None:
            _wait(self._flight)
        self._flight = ticket

    def _results(self) -> dict[tuple[Stage, int], list[tuple[float, float]]]:
        """Device and host seconds of every counted launch: from the end of the one before."""
        if self._flight is not None:
            _wait(self._flight)
        found: dict[tuple[Stage, int], list[tuple[float, float]]] = {}
        for before, mark in zip(self._marks, self._marks[1:], strict=False):
            if mark.count:
                times = found.setdefault((mark.stage, mark.frames), [])
                times.append((_between(before.end, mark.end), mark.host))
        return found

    def _utterance(self, slot: int, tokens: int) -> Utterance:
        feed = self._stages.text()
        feed.append("Nothing of this is read.")
        feed.finish()
        options = Open(f"bench-{slot}", self._stages.info.default_voice, seed=slot, ignore_eos=True)
        clock = PlaybackClock(0.0, patience=1.0, acks=False)
        utterance = Utterance(options, slot=slot, feed=feed, clock=clock, trim=Silence())
        utterance.text_changed()
        utterance.fix_layout()
        assert utterance.segment is not None
        body = max(1, tokens - FRAME_OF_PROMPT)
        utterance.segment.tokens = [FIRST_WORD + place % WORDS for place in range(body)]
        return utterance

    def _advance(self, utterances: Sequence[Utterance], stage: Stage) -> None:
        for each in utterances:
            each.advance(stage, 1)


def _event(on_cuda: bool) -> Any:
    if not on_cuda:
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def _between(begin: Any, end: Any) -> float:
    if isinstance(begin, float):
        return float(end - begin)
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3


def _wait(ticket: Ticket) -> None:
    while not ticket.done():
        ticket.wait(1.0)
    ticket.outcomes()


if __name__ == "__main__":
    sys.exit(main())
