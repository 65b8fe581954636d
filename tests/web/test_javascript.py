"""Runs the tests of the pure JavaScript modules under node."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

TESTS = Path(__file__).parent / "js"


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize("path", sorted(TESTS.glob("*.test.mjs")), ids=lambda path: path.stem)
def test_javascript_module_keeps_its_promises(path: Path) -> None:
    result = subprocess.run(["node", "--test", str(path)], capture_output=True, text=True)

    assert result.returncode == 0, result.stdout
