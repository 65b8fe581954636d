"""Results as files: one JSON document of all runs, or a line of JSON for each reply."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.api import ConfigError
from gateway.bench.run import FORMAT, Run
from gateway.bench.take import Reply


def document(runs: Sequence[Run], command: Sequence[str]) -> dict[str, Any]:
    """Everything, with the command that measured it."""
    return {
        "format": FORMAT,
        "command": " ".join(["playhead bench", *command]),
        "runs": [run.fields() for run in runs],
    }


def write_document(path: Path, runs: Sequence[Run], command: Sequence[str]) -> None:
    """One JSON file."""
    path.write_text(json.dumps(document(runs, command), indent=1) + "\n", encoding="utf-8")


def write_lines(path: Path, runs: Sequence[Run]) -> None:
    """A line of JSON for each reply, with the seed and the load of its run."""
    with path.open("w", encoding="utf-8") as file:
        for run in runs:
            load = run.order.load
            key = {"rate": load.rate, "listeners": load.listeners, "seed": load.seed}
            file.writelines(json.dumps({**key, **each.fields()}) + "\n" for each in run.replies)


def read_runs(path: Path) -> list[list[Reply]]:
    """The replies of each run of a document.

    Raises: ConfigError if it is none.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        runs = [[Reply.read(each) for each in run["replies"]] for run in document["runs"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"bench: want a file that `--out` wrote: {path}") from error
    if document["format"] != FORMAT:
        raise ConfigError(f"bench: {path}: want format {FORMAT}, got: {document['format']}")
    return runs
