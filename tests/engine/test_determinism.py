"""No sum depends on which program comes first: kernels add counts atomically, never values."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import engine

KERNELS = sorted((Path(engine.__file__).parent / "kernels").glob("*.py"))
COUNTERS = ("arrived", "arrivals")  # int32: how many programs have left their share


def atomics(path: Path) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("tl.atomic"):
            yield node


def test_split_sums_meet_through_counters() -> None:
    assert sum(1 for path in KERNELS for _ in atomics(path)) == 3


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.name)
def test_only_arrivals_are_counted_atomically(path: Path) -> None:
    for call in atomics(path):
        target, value = call.args[:2]
        assert ast.unparse(call.func) == "tl.atomic_add"
        assert ast.unparse(target).startswith(COUNTERS)
        assert ast.unparse(value) == "1"
