"""Command line options that stand for configuration keys, the same for every command."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path

from gateway.config import Config, read


def add_configuration(parser: ArgumentParser) -> None:
    """Offer a file, `--set`, and short forms of the keys people change most."""
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="TOML; see configs/default.toml"
    )
    parser.add_argument(
        *("--set", "-s"),
        action="append",
        default=[],
        metavar="TABLE.KEY=VALUE",
        help="one key of it, such as engine.model.slots=16; may be repeated",
    )
    parser.add_argument("--checkpoint", metavar="DIR_OR_ID", help="engine.model.checkpoint")
    parser.add_argument("--host", help="gateway.host")
    parser.add_argument("--port", type=int, help="gateway.port; 0: any free one")
    parser.add_argument("--processes", type=int, help="gateway.processes")


def configured(options: Namespace) -> Config:
    """The configuration asked for: the file, then `--set`, then the short forms.

    Raises: ConfigError.
    """
    return read(options.config, overrides(options))


def overrides(options: Namespace) -> list[str]:
    """`--set` and the short forms, in the form of `--set`; the last word counts."""
    named = {
        "engine.model.checkpoint": options.checkpoint,
        "gateway.host": options.host,
        "gateway.port": options.port,
        "gateway.processes": options.processes,
    }
    chosen = {key: value for key, value in named.items() if value is not None}
    return [*options.set, *(f"{key}={json.dumps(value)}" for key, value in chosen.items())]
