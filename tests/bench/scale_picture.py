"""The curves of `scale.py` as a picture (SVG): CPU seconds and peak memory over the number of files or tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil, floor, log10
from typing import Any

__all__ = ["picture"]

_WIDTH, _HEIGHT, _LEFT, _TOP = 360, 260, 60, 40
_COLOURS = ("#1b6ca8", "#c0392b", "#27864b", "#8e44ad", "#b9770e", "#34495e")
_PANELS = (("CPU seconds", "cpu", 1.0), ("peak memory, MB", "peak_bytes", 1e6))


def picture(curves: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Return an SVG with two panels, both axes logarithmic."""
    parts = [
        part
        for number, (title, field, unit) in enumerate(_PANELS)
        for part in _panel(curves, title, field, unit, _LEFT + number * (_WIDTH + _LEFT))
    ]
    parts += _legend(list(curves))
    width, height = 2 * (_WIDTH + _LEFT) + _LEFT // 2, _TOP + _HEIGHT + 60 + 20 * ceil(len(curves) / 3)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">'
    return "\n".join([head, f'<rect width="{width}" height="{height}" fill="white"/>', *parts, "</svg>", ""])


def _panel(
    curves: Mapping[str, Sequence[Mapping[str, Any]]], title: str, field: str, unit: float, left: int
) -> Iterable[str]:
    points = {
        name: [(log10(one["size"]), log10(max(one[field] / unit, 1e-3))) for one in ones]
        for name, ones in curves.items()
    }
    flat = [point for ones in points.values() for point in ones]
    spans = [
        (floor(min(values)), max(ceil(max(values)), floor(min(values)) + 1))
        for values in zip(*flat, strict=True)
    ]

    def place(point: tuple[float, float]) -> tuple[float, float]:
        across, up = ((value - low) / (high - low) for value, (low, high) in zip(point, spans, strict=True))
        return round(left + across * _WIDTH, 1), round(_TOP + (1 - up) * _HEIGHT, 1)

    yield f'<text x="{left}" y="{_TOP - 12}" font-weight="bold">{title}</text>'
    for power in range(spans[0][0], spans[0][1] + 1):
        x = place((power, 0))[0]
        yield f'<line x1="{x}" y1="{_TOP}" x2="{x}" y2="{_TOP + _HEIGHT}" stroke="#ddd"/>'
        yield f'<text x="{x}" y="{_TOP + _HEIGHT + 16}" text-anchor="middle">{10**power:,}</text>'
    for power in range(spans[1][0], spans[1][1] + 1):
        y = place((spans[0][0], power))[1]
        yield f'<line x1="{left}" y1="{y}" x2="{left + _WIDTH}" y2="{y}" stroke="#ddd"/>'
        yield f'<text x="{left - 6}" y="{y + 4}" text-anchor="end">{10.0**power:g}</text>'
    for colour, ones in zip(_COLOURS, points.values(), strict=False):
        places = [place(point) for point in ones]
        line = " ".join(f"{x},{y}" for x, y in places)
        yield f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>'
        yield from (f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>' for x, y in places)
    yield f'<text x="{left + _WIDTH / 2}" y="{_TOP + _HEIGHT + 34}" text-anchor="middle">files or tables</text>'


def _legend(names: Sequence[str]) -> Iterable[str]:
    for number, (name, colour) in enumerate(zip(names, _COLOURS, strict=False)):
        x, y = _LEFT + number % 3 * 260, _TOP + _HEIGHT + 60 + 20 * (number // 3)
        yield f'<rect x="{x}" y="{y - 9}" width="12" height="10" fill="{colour}"/>'
        yield f'<text x="{x + 18}" y="{y}">{name.replace("_", " ")}</text>'
