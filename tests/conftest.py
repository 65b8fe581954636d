"""Which tests run where: `gpu` needs a device, `soak` is run by hand, CI has a browser."""

from __future__ import annotations

import os
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "playhead",
    deadline=None,  # machines are shared: time says nothing …
    suppress_health_check=[HealthCheck.too_slow],  # … about the making of examples either
    derandomize=bool(os.environ.get("CI")),  # new examples are for people, who can look into them
)
settings.load_profile("playhead")

BROWSER_REQUIRED = "PLAYHEAD_REQUIRE_BROWSER"  # set by CI: no chromium or no node is a failure
WEB = Path(__file__).parent / "web"


@cache
def cuda() -> bool:
    """Whether a CUDA device is here; imports torch only when a test asks."""
    import torch

    return torch.cuda.is_available()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what this machine cannot run, and what nobody asked for."""
    if item.get_closest_marker("gpu") and not cuda():
        pytest.skip("needs a CUDA device")
    if item.get_closest_marker("soak") and "soak" not in item.config.option.markexpr:
        pytest.skip("runs for long; ask for it with `-m soak`")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skipped browser test into a failure where the browser is promised."""
    report = yield
    if report.skipped and call.excinfo and not hasattr(report, "wasxfail") and promised(item):
        report.outcome = "failed"
        report.longrepr = f"skipped although {BROWSER_REQUIRED} is set: {call.excinfo.value}"
    return report


def promised(item: pytest.Item) -> bool:
    """Whether this test needs a browser or node, and the environment says both are here."""
    if not os.environ.get(BROWSER_REQUIRED) or any(map(item.get_closest_marker, ("gpu", "soak"))):
        return False
    return bool(item.get_closest_marker("browser")) or WEB in item.path.parents
