"""Where `web/` and `configs/` lie: in the checkout, else in the environment's data folder."""

from __future__ import annotations

import sysconfig
from pathlib import Path


def folder(name: str) -> Path:
    """The folder of files that ship beside the code: `web` or `configs`.

    Raises: FileNotFoundError naming both places searched.
    """
    checkout = Path(__file__).resolve().parent.parent / name
    installed = Path(sysconfig.get_path("data")) / "share" / "playhead" / name
    for place in (checkout, installed):
        if place.is_dir():
            return place
    raise FileNotFoundError(f"assets: no folder `{name}`; searched {checkout} and {installed}")
