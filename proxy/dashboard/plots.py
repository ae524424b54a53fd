"""Plots as SVG that stands in a page: lines, intervals, reliability. Colours are the style sheet's, for light and dark.

Above: run_report.py. Below: visible.py and markupsafe; every word is made visible and escaped here. Each plot has a
title and a description for those who do not see it, and what colour says is said by dashes or words, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from proxy.dashboard.visible import visible

WIDTH = 720
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 34, 44
"""Of the area that is drawn in, in lines and reliability."""
HEIGHT = 280
ROW = 24
NAME_WIDTH = 250
VALUE_WIDTH = 150
NAME_CHARS = 40
TICKS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One series; equally many of each."""

    label: str
    xs: Sequence[float]
    ys: Sequence[float]
    band: Sequence[tuple[float, float]] = ()
    """Ends of the interval at each point; empty for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One value with its interval."""

    label: str
    value: float
    low: float
    high: float
    said: str
    """The value in words, at the end of the row."""
    strong: bool = False
    """One that is to be seen first."""


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to places."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> str:
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return f"{self.start + share * (self.end - self.start):.1f}"


def lines(name: str, title: str, series: Sequence[Line], *, across: str) -> Markup:
    """`name`: of the plot, no other on the page has it. `across`: what the horizontal axis counts."""
    xs = [x for line in series for x in line.xs]
    ys = [y for line in series for y in line.ys] + [end for line in series for pair in line.band for end in pair]
    if not xs:
        return Markup("")
    horizontal = Scale(*_span(xs), LEFT, WIDTH - RIGHT)
    up = Scale(*_span(ys), HEIGHT - BOTTOM, TOP)
    parts = [*_grid(horizontal, up), _text(WIDTH - RIGHT, HEIGHT - 8, across, "end")]
    for number, line in enumerate(series):
        kind = f"s{number % 4}"
        if line.band:
            ends = [(x, low) for x, (low, _) in zip(line.xs, line.band, strict=True)]
            ends += [(x, high) for x, (_, high) in reversed(list(zip(line.xs, line.band, strict=True)))]
            parts.append(f'<path class="band {kind}" d="{_path(ends, horizontal, up)}Z"/>')
        points = list(zip(line.xs, line.ys, strict=True))
        if len(points) == 1:
            parts.append(_dot(horizontal.at(points[0][0]), up.at(points[0][1]), kind, 3))
        parts.append(f'<path class="line {kind}" d="{_path(points, horizontal, up)}"/>')
        left = LEFT + number * 170
        parts.append(f'<path class="line {kind}" d="M{left} 16h26"/>')
        parts.append(_text(left + 32, 20, line.label))
    said = "; ".join(f"{line.label}: from {line.ys[0]:.3g} to {line.ys[-1]:.3g}" for line in series if line.ys)
    return _svg(name, title, said, HEIGHT, parts)


def intervals(
    name: str, title: str, rows: Sequence[Row], *, marks: Sequence[tuple[float, str]] = (), bars: bool = False
) -> Markup:
    """One row a value. `marks`: values with a line of their own, and what they are. `bars`: from 0 to the value, for
    shares; else a point."""
    if not rows:
        return Markup("")
    ends = [end for row in rows for end in (row.low, row.high, row.value)] + [value for value, _ in marks]
    low, high = (0.0, max(1.0, *ends)) if bars else _span(ends)
    height = TOP + ROW * len(rows) + BOTTOM
    across = Scale(low, high, NAME_WIDTH, WIDTH - VALUE_WIDTH)
    bottom = height - BOTTOM + 6
    parts: list[str] = []
    for tick in _ticks(low, high):
        parts.append(f'<path class="grid" d="M{across.at(tick)} {TOP - 6}V{bottom}"/>')
        parts.append(_text(across.at(tick), bottom + 16, f"{tick:.3g}", "middle"))
    for value, label in marks:
        parts.append(f'<path class="mark" d="M{across.at(value)} {TOP - 10}V{bottom}"/>')
        parts.append(_text(across.at(value), TOP - 16, label, "middle"))
    for place, row in enumerate(rows):
        middle = TOP + ROW * place + ROW / 2
        kind = "s0" if row.strong else "s3"
        parts.append(_text(NAME_WIDTH - 12, middle + 4, row.label, "end", strong=row.strong))
        if bars:
            width = float(across.at(row.value)) - NAME_WIDTH
            parts.append(
                f'<rect class="fill {kind}" x="{NAME_WIDTH}" y="{middle - 7}" width="{width:.1f}" height="14" rx="2"/>'
            )
        parts.append(f'<path class="whisker" d="M{across.at(row.low)} {middle}H{across.at(row.high)}"/>')
        if not bars:
            parts.append(_dot(across.at(row.value), f"{middle:.1f}", kind, 4))
        parts.append(_text(WIDTH - VALUE_WIDTH + 12, middle + 4, row.said))
    return _svg(name, title, "; ".join(f"{row.label}: {row.said}" for row in rows), height, parts)


def reliability(name: str, title: str, points: Sequence[tuple[float, float, int]]) -> Markup:
    """`points`: confidence, accuracy and how many decisions, of each bin that has any. On the diagonal a router is as
    often right as it is sure."""
    whole = sum(count for _, _, count in points)
    if not whole:
        return Markup("")
    across = Scale(0, 1, LEFT, WIDTH - RIGHT)
    up = Scale(0, 1, HEIGHT - BOTTOM, TOP)
    parts = [
        *_grid(across, up),
        f'<path class="mark" d="M{across.at(0)} {up.at(0)}L{across.at(1)} {up.at(1)}"/>',
        _text(WIDTH - RIGHT, HEIGHT - 8, "how sure it was", "end"),
        _text(LEFT, 20, "share that was right; a larger point is of more decisions"),
    ]
    for confidence, accuracy, count in points:
        parts.append(_dot(across.at(confidence), up.at(accuracy), "s0", 3 + 9 * math.sqrt(count / whole)))
    said = "; ".join(f"sure by {sure:.2f}, right {right:.2f}, {count} times" for sure, right, count in points)
    return _svg(name, title, said, HEIGHT, parts)


def _svg(name: str, title: str, said: str, height: float, parts: Sequence[str]) -> Markup:
    titled = f'<title id="{name}-title">{_escaped(title)}</title><desc id="{name}-said">{_escaped(said)}</desc>'
    return Markup(
        f'<svg class="plot" role="img" viewBox="0 0 {WIDTH} {height:.0f}" aria-labelledby="{name}-title {name}-said">'
        f"{titled}{''.join(parts)}</svg>"
    )


def _grid(across: Scale, up: Scale) -> Iterator[str]:
    for tick in _ticks(up.low, up.high):
        yield f'<path class="grid" d="M{across.start} {up.at(tick)}H{across.end}"/>'
        yield _text(across.start - 8, float(up.at(tick)) + 4, f"{tick:.3g}", "end")
    for tick in _ticks(across.low, across.high):
        yield _text(across.at(tick), up.start + 18, f"{tick:.4g}", "middle")


def _path(points: Sequence[tuple[float, float]], across: Scale, up: Scale) -> str:
    return "".join(f"{'L' if place else 'M'}{across.at(x)} {up.at(y)}" for place, (x, y) in enumerate(points))


def _dot(x: str, y: str, kind: str, radius: float) -> str:
    return f'<circle class="dot {kind}" cx="{x}" cy="{y}" r="{radius:.1f}"/>'


def _text(x: float | str, y: float, text: str, anchor: str = "start", *, strong: bool = False) -> str:
    shown = text if len(text) <= NAME_CHARS or anchor == "start" else f"{text[: NAME_CHARS - 1]}…"
    kind = ' class="strong"' if strong else ""
    return f'<text x="{x}" y="{y:.1f}" text-anchor="{anchor}"{kind}>{_escaped(shown)}</text>'


def _escaped(text: str) -> str:
    return str(escape(visible(text)))


def _span(values: Sequence[float]) -> tuple[float, float]:
    """A little more than the values take."""
    low, high = min(values), max(values)
    room = (high - low) * 0.04 or abs(high) * 0.1 or 1.0
    return low - room, high + room


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers between the ends, about `TICKS` of them."""
    rough = (high - low) / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(times * power for times in (1, 2, 5, 10) if times * power >= rough)
    first = math.ceil(low / step - 1e-9)
    # Counted in steps, so that 0 is 0 and not what rounding left of it.
    return [(first + place) * step for place in range(math.floor(high / step + 1e-9) - first + 1)]
