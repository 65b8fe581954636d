"""A checkpoint's codec tensors, each taken once by its name and checked.

Folding (divisions, scales, exponentials) happens in fp64; what a layer keeps is rounded once, to
its own dtype.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from engine.api import CheckpointError

PREFIX = "decoder."


class CodecWeights:
    """The tensors under `decoder.`; those of the encoder are never looked at."""

    def __init__(
        self, tensors: Mapping[str, Tensor], *, device: torch.device | str, dtype: torch.dtype
    ) -> None:
        self._tensors = {
            name.removeprefix(PREFIX): tensor
            for name, tensor in tensors.items()
            if name.startswith(PREFIX)
        }
        self._device = device
        self._dtype = dtype

    def take(self, name: str, *shape: int) -> Tensor:
        """Return the tensor `name` in fp64.

        Raises: CheckpointError if it is missing or not of `shape`.
        """
        tensor = self._tensors.pop(name, None)
        if tensor is None:
            raise CheckpointError(f"codec: a tensor is missing: {PREFIX}{name}")
        if tuple(tensor.shape) != shape:
            raise CheckpointError(
                f"codec: `{PREFIX}{name}` wants shape {shape}, got: {tuple(tensor.shape)}"
            )
        return tensor.to(torch.float64)

    def drop(self, name: str) -> None:
        """Say that `name` may be there and is not needed for decoding."""
        self._tensors.pop(name, None)

    def keep(self, tensor: Tensor) -> Tensor:
        """Return `tensor` as a layer keeps it."""
        return tensor.to(self._device, self._dtype).contiguous()

    def finish(self) -> None:
        """Refuse tensors that no layer took: they belong to a network that is not this one.

        Raises: CheckpointError naming the first.
        """
        if self._tensors:
            raise CheckpointError(
                f"codec: no layer of this configuration has: {PREFIX}{min(self._tensors)}"
            )
