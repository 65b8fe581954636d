"""What a configuration's words mean on this machine: device, types, threads, length of segments.

Each function raises a ConfigError that names the key, what would be right and what was found.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TypeVar

import torch

from engine.api import ConfigError
from engine.stages.state import LONGEST_SEGMENT

Choice = TypeVar("Choice")

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
    return _chosen("dtype", name, kinds)


def codec_dtype(name: str, device: torch.device) -> torch.dtype:
    """Return the type of the codec."""
    kinds = {
        "auto": torch.float16 if device.type == "cuda" else torch.float32,
        "float32": torch.float32,
        "float16": torch.float16,
    }
    kind = _chosen("codec_dtype", name, kinds)
    if kind is torch.float16 and device.type != "cuda":
        raise ConfigError(
            f"`model.codec_dtype`: want auto or float32 on a {device.type}, got: {name}"
        )
    return kind


def normalise(wish: str, recommended: bool) -> bool:
    """Whether numbers are spelt out before they are spoken."""
    return _chosen("normalise", wish, {"auto": recommended, "on": True, "off": False})


def threads(wish: int, *, tiny: bool) -> int:
    """Return the CPU threads of the model; a wish of 0 means what suits its size."""
    return wish or (1 if tiny else min(MOST_THREADS, _cores()))


def _chosen(key: str, word: str, choices: Mapping[str, Choice]) -> Choice:
    if word not in choices:
        raise ConfigError(f"`model.{key}`: want {', '.join(choices)}, got: {word}")
    return choices[word]


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # containers often own fewer cores than the host has
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
