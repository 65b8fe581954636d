"""Replies as a run would bring them, for tests of what is made of them."""

from __future__ import annotations

from typing import Any

from gateway.bench.take import Reply


def reply(number: int = 0, **fields: Any) -> Reply:
    """One complete reply of a second, first heard after 50 ms; `fields` replace what it has."""
    usual: dict[str, Any] = {
        "number": number,
        "due": 10.0 + number,
        "lag": 0.001,
        "characters": 20,
        "outcome": "complete",
        "code": "",
        "first_playable": 0.04,
        "audible": 0.05,
        "end": 0.5,
        "sound": 1.0,
        "heard": 1.0,
        "heard_characters": 20,
        "underruns": 0,
        "dry": 0.0,
        "lead": 0.5,
        "paused": False,
        "chunks": 4,
    }
    return Reply(**{**usual, **fields})
