"""The texts that are spoken: sets in files beside this module, or a file of one's own."""

from __future__ import annotations

import json
from pathlib import Path

from engine.api import ConfigError

FOLDER = Path(__file__).parent / "texts"
SETS = ("sentences", "long", "multilingual", "nasty")


def read_texts(name: str) -> list[str]:
    """The texts of a set, or of a file with one text a line (`.jsonl`: one JSON string a line).

    Raises: ConfigError if there is none.
    """
    path = FOLDER / f"{name}.jsonl" if name in SETS else Path(name)
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        wanted = f"want one of {', '.join(SETS)} or a file of texts"
        raise ConfigError(f"bench: `--texts`: {wanted}: {name}") from error
    texts = [_text(line, path) for line in lines if line.strip()]
    if not texts:
        raise ConfigError(f"bench: `--texts`: want at least one text, got none: {name}")
    return texts


def _text(line: str, path: Path) -> str:
    if path.suffix != ".jsonl":
        return line
    try:
        return str(json.loads(line))
    except ValueError as error:
        wanted = "want one JSON string a line"
        raise ConfigError(f"bench: {path.name}: {wanted}, got: {line[:40]}") from error
