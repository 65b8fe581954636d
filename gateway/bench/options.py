"""The options of `playhead bench`, and the orders they add up to."""

from __future__ import annotations

import json
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from pathlib import Path
from typing import Any

from engine.api import ConfigError
from gateway.bench.arrivals import Habits
from gateway.bench.network import PROFILES
from gateway.bench.target import Load, Order, Target
from gateway.bench.textsets import SETS

SERVER = "http://127.0.0.1:8000"


def parser() -> ArgumentParser:
    """Everything that can be asked."""
    found = ArgumentParser(
        prog="playhead bench",
        description="What listeners of a speech server hear, at a load made for the purpose.",
        epilog=(
            "Definitions and figures: docs/benchmarks.md. Exit status 3: a run is void, because "
            "the load generator itself was late."
        ),
        formatter_class=RawDescriptionHelpFormatter,
    )
    _add_target(found)
    _add_load(found)
    _add_listeners(found)
    _add_results(found)
    return found


def _add_target(found: ArgumentParser) -> None:
    group = found.add_argument_group("the server")
    group.add_argument("--url", default=SERVER, help=f"default: {SERVER}")
    group.add_argument("--transport", choices=("http", "voice"), default="http")
    group.add_argument("--codec", choices=("pcm", "opus"), default="pcm", help="http: Ogg-Opus")
    group.add_argument("--voice", default="", help="default: the server's")
    group.add_argument("--model", default="", help="http: `model` of the request")
    group.add_argument("--token", default="", help="bearer token")
    group.add_argument(
        *("--field", "-f"),
        action="append",
        default=[],
        metavar="NAME=JSON",
        help="one more field of each request, such as language='\"english\"'",
    )
    group.add_argument(
        "--network", choices=PROFILES, default="loopback", help="a bad one in front of the server"
    )
    group.add_argument(
        "--pid",
        type=int,
        help="of the server, for its memory and processor; default: found by port",
    )


def _add_load(found: ArgumentParser) -> None:
    group = found.add_argument_group("the load")
    kind = group.add_mutually_exclusive_group()
    kind.add_argument("--rps", type=_positive, metavar="R", help="open loop: Poisson, replies/s")
    kind.add_argument(
        "--concurrency", type=int, metavar="N", help="closed loop: N listeners; default: 1"
    )
    kind.add_argument(
        "--sweep", type=_numbers, metavar="1,2,4,…", help="a run at each; says which are borne"
    )
    group.add_argument("--closed", action="store_true", help="`--sweep` counts listeners")
    group.add_argument("--p95", type=_positive, metavar="S", help="bound of the audible p95, s")
    group.add_argument("--duration", type=_seconds, default=30.0, metavar="S", help="measured")
    group.add_argument("--warmup", type=_seconds, default=5.0, metavar="S", help="not measured")
    group.add_argument("--seed", type=_seeds, default=[0], metavar="0,1,2", help="a run for each")
    group.add_argument("--processes", type=int, default=1, metavar="N", help="that make the load")
    group.add_argument(
        "--texts", default="sentences", help=f"{', '.join(SETS)}, or a file with one a line"
    )
    group.add_argument("--think", type=float, default=0.0, metavar="S", help="between two replies")
    group.add_argument(
        "--soak", action="store_true", help="beside it, clients that vanish, break off and lie"
    )
    group.add_argument(
        "--patience", type=_positive, default=60.0, metavar="S", help="then it failed"
    )


def _add_listeners(found: ArgumentParser) -> None:
    group = found.add_argument_group("the listeners")
    group.add_argument(
        "--words-per-second", type=float, default=0.0, metavar="N", help="voice: text trickles in"
    )
    group.add_argument("--no-acks", action="store_true", help="voice: report no playback")
    group.add_argument("--listen", action="store_true", help="http: stay until it was heard")
    group.add_argument("--start-buffer", type=float, default=0.0, metavar="S", help="default: 0")
    group.add_argument("--output-latency", type=float, default=0.0, metavar="S", help="to the ear")
    group.add_argument("--pause", type=_share, default=0.0, metavar="P", help="probability")
    group.add_argument("--pause-seconds", type=_positive, default=2.0, metavar="S")
    group.add_argument("--barge-in", type=_share, default=0.0, metavar="P", help="probability")


def _add_results(found: ArgumentParser) -> None:
    group = found.add_argument_group("the results")
    group.add_argument("--out", type=Path, metavar="FILE.json", help="everything, for `--compare`")
    group.add_argument("--lines", type=Path, metavar="FILE.jsonl", help="a line for each reply")
    group.add_argument("--plot", type=Path, metavar="FILE", help="first sound over load: html, svg")
    group.add_argument("--dollars-per-hour", type=_positive, metavar="$", help="of the hardware")
    group.add_argument("--gpus", type=int, default=1, metavar="N")
    group.add_argument(
        "--duty", type=_share, default=1.0, metavar="P", help="share of paid hours under this load"
    )
    group.add_argument(
        "--compare", nargs=2, type=Path, metavar=("A", "B"), help="two files of `--out`: no run"
    )
    group.add_argument(
        "--control", type=Path, metavar="A2", help="another run of A: what chance does"
    )


def orders(asked: Namespace) -> list[Order]:
    """One for each load and seed. Raises ConfigError for what does not go together."""
    _check(asked)
    if asked.sweep:
        amounts = [{"listeners": int(x)} if asked.closed else {"rate": x} for x in asked.sweep]
    elif asked.rps:
        amounts = [{"rate": asked.rps}]
    else:
        amounts = [{"listeners": asked.concurrency or 1}]
    return [
        Order(target=_target(asked), load=_load(asked, amount, seed), habits=_habits(asked))
        for amount in amounts
        for seed in asked.seed
    ]


def _check(asked: Namespace) -> None:
    if asked.transport == "http":
        for name in ("pause", "words_per_second", "no_acks"):
            if getattr(asked, name):
                wanted = f"`--{name.replace('_', '-')}` needs `--transport voice`"
                raise ConfigError(f"bench: {wanted}, got: http")
    if asked.processes < 1 or (asked.concurrency is not None and asked.concurrency < 1):
        raise ConfigError("bench: want at least one process and one listener")
    if not asked.url.startswith(("http://", "https://")):
        raise ConfigError(f"bench: `--url`: want http://HOST:PORT, got: {asked.url}")


def _target(asked: Namespace) -> Target:
    return Target(
        url=asked.url.rstrip("/").removesuffix("/v1"),
        transport=asked.transport,
        codec=asked.codec,
        acks=not asked.no_acks,
        voice=asked.voice,
        model=asked.model,
        token=asked.token,
        fields=dict(map(_field, asked.field)),
        words_per_second=asked.words_per_second,
        listen=asked.listen,
        patience=asked.patience,
    )


def _load(asked: Namespace, amount: dict[str, Any], seed: int) -> Load:
    return Load(
        **amount,
        think=asked.think,
        warmup=asked.warmup,
        duration=asked.duration,
        seed=seed,
        processes=asked.processes,
        texts=asked.texts,
        soak=asked.soak,
    )


def _habits(asked: Namespace) -> Habits:
    return Habits(
        start_buffer=asked.start_buffer,
        latency=asked.output_latency,
        pause_probability=asked.pause,
        pause=asked.pause_seconds,
        barge_in_probability=asked.barge_in,
    )


def _field(words: str) -> tuple[str, Any]:
    name, _, value = words.partition("=")
    try:
        return name, json.loads(value)
    except ValueError as error:
        raise ConfigError(f"bench: `--field`: want NAME=JSON, got: {words}") from error


def _positive(words: str) -> float:
    if (value := float(words)) <= 0:
        raise ArgumentTypeError(f"want more than 0, got: {words}")
    return value


def _share(words: str) -> float:
    if not 0 <= (value := float(words)) <= 1:
        raise ArgumentTypeError(f"want 0 to 1, got: {words}")
    return value


def _seconds(words: str) -> float:
    """`90`, `90s`, `20m` or `1h`."""
    units = {"s": 1, "m": 60, "h": 3600}
    scale = units.get(words[-1:], 0)
    value = float(words[:-1]) * scale if scale else float(words)
    if value < 0:
        raise ArgumentTypeError(f"want 0 or more, got: {words}")
    return value


def _numbers(words: str) -> list[float]:
    return sorted(map(_positive, words.split(",")))


def _seeds(words: str) -> list[int]:
    return list(map(int, words.split(",")))
