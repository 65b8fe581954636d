"""What a configuration's words mean on this machine: device, types, threads, length of segments.

Each function raises a ConfigError that names the key, what would be right and what was found.
"""

from __future__ import annotations

import os

import torch

from engine.api import ConfigError
from engine.stages.state import LONGEST_SEGMENT

MOST_THREADS = 4


def segment_seconds(wish: float, recommended: float) -> float:
    """Return the s of speech in one prompt; a wish of 0 means what is recommended."""
    seconds = wish or recommended
    if not 0 < seconds <= LONGEST_SEGMENT:
        raise ConfigError(
            f"`model.segment_seconds`: want up to {LONGEST_SEGMENT:g} s in one prompt, "
            f"got: {seconds:g}"
        )
    return seconds


def device(name: str) -> torch.device:
    """Return the device of that name; "auto" is the first card, if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"`model.device`: want auto, cpu, cuda or cuda:1, got: {name}") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"`model.device`: this machine has no CUDA device, got: {name}")
    return device


def dtype(name: str, device: torch.device) -> torch.dtype:
    """Return the type of Talker and Code Predictor."""
    kinds = {
        "auto": torch.bfloat16 if device.type == "cuda" else torch.float32,
        "float32": torch.float32,
        "bfloat16": torch.bfloat16,
    }
    if name not in kinds:
        raise ConfigError(f"`model.dtype`: want {', '.join(kinds)}, got: {name}")
    return kinds[name]


def codec_dtype(name: str, device: torch.device) -> torch.dtype:
    """Return the type of the codec."""
    kinds = {
        "auto": torch.float16 if device.type == "cuda" else torch.float32,
        "float32": torch.float32,
        "float16": torch.float16,
    }
    if name not in kinds:
        raise ConfigError(f"`model.codec_dtype`: want {', '.join(kinds)}, got: {name}")
    if kinds[name] is torch.float16 and device.type != "cuda":
        raise ConfigError(
            f"`model.codec_dtype`: want auto or float32 on a {device.type}, got: {name}"
        )
    return kinds[name]


def normalise(wish: str, recommended: bool) -> bool:
    """Whether numbers are spelt out before they are spoken."""
    choices = {"auto": recommended, "on": True, "off": False}
    if wish not in choices:
        raise ConfigError(f"`model.normalise`: want {', '.join(choices)}, got: {wish}")
    return choices[wish]


def threads(wish: int, *, tiny: bool) -> int:
    """Return the CPU threads of the model; a wish of 0 means what suits its size."""
    return wish or (1 if tiny else min(MOST_THREADS, _cores()))


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # containers often own fewer cores than the host has
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
