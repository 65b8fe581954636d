"""First sound and underruns over load, as SVG: no library, opens anywhere. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from gateway.bench.sweep import Point

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 64, 64, 60, 52  # px around the plot
P50, P95, DRY, FAINT, INK = "#2f7ed8", "#0b3a75", "#d1495b", "#d9d9d9", "#222222"
TICKS = 5


def chart(swept: Sequence[Point], *, title: str, unit: str) -> str:
    """One drawing: p50 and p95 of the audible first sound (lines, left), underruns (bars, right).

    Args:
        swept: at least one point.
        unit: of the load, such as `replies/s`.
    """
    loads = [point.load for point in swept]
    times = [1000 * (point.audible_p95 or 0.0) for point in swept]
    high = _ceiling(max(times))
    most = max(_dry_share(point) for point in swept)
    share = _ceiling(max(most, 1.0))
    parts = [
        *_frame(title, unit),
        *_left_axis(high),
        *_right_axis(share),
        *(_bar(point, index, len(loads), share) for index, point in enumerate(swept)),
        *(_label(load, index, len(loads)) for index, load in enumerate(loads)),
        _line([point.audible_p50 for point in swept], high, P50),
        _line([point.audible_p95 for point in swept], high, P95),
    ]
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    font = 'font-family="system-ui, sans-serif" font-size="12"'
    body = "\n".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>\n{body}\n</svg>\n'


def _frame(title: str, unit: str) -> list[str]:
    middle = (LEFT + WIDTH - RIGHT) / 2
    return [
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        _text(LEFT, 20, title, anchor="start"),
        _text(middle, HEIGHT - 10, unit),
        _text(WIDTH - RIGHT - 190, 42, "p50", fill=P50),
        _text(WIDTH - RIGHT - 150, 42, "p95", fill=P95),
        _text(WIDTH - RIGHT - 60, 42, "replies that ran dry", fill=DRY),
    ]


def _left_axis(high: float) -> list[str]:
    lines = []
    for tick in range(TICKS + 1):
        y = _y(tick / TICKS)
        lines.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{FAINT}"/>')
        lines.append(_text(LEFT - 8, y + 4, f"{high * tick / TICKS:g} ms", anchor="end"))
    return lines


def _right_axis(share: float) -> list[str]:
    return [
        _text(WIDTH - RIGHT + 8, _y(tick / TICKS) + 4, f"{share * tick / TICKS:g} %", "start", DRY)
        for tick in range(TICKS + 1)
    ]


def _bar(point: Point, index: int, count: int, share: float) -> str:
    top = _y(_dry_share(point) / share)
    x, width = _x(index, count) - 8, 16
    height = _y(0) - top
    return (
        f'<rect x="{x:.1f}" y="{top:.1f}" width="{width}" height="{height:.1f}"'
        f' fill="{DRY}" fill-opacity="0.5"/>'
    )


def _label(load: float, index: int, count: int) -> str:
    return _text(_x(index, count), HEIGHT - BOTTOM + 18, f"{load:g}")


def _line(values: Sequence[float | None], high: float, color: str) -> str:
    places = [
        (_x(index, len(values)), _y(1000 * value / high))
        for index, value in enumerate(values)
        if value is not None
    ]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in places)
    line = f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>'
    return f'{line}<g fill="{color}">{dots}</g>'


def _x(index: int, count: int) -> float:
    """Loads stand side by side in their order: they usually double."""
    return LEFT + (index + 0.5) / count * (WIDTH - LEFT - RIGHT)


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def _text(x: float, y: float, words: str, anchor: str = "middle", fill: str = INK) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}"'
    return f"<text {place}>{escape(words)}</text>"


def _ceiling(value: float) -> float:
    """The next 1, 2 or 5 times a power of ten: an axis people can read."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value * 0.9999)


def _dry_share(point: Point) -> float:
    replies = sum(summary.replies for summary in point.summaries)
    return 100 * point.underruns / replies if replies else 0.0
