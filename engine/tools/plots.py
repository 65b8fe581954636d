"""Pictures of a simulation as SVG, drawn by hand: a few lines and rectangles need no library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from math import log10
from typing import Any

from engine.trace import Span
from engine.work import Stage

WIDTH, HEIGHT, EDGE = 720, 300, 56  # px
COLOURS = ("#3d5a80", "#e07a5f", "#81a684", "#b56576", "#6d6875", "#d4a373")
STAGE_COLOURS = dict(zip(Stage, COLOURS, strict=False))
LANES = 40  # utterances shown in a timeline
SHOWN = 0.5  # s of a timeline, from the middle of the trace
LANE_HEIGHT = 9  # px
STYLE = (
    "<style>text{font:11px system-ui,sans-serif;fill:#444}"
    ".axis{stroke:#999;stroke-width:1}.line{fill:none;stroke-width:2}</style>"
)


def sweep_plot(results: Sequence[dict[str, Any]]) -> str:
    """Return p95 first sound and the share of underrun replies over the rate, a line a policy."""
    names = list(dict.fromkeys(each["policy"] for each in results))
    first, underruns = {}, {}
    for name in names:
        runs = [each for each in results if each["policy"] == name]
        first[name] = [(r["rps"], 1000 * (r["first_sound"]["p95"] or 0.0)) for r in runs]
        underruns[name] = [(r["rps"], _underrun_percent(r)) for r in runs]
    top = _panel(first, "p95 first sound, ms", at=0)
    bottom = _panel(underruns, "replies with silence, %", at=HEIGHT)
    legend = (
        f'<text x="{EDGE + 110 * n}" y="{2 * HEIGHT + 24}" style="fill:{COLOURS[n]}">'
        f"{escape(name)}</text>"
        for n, name in enumerate(names)
    )
    return _svg([*top, *bottom, *legend], 2 * HEIGHT + 40)


def timeline_plot(spans: Iterable[Span]) -> str:
    """Return half a second of one device: launches as bars, utterances as lanes."""
    spans = list(spans)
    begin = spans[len(spans) // 2].began if spans else 0.0
    spans = [span for span in spans if begin <= span.began < begin + SHOWN]
    end = max((span.ended for span in spans), default=begin)
    names = list(dict.fromkeys(name for span in spans for name in span.utterances))[:LANES]
    lanes = {name: n for n, name in enumerate(names)}
    top = 5 * 16 + 20
    height = top + LANE_HEIGHT * len(names) + 30
    return _svg(_timeline(spans, lanes, begin=begin, end=end, top=top), height)


def _timeline(
    spans: Sequence[Span], lanes: dict[str, int], *, begin: float, end: float, top: int
) -> Iterator[str]:
    scale = (WIDTH - 2 * EDGE) / max(end - begin, 1e-9)
    for row, stage in enumerate(Stage):
        yield f'<text x="4" y="{16 * row + 24}">{stage.value}</text>'
    for span in spans:
        x, width = EDGE + (span.began - begin) * scale, (span.ended - span.began) * scale
        bar = f'<rect x="{x:.1f}" width="{max(width, 0.5):.2f}" fill="{STAGE_COLOURS[span.stage]}"'
        why = f"{span.rows} × {span.frames}; {span.anchor} had {span.slack * 1000:.1f} ms left"
        y = 16 * list(Stage).index(span.stage) + 14
        yield f'{bar} y="{y}" height="12"><title>{escape(why)}</title></rect>'
        for name in span.utterances:
            if name in lanes:
                y = top + LANE_HEIGHT * lanes[name]
                yield f'{bar} y="{y}" height="{LANE_HEIGHT - 2}"/>'
    for name, lane in lanes.items():
        yield f'<text x="4" y="{top + LANE_HEIGHT * lane + 8}">{escape(name)}</text>'
    yield f'<text x="{EDGE}" y="{top + LANE_HEIGHT * len(lanes) + 20}">{begin:.3f} s</text>'
    yield f'<text x="{WIDTH - EDGE}" y="{top + LANE_HEIGHT * len(lanes) + 20}">{end:.3f} s</text>'


def _panel(lines: dict[str, list[tuple[float, float]]], title: str, *, at: int) -> Iterator[str]:
    points = [point for line in lines.values() for point in line]
    low, high = min(x for x, _ in points), max(x for x, _ in points)
    peak = max(max(y for _, y in points), 1e-9)
    floor, room = at + HEIGHT - 28, HEIGHT - 60

    def place(x: float, y: float) -> str:
        across = log10(x / low) / log10(high / low) if high > low else 0.0
        return f"{EDGE + across * (WIDTH - 2 * EDGE):.1f},{floor - y / peak * room:.1f}"

    yield f'<text x="{EDGE}" y="{at + 18}">{escape(title)}</text>'
    yield f'<text x="4" y="{floor - room + 4}">{peak:.3g}</text><text x="4" y="{floor}">0</text>'
    yield f'<line class="axis" x1="{EDGE}" x2="{WIDTH - EDGE}" y1="{floor}" y2="{floor}"/>'
    for x in sorted({x for x, _ in points}):
        left = place(x, 0).partition(",")[0]
        yield f'<text x="{left}" y="{floor + 16}" text-anchor="middle">{x:g}</text>'
    for number, line in enumerate(lines.values()):
        path = " ".join(place(x, y) for x, y in line)
        yield f'<polyline class="line" stroke="{COLOURS[number]}" points="{path}"/>'


def _underrun_percent(figures: dict[str, Any]) -> float:
    spoken = figures["replies"] - figures["refused"]
    return 100.0 * figures["underrun_replies"] / spoken if spoken else 0.0


def _svg(parts: Iterable[str], height: int) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}">'
    return "\n".join([head, STYLE, *parts, "</svg>\n"])
