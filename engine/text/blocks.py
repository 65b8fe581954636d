"""Markdown's marks that begin or divide lines: headings, bullets, fences, quotes, rules, tables.

Each rule reads the mark at `index`; it returns the mark's end, or None if it is plain text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from engine.text.layout import Layout, Pause
from engine.text.spans import FENCE_INFO, Source, rule_cell

Rule: TypeAlias = "Callable[[Source, Layout, int], int | None]"


def backtick(source: Source, layout: Layout, index: int) -> int:
    """Drop code marks; a fence at a line's start with the name of its language."""
    end = source.run(index)
    if end - index >= 3 and layout.line_start:
        info = source.scan(end, FENCE_INFO, 40)
        if source.at(info) in "\n":
            layout.begin_block()
            return info
    return end


def heading(source: Source, layout: Layout, index: int) -> int | None:
    """Drop `## ` at a line's start."""
    if not layout.line_start:
        return None
    end = source.run(index, 7)
    behind = source.at(end)
    if end - index > 6 or (behind and not behind.isspace()):
        return None
    layout.begin_block()
    return end


def dash(source: Source, layout: Layout, index: int) -> int | None:
    """Drop the mark of `- item` and `+ item`, and rules: `---`, `====`."""
    end = source.run(index)
    if end - index >= 3:
        layout.rest(Pause.COMMA)
        if layout.line_start:
            layout.begin_block()
        return end
    if end - index == 1 and layout.line_start and source.text[index] != "=":
        behind = source.at(end)
        if behind == "" or behind.isspace():
            layout.begin_block()
            return end
    return None


def tilde(source: Source, layout: Layout, index: int) -> int | None:
    """Drop `~~`."""
    end = source.run(index)
    return end if end - index >= 2 else None


def quote(source: Source, layout: Layout, index: int) -> int | None:
    """Drop `>` at a line's start."""
    return index + 1 if layout.line_start else None


def bar(source: Source, layout: Layout, index: int) -> int:
    """Pause at a table's bar; drop its `|---|` cells."""
    end = rule_cell(source, index + 1)
    if layout.line_start:
        layout.begin_block()
    layout.rest(Pause.COMMA)
    return end or index + 1


BLOCK_RULES: dict[str, Rule] = {
    "`": backtick,
    "#": heading,
    "-": dash,
    "+": dash,
    "=": dash,
    "~": tilde,
    ">": quote,
    "|": bar,
}
