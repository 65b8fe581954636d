"""The rules of ARCHITECTURE.md, read from the source: who may import whom, and what no file may do.

Each test names its rule; each exception stands in a table here, with its reason.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted(path for top in ("engine", "gateway") for path in (ROOT / top).rglob("*.py"))
LONGEST = 350  # lines of one file

PURE = {  # no device, no thread, no clock: the same code runs in virtual time
    *("engine.api", "engine.config", "engine.work", "engine.segment", "engine.utterance"),
    "engine.playback",
    *("engine.scheduler", "engine.agenda", "engine.pace", "engine.costs", "engine.admission"),
    *("engine.slots", "engine.loop", "engine.flights"),
    *("engine.register", "engine.placement", "engine.silent", "engine.percentile"),
    *("engine.simulation", "engine.simulation.arrivals", "engine.simulation.conversation"),
    *("engine.simulation.costs", "engine.simulation.listeners", "engine.simulation.network"),
    *("engine.simulation.replay", "engine.simulation.report", "engine.simulation.simulation"),
    *("engine.trace", "engine.watch"),
}
NOT_PURE = {  # standard library, yet it waits, looks at a clock or leaves the process
    *("asyncio", "concurrent", "threading", "multiprocessing", "subprocess", "signal"),
    *("time", "datetime", "socket", "select", "selectors", "queue"),
}
SEAM = {"engine.api", "engine.client", "engine.remote", "engine.config"}  # the gateway's engine
DEVICE = {"torch", "triton", "numpy", "safetensors", "tokenizers", "transformers"}
NETWORK = {"gateway", "aiohttp", "websockets", "opuslib", "opuslib_next"}

# Exceptions, each with its reason.
WALL_CLOCK = {"gateway/compat/openai.py": "`created` of a model is a date by OpenAI's schema"}
PAGE_CLOCK = {"web/playback-worklet.js": "a worklet has no `performance`; only differences count"}
LOOSE_TASKS = {
    "engine/remote.py": "the connection outlives every scope: `close` ends and awaits it",
    "gateway/client/connection.py": "a script opens and closes it as it likes; its end awaits them",
    "gateway/readiness.py": "the start lasts as long as the application, whose end awaits it",
}
TEXT_RULES = {
    "engine.silent": {"engine.text.feed"}
}  # tones for real text, divided by the real rules
LONG_FILES = {
    "web/playback-worklet.js": "holds a copy of playout-core.js: bundlers lose its imports"
}


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def dotted(path: Path) -> str:
    return relative(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports(path: Path, *, types: bool) -> set[str]:
    """Name every module that `path` imports; `types`: those only type checkers see as well."""
    return set(_imports(parsed(path), path, types))


def _imports(tree: ast.AST, path: Path, types: bool) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and not types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{relative(path)}: relative import; write the whole name"
            yield from _sources(str(node.module), [alias.name for alias in node.names])
        yield from _imports(node, path, types)


def _sources(module: str, names: list[str]) -> Iterator[str]:
    """Tell `from engine import api` (a module) from `from engine.api import Open` (a name)."""
    for name in names:
        inside = ROOT / module.replace(".", "/") / name
        yield (
            f"{module}.{name}" if inside.is_dir() or inside.with_suffix(".py").exists() else module
        )


def within(name: str, packages: set[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def sources(*suffixes: str) -> list[Path]:
    """List the files people write, tests included; other people's code and build output apart."""
    tops = ("engine", "gateway", "tests", "web", "configs", "docs", ".ci", ".")
    found = {path for top in tops for path in (ROOT / top).glob("*" if top == "." else "**/*")}
    foreign = {"vendor", "node_modules", "__pycache__", "build", "dist"}
    return sorted(
        path
        for path in found
        if path.is_file() and path.suffix in suffixes and not foreign & set(path.parts)
    )


by_module = pytest.mark.parametrize("path", MODULES, ids=relative)


# ------------------------------------------------------------ who may import whom


@pytest.mark.parametrize(
    "path", [p for p in MODULES if dotted(p).startswith("gateway")], ids=relative
)
def test_gateway_sees_only_the_seam(path: Path) -> None:
    seen = imports(path, types=True)

    assert not {name for name in seen if within(name, {"engine"}) and not within(name, SEAM)}
    assert not {name for name in seen if within(name, DEVICE)}


@pytest.mark.parametrize(
    "path", [p for p in MODULES if dotted(p).startswith("engine")], ids=relative
)
def test_engine_knows_no_network(path: Path) -> None:
    assert not {name for name in imports(path, types=True) if within(name, NETWORK)}


@pytest.mark.parametrize("path", [p for p in MODULES if within(dotted(p), PURE)], ids=relative)
def test_pure_modules_use_only_the_standard_library_and_each_other(path: Path) -> None:
    seen = imports(path, types=False)

    outside = {
        name
        for name in seen
        if not within(name, PURE) and name.partition(".")[0] not in sys.stdlib_module_names
    } - TEXT_RULES.get(dotted(path), set())
    assert not outside
    assert not {name for name in seen if within(name, NOT_PURE)}


@by_module
def test_only_the_ray_launcher_names_ray(path: Path) -> None:
    seen = imports(path, types=True)

    assert dotted(path) == "engine.ray_launch" or not {n for n in seen if within(n, {"ray"})}


@pytest.mark.parametrize(
    ("package", "forbidden"), [("gateway", DEVICE - {"numpy"}), ("engine", NETWORK)]
)
def test_importing_one_process_does_not_load_the_other(package: str, forbidden: set[str]) -> None:
    names = {dotted(path) for path in MODULES if path.name != "__main__.py"}

    assert not loaded({name for name in names if within(name, {package})}, forbidden)


def test_importing_the_pure_modules_loads_no_device_and_no_event_loop() -> None:
    names = {dotted(path) for path in MODULES if within(dotted(path), PURE)}

    assert not loaded(names, {*DEVICE, "asyncio"})


def test_the_engine_starts_without_triton() -> None:
    """Kernels are for CUDA: a CPU, and a build of torch without triton, never miss them."""
    assert not loaded({"engine.thread", "engine.stages"}, {"engine.kernels"}, absent="")


def loaded(names: set[str], watched: set[str], *, absent: str = "triton ray") -> list[str]:
    """Import `names` in a fresh interpreter and tell which of `watched` came along.

    There is no triton in it, as on most machines; modules that miss one of `absent` are passed by.
    """
    script = f"""
import importlib, sys
sys.modules["triton"] = None
for name in {sorted(names)}:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] not in {absent.split()}:
            raise
print(*sorted({watched} & {{name for name, module in sys.modules.items() if module}}))
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


# ------------------------------------------------------------ what no file may do


@by_module
def test_no_duration_is_taken_from_the_wall_clock(path: Path) -> None:
    """An operator who sets the clock back must not stop speech."""
    calls = {ast.unparse(n.func) for n in ast.walk(parsed(path)) if isinstance(n, ast.Call)}
    dates = {"time.time", "time.time_ns", "datetime.now", "datetime.datetime.now", "time"}

    assert relative(path) in WALL_CLOCK or not calls & dates


@pytest.mark.parametrize("path", sources(".js", ".mjs"), ids=relative)
def test_the_player_never_asks_for_the_time_of_day(path: Path) -> None:
    assert relative(path) in PAGE_CLOCK or "Date.now" not in path.read_text(encoding="utf-8")


@by_module
def test_every_task_has_an_owner(path: Path) -> None:
    """A task nobody awaits is collected in mid-air, and its exception with it."""
    loose = [
        f"{relative(path)}:{node.lineno}"
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call)
        and re.search(
            r"(^|asyncio\.|loop\(?\)?\.)(create_task|ensure_future)$", ast.unparse(node.func)
        )
    ]

    assert not loose or relative(path) in LOOSE_TASKS


@by_module
def test_no_exception_is_swallowed(path: Path) -> None:
    swallowed = [
        f"{relative(path)}:{node.lineno}"
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or ast.unparse(node.type) in ("Exception", "BaseException"))
        and isinstance(node.body[0], ast.Pass)
    ]

    assert not swallowed


@pytest.mark.parametrize("path", sources(".py", ".js", ".mjs", ".css"), ids=relative)
def test_files_are_short_enough_to_read(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").count("\n")

    assert lines <= LONGEST or relative(path) in LONG_FILES


@by_module
def test_everything_public_says_what_it_is_for(path: Path) -> None:
    tree = parsed(path)
    silent = [f"line {node.lineno}: {node.name}" for node in public(tree) if not described(node)]

    assert not tree.body or ast.get_docstring(tree)
    assert not silent


Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def public(tree: ast.Module | ast.ClassDef) -> Iterator[Definition]:
    """Every public class, and every public function or method longer than three lines."""
    for node in tree.body:
        if not isinstance(node, Definition) or node.name.startswith("_"):
            continue
        if isinstance(node, ast.ClassDef):
            yield node
            yield from public(node)
        elif (node.end_lineno or 0) - node.lineno > 3:
            yield node


def described(node: Definition) -> bool:
    return bool(ast.get_docstring(node)) or any(
        "overload" in ast.unparse(d) for d in node.decorator_list
    )


TEXT = (".py", ".js", ".mjs", ".css", ".html", ".md", ".toml", ".json", ".yaml", ".txt", ".sh", "")


@pytest.mark.parametrize("path", sources(*TEXT), ids=relative)
def test_no_file_names_a_folder_of_one_machine(path: Path) -> None:
    # In pieces, or this file would find itself.
    places = "|".join(
        ("/" + "work/", "/" + "tmp/", "/" + "root/", r"/" + r"home/\w", r"\.\./" + "shared")
    )

    assert not re.findall(rf"(?<![\w.])(?:{places})", path.read_text(encoding="utf-8"))
