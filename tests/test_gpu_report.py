"""The one command for a GPU: checked without one, as far as that goes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests import gpu_report
from tests.gpu_report import LIMIT, PLAIN, ROOT, TESTS, Step, main, report, run, steps

CHILD = "import time; time.sleep(600)"
PARENT = f"""
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {CHILD!r}])
print(child.pid, flush=True)
time.sleep(600)
"""


def test_every_test_that_runs_on_a_device_is_among_the_steps() -> None:
    found = {
        path.name
        for path in (ROOT / "tests" / "engine").glob("test_*.py")
        if re.search(r"interpreting|mark\.gpu", path.read_text(encoding="utf-8"))
    }

    assert set(TESTS) == found


@pytest.mark.parametrize("step", steps(Path("out"), rehearse=False), ids=lambda step: step.name)
def test_every_step_exists_with_its_options(step: Step) -> None:
    module = step.arguments[step.arguments.index("-m") + 1]
    assert find_spec(module)

    if step.rehearsable and module != "pytest":
        done = subprocess.run(
            [sys.executable, "-m", module, "--help"], cwd=ROOT, capture_output=True, text=True
        )
        asked = {each for each in step.arguments if each.startswith("--")}
        assert asked <= set(re.findall(r"--[a-z-]+", done.stdout)), done.stderr


def test_what_matters_has_its_whole_time() -> None:
    plan = steps(Path("out"), rehearse=False)

    names = [each.name for each in plan]
    assert sum(each.limit for each in plan[: names.index("tests") + 1]) <= LIMIT


@pytest.mark.parametrize("missing", [(), ("pytest_asyncio", "hypothesis")], ids=["all", "none"])
def test_tests_are_found_with_and_without_plugins(missing: tuple[str, ...]) -> None:
    hidden = f"import sys; sys.modules.update(dict.fromkeys({missing!r}))"
    plain = [*PLAIN, *(["--noconftest"] if missing else [])]
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} if missing else {}

    done = subprocess.run(
        [
            *(sys.executable, "-c", f"{hidden}; import pytest; sys.exit(pytest.main())"),
            *(*plain, "--collect-only", "-q", "tests/engine/test_overlap.py"),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **alone},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "test_overlap.py::" in done.stdout


def test_a_dry_run_shows_the_commands_and_runs_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report"

    status = main(["--out", str(out), "--dry-run", "--only", "stages,codec"])

    shown = capsys.readouterr().out
    assert status == 0
    assert "-m engine.bench --checkpoint random:1.7b" in shown
    assert "engine.kernels.codec_bench" in shown
    assert shown.count("\n") == 2
    assert not out.exists()


def test_a_step_that_fails_costs_only_itself(tmp_path: Path) -> None:
    plan = [Step("bad", 60, ("-c", "print('why'); exit(2)")), Step("well", 60, ("-c", "pass"))]

    results = report(plan, tmp_path, limit=120)

    assert [each.words for each in results] == ["ended with 2", "good"]
    assert (tmp_path / "bad.txt").read_text().endswith("why\n")
    kept = json.loads((tmp_path / "report.json").read_text())
    assert [(each["name"], each["status"]) for each in kept] == [("bad", 2), ("well", 0)]


def test_what_the_time_does_not_suffice_for_is_named(tmp_path: Path) -> None:
    results = report([Step("late", 60, ("-c", "pass"))], tmp_path, limit=0)

    assert results[0].status is None
    assert results[0].words == "no time left"


@pytest.mark.slow
def test_a_step_that_takes_too_long_ends_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_report, "GRACE", 10.0)

    result = run(Step("long", 60, ("-c", PARENT)), tmp_path, limit=10.0)

    assert result.words == "cut off after 10 s"
    pid = (tmp_path / "long.txt").read_text().split()[-1]
    until = time.monotonic() + 10
    while running(pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert not running(pid)


def running(pid: str) -> bool:
    """Whether a process is alive; one that nobody has waited for is not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
