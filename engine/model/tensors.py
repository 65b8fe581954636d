"""safetensors files → tensors taken by name and shape; errors name file and cause."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Protocol

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine.api import CheckpointError
from engine.model.config import read_json

logger = logging.getLogger(__name__)

POINTER = b"version https://git-lfs"


class TensorSource(Protocol):
    """Where a network's tensors come from."""

    def take(self, name: str, *shape: int) -> Tensor:
        """Return one tensor of `shape`, on the device, in the dtype."""


class Tensors:
    """The tensors of one folder: a single file, or shards with an index."""

    def __init__(self, folder: Path, *, device: torch.device, dtype: torch.dtype) -> None:
        """Read the headers. Raises: CheckpointError naming the file and why it cannot be read."""
        self._device = device
        self._dtype = dtype
        self._files = {path: _open(path) for path in _files(folder)}
        self._where = {
            name: path
            for path, opened in self._files.items()
            for name in opened.keys()  # noqa: SIM118 (not a dict)
        }
        self._folder = folder
        self._taken: set[str] = set()

    def names(self, prefix: str = "") -> list[str]:
        """List the names that start with `prefix`, sorted."""
        return sorted(name for name in self._where if name.startswith(prefix))

    def take(self, name: str, *shape: int) -> Tensor:
        """Load one tensor on the device, in the dtype; any shape if none is given.

        Raises: CheckpointError naming file and tensor if it is missing or has another shape.
        """
        path = self._where.get(name)
        if path is None:
            raise CheckpointError(f"{self._folder / 'model.safetensors'}: lacks tensor `{name}`")
        try:
            tensor = self._files[path].get_tensor(name)
        except (SafetensorError, OSError, RuntimeError) as error:
            raise CheckpointError(f"{path}: `{name}` cannot be read: {error}") from error
        if shape and tuple(tensor.shape) != shape:
            raise CheckpointError(
                f"{path}: want shape {shape} for `{name}`, got: {tuple(tensor.shape)}"
            )
        self._taken.add(name)
        return tensor.to(self._device, self._dtype)

    def warn_of_rest(self) -> None:
        """Log the tensors that nobody took: a sign that the checkpoint is of another kind."""
        rest = sorted(set(self._where) - self._taken)
        if rest:
            logger.warning(
                "checkpoint_extra_tensors folder=%s count=%d first=%s",
                self._folder,
                len(rest),
                ", ".join(rest[:3]),
            )


def _files(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        return [folder / "model.safetensors"]
    shards = read_json(index).get("weight_map")
    if not isinstance(shards, dict) or not shards:
        raise CheckpointError(f"{index}: want tensor names and files under `weight_map`")
    return [folder / name for name in sorted(set(shards.values()))]


def _open(path: Path) -> safe_open:
    try:
        with path.open("rb") as file:
            start = file.read(len(POINTER))
        if start == POINTER:
            raise CheckpointError(
                f"{path}: is a Git LFS pointer, not the weights; run `git lfs pull`"
            )
        return safe_open(path, framework="pt", device="cpu")
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}") from error
    except SafetensorError as error:
        size = path.stat().st_size
        raise CheckpointError(
            f"{path}: is damaged or only partly downloaded ({size} bytes): {error}"
        ) from error
