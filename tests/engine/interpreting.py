"""Triton's interpreter for tests: import this before any kernel; on a GPU it changes nothing.

Repairs what the interpreter of Triton 3.6 cannot do: loop bounds that are values, with NumPy 2.4 or
newer, products of bfloat16, and calls between kernels' functions in bearable time.
"""

from __future__ import annotations

import inspect
import os
from typing import Any

import pytest
import torch

ON_DEVICE = torch.cuda.is_available()
if not ON_DEVICE:
    os.environ["TRITON_INTERPRET"] = "1"
pytest.importorskip("triton")

DEVICE = torch.device("cuda" if ON_DEVICE else "cpu")


def _repair() -> None:
    import numpy as np
    import triton.language as tl
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor
    dot = interpreter.InterpreterBuilder.create_dot

    builtins: dict[Any, list[tuple[str, Any]]] = {}

    def patch_builtin(package: Any, builder: Any, scope: Any) -> None:
        if package not in builtins:  # looking through a package each time takes most of the time
            members = inspect.getmembers(package)
            builtins[package] = [each for each in members if tl.core.is_builtin(each[1])]
        for name, member in builtins[package]:
            interpreter._patch_attr(package, name, member, builder, scope)

    def patch_with_index(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    def widened(handle: Any) -> Any:
        if handle.dtype.scalar != tl.bfloat16:
            return handle
        bits = handle.data.astype(np.uint32) << 16
        return interpreter.TensorHandle(bits.view(np.float32), tl.float32)

    def create_dot(self: Any, a: Any, b: Any, *rest: Any) -> Any:
        return dot(self, widened(a), widened(b), *rest)

    interpreter._patch_lang_tensor = patch_with_index
    interpreter._patch_builtin = patch_builtin
    interpreter.InterpreterBuilder.create_dot = create_dot


if not ON_DEVICE:
    _repair()
