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


def chained(path: Path) -> Iterator[ast.FunctionDef]:
    """Kernels that may start while the one before drains."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name not in (
            "follow",
            "follow_all",
            "invite",
        ):
            names = [each.arg for each in node.args.args]
            if "CHAINED" in names and any(
                "tl.program_id" in ast.unparse(each) for each in node.body
            ):
                yield node


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.name)
def test_every_chained_kernel_waits_for_the_one_before(path: Path) -> None:
    for kernel in chained(path):
        calls = [ast.unparse(node) for node in ast.walk(kernel) if isinstance(node, ast.Call)]
        waits = "follow_all(CHAINED)" if kernel.name == "_draw" else "follow(CHAINED)"
        assert waits in calls, f"{kernel.name}: keys are read early because draws wait for all"


def test_kernels_are_chained() -> None:
    assert sum(1 for path in KERNELS for _ in chained(path)) > 10
