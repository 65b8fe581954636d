"""What the documents say is true: commands exist, links lead somewhere, figures name commands."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.serving import serving
from tests.waiting import LIMIT

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
HERE = f"import sys; sys.path.insert(0, {str(ROOT)!r}); "  # the checkout, installed or not
PLAYHEAD = (sys.executable, "-c", f"{HERE}from gateway.cli import main; sys.exit(main())")
README = (ROOT / "README.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^(> )?```(\w*)\n(.*?)^(?:> )?```", re.MULTILINE | re.DOTALL)
UNIT = r"(?:ms|s|µs|%|×|x|dB|kB|MB|GB|KiB|MiB|kbit/s|/s|\$)"
FIGURE = re.compile(rf"^[<>≤≥≈~+−-]?\s?\$?\d[\d.,]*\s?{UNIT}?$")
COMMAND = re.compile(r"\bplayhead [a-z]|python3? -m |pytest\b|pip |bash |node ")

SPECIFICATIONS = {"protocol.md"}  # their numbers are rules, not measurements

by_document = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)


def commands(text: str) -> Iterator[str]:
    """Every shell command of the fenced blocks, continued lines joined."""
    for quote, language, block in FENCE.findall(text):
        if language in ("sh", "bash"):
            lines = block.replace("\n> ", "\n").removeprefix("> ") if quote else block
            yield from lines.replace("\\\n", " ").splitlines()


def prose(text: str) -> str:
    return FENCE.sub("", text)


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose(path.read_text(encoding="utf-8")), re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {heading.replace(" ", "-") for heading in plain}


@cache
def help_of(*words: str) -> str:
    """What `playhead … --help` prints."""
    done = subprocess.run(
        [*PLAYHEAD, *words, "--help"],
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0, f"playhead {' '.join(words)} --help: {done.stderr}"
    return done.stdout


def spoken_to() -> list[tuple[str, str]]:
    """Every `playhead` subcommand that a document shows, with its arguments."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in DOCUMENTS)
    shown = [*commands(text), *re.findall(r"`([^`\n]+)`", prose(text))]
    found = re.findall(r"(?:^|/|\s)playhead ([a-z][a-z-]*)([^&|;\n]*)", "\n".join(shown))
    return sorted(set(found))


@pytest.mark.parametrize(("name", "arguments"), spoken_to())
def test_every_command_shown_exists_with_its_options(name: str, arguments: str) -> None:
    assert re.search(rf"\b{name}\b", help_of())

    known = re.findall(r"--[a-z-]+", help_of(name))
    shown = re.findall(r"(?<!\S)--[a-z-]+", arguments)

    assert set(shown) <= set(known)


def test_readme_installs_and_serves_with_one_command_and_tests_with_another() -> None:
    start = "python3 -m venv .venv && .venv/bin/pip install -e "
    shown = list(commands(README))

    assert [line for line in shown if line == f"{start}. && .venv/bin/playhead serve"]
    assert [line for line in shown if line == f"{start}'.[test]' && .venv/bin/pytest"]


@pytest.mark.slow
def test_python_of_the_readme_runs() -> None:
    (example,) = (block for _, language, block in FENCE.findall(README) if language == "python")

    with serving(PLAYHEAD, ["--config", str(ROOT / "configs" / "fake.toml")]) as url:
        here = example.replace("127.0.0.1:8000", url.partition("//")[2])
        done = subprocess.run(
            [sys.executable, "-c", here], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT
        )

    assert here != example
    assert re.fullmatch(r"[\d.]+ The meeting.*\n", done.stdout), done.stderr


def test_ci_runs_the_test_command_of_the_readme_word_for_word() -> None:
    (command,) = (line for line in commands(README) if line.endswith("/pytest"))

    assert command in map(
        str.strip, (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    )


@by_document
def test_links_lead_somewhere(path: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(path.read_text(encoding="utf-8"))):
        target, _, anchor = link.partition("#")
        file = path.parent / target if target else path
        if re.match(r"[a-z]+:", link):
            continue
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(link)

    assert not broken


@by_document
def test_files_named_in_backticks_exist(path: Path) -> None:
    tops = "|".join(("engine", "gateway", "web", "tests", "configs", "docs"))
    text = prose(path.read_text(encoding="utf-8"))
    named = re.findall(rf"`((?:{tops})/[\w./-]+\w)`", text)

    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize(
    "path", [path for path in DOCUMENTS if path.name not in SPECIFICATIONS], ids=lambda p: p.name
)
def test_figures_name_the_command_that_measured_them(path: Path) -> None:
    """A section whose table holds measured values shows how to measure them again."""
    sections = re.split(r"^(?=#+ )", path.read_text(encoding="utf-8"), flags=re.MULTILINE)

    unexplained = [
        section.partition("\n")[0]
        for section in sections
        if any(map(FIGURE.match, cells(section))) and not COMMAND.search(section)
    ]

    assert unexplained == []


def cells(section: str) -> Iterator[str]:
    for row in re.findall(r"^\|(.+)\|$", section, re.MULTILINE):
        yield from (cell.strip(" *") for cell in row.split("|"))


def test_the_tree_lists_every_module_and_no_other() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    tree = text.partition("<!-- tree -->")[2].partition("<!-- /tree -->")[0]
    listed = set(re.findall(r"`((?:engine|gateway)/[\w/]+\.py)`", tree))
    found = [path for top in ("engine", "gateway") for path in (ROOT / top).rglob("*.py")]
    modules = {path.relative_to(ROOT).as_posix(): path for path in found if path.stat().st_size}

    missing = [f"| `{name}` | {purpose(modules[name])} |" for name in sorted({*modules} - listed)]

    assert not missing, "add to the tree:\n" + "\n".join(missing)
    assert not listed - {*modules}


def purpose(path: Path) -> str:
    """The first line of a module's docstring."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0]
