"""This module draws the pictures of the pages, as SVG that takes its colours from the page. Each has a title
or a label for who cannot see it.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from lakecore_airflow.ui.words import DAY_MS, money_text, size_text, span_text, time_text

if TYPE_CHECKING:
    from lakecore.jobs.level_history import LevelPoint
    from lakecore.jobs.survey import DayPoint
    from lakecore_airflow.ui.history_view import Sums

__all__ = [
    "day_bars",
    "estimate_chart",
    "history_chart",
    "level_history_picture",
    "level_picture",
    "run_line",
    "score_line",
]

_WIDTH, _HEIGHT = 72, 18
_SCRIPT = re.compile(r"<script.*?</script>", re.DOTALL)
_CELL_W, _CELL_H, _LEFT, _TOP = 26, 22, 62, 22
_LABEL_W = 150
_STRONG = 0.5
_MOST_BUCKETS = 24
_MOST_DAYS = 31


def score_line(days: Sequence[DayPoint]) -> Markup:
    """Return a small line of the scores of the last days. Fewer than two days give no picture."""
    return _line(days, [min(100, day.score) for day in days], 100, "score")


def run_line(days: Sequence[DayPoint]) -> Markup:
    """Return a small line of sorted runs, or of files where there are no runs. Fewer than two days give no
    picture.
    """
    runs = [day.sorted_runs for day in days]
    values, name = (runs, "sorted runs") if any(runs) else ([day.files for day in days], "files")
    return _line(days, values, max([*values, 1]), name)


def _line(days: Sequence[DayPoint], values: Sequence[int], most: int, name: str) -> Markup:
    if len(days) < 2:
        return Markup("")
    first, last = days[0].time_ms, max(days[-1].time_ms, days[0].time_ms + 1)
    points = " ".join(
        f"{_WIDTH * (day.time_ms - first) / (last - first):.1f},{_HEIGHT * (most - value) / most:.1f}"
        for day, value in zip(days, values, strict=True)
    )
    title = f"{name} {values[0]} to {values[-1]}, {time_text(first)} to {time_text(last)}"
    svg = (
        '<svg class="line" role="img" viewBox="-1 -1 {0} {1}" width="{0}" height="{1}"><title>{2}</title>'
        '<polyline points="{3}"/></svg>'
    )
    return Markup(svg).format(_WIDTH + 2, _HEIGHT + 2, title, points)


def history_chart(days: Sequence[DayPoint], marks: Mapping[int, str] | None = None) -> Markup:
    """Return a picture of files and sorted runs of the last days. `marks` says by day (since 1970) what was
    done. Fewer than two days give no picture.
    """
    if len(days) < 2:
        return Markup("")
    chart = _chart("Line", height=240, show_dots=True, fill=False)
    chart.x_labels = [time_text(day.time_ms)[5:10] for day in days]
    chart.add("files", [day.files for day in days])
    chart.add("sorted runs", [day.sorted_runs for day in days], secondary=True)
    by_day = marks or {}
    dots = [
        {"value": day.files, "label": by_day[day.time_ms // DAY_MS]}
        if day.time_ms // DAY_MS in by_day
        else None
        for day in days
    ]
    if any(dots):
        chart.add("maintenance", dots, stroke=False, dots_size=6)
    return _markup(chart, "files and sorted runs by day")


def level_picture(cells: Mapping[tuple[int, str], tuple[int, int]]) -> Markup:
    """Return a picture of the files of a table: a row for each level, a column for each of the largest
    buckets, the darker the more bytes. A table without files gives no picture.
    """
    if not cells:
        return Markup("")
    sizes: dict[str, int] = {}
    for (_, bucket), (_, size) in cells.items():
        sizes[bucket] = sizes.get(bucket, 0) + size
    buckets = sorted(sorted(sizes, key=lambda name: -sizes[name])[:_MOST_BUCKETS])
    levels = sorted({level for level, _ in cells})
    most = max(size for _, size in cells.values()) or 1
    width, height = _LEFT + max(_LABEL_W, _CELL_W * len(buckets)) + 8, _TOP + _CELL_H * len(levels) + 8
    parts = [
        Markup('<svg class="levels" role="img" viewBox="0 0 {0} {1}" width="{0}" height="{1}">').format(
            width, height
        ),
        Markup("<title>{}</title>").format(
            f"{len(levels)} levels, the {len(buckets)} largest of {len(sizes)} buckets"
        ),
    ]
    for row, level in enumerate(levels):
        down = _TOP + row * _CELL_H
        parts.append(Markup('<text x="0" y="{}">level {}</text>').format(down + 15, level))
        for column, bucket in enumerate(buckets):
            count, size = cells.get((level, bucket), (0, 0))
            parts.append(_cell(_LEFT + column * _CELL_W, down, count, size / most))
            parts.append(Markup("<title>{}</title></g>").format(_cell_text(bucket, level, count, size)))
    label = Markup('<text x="{}" y="14">buckets, the largest {}</text></svg>').format(_LEFT, len(buckets))
    return Markup("").join([*parts, label])


def level_history_picture(points: Sequence[LevelPoint]) -> Markup:
    """Return a picture of the levels of a table over its last snapshots: a row for each level, a column for
    each snapshot, the darker the more bytes; below them the most sorted runs of a bucket. Fewer than two
    snapshots give no picture.
    """
    if len(points) < 2:
        return Markup("")
    levels = sorted({level for point in points for level in point.levels})
    most = max((size for point in points for _, size in point.levels.values()), default=0) or 1
    has_runs = any(point.sorted_runs for point in points)
    rows = len(levels) + has_runs
    width, height = _LEFT + max(_LABEL_W, _CELL_W * len(points)) + 8, _TOP + _CELL_H * rows + 8
    first, last = points[0].snapshot, points[-1].snapshot
    parts = [
        Markup('<svg class="levels" role="img" viewBox="0 0 {0} {1}" width="{0}" height="{1}">').format(
            width, height
        ),
        Markup("<title>files of {} levels, snapshots {} to {}</title>").format(len(levels), first, last),
        *(
            Markup('<text x="0" y="{}">level {}</text>').format(_TOP + row * _CELL_H + 15, level)
            for row, level in enumerate(levels)
        ),
    ]
    for column, point in enumerate(points):
        right = _LEFT + column * _CELL_W
        if point.kind != "APPEND":
            parts.append(
                Markup('<text class="count" x="{}" y="14">{}<title>{}</title></text>').format(
                    right + 12, point.kind[0], f"snapshot {point.snapshot}: {point.kind}"
                )
            )
        for row, level in enumerate(levels):
            count, size = point.levels.get(level, (0, 0))
            text = (
                f"snapshot {point.snapshot} ({point.kind}, {time_text(point.time_ms)}), level {level}: "
                f"{count} files, {size_text(size) or '0 B'}"
            )
            parts.append(_cell(right, _TOP + row * _CELL_H, count, size / most))
            parts.append(Markup("<title>{}</title></g>").format(text))
        if has_runs:
            parts.append(
                Markup('<text class="count" x="{}" y="{}">{}</text>').format(
                    right + 12, _TOP + len(levels) * _CELL_H + 15, point.sorted_runs
                )
            )
    if has_runs:
        parts.append(Markup('<text x="0" y="{}">runs</text>').format(_TOP + len(levels) * _CELL_H + 15))
    return Markup("").join([*parts, Markup("</svg>")])


def _cell(right: int, down: int, count: int, share: float) -> Markup:
    strength = 0.12 + 0.88 * math.sqrt(share) if count else 0.0
    text = Markup('<text class="count{}" x="{}" y="{}">{}</text>').format(
        " strong" if strength > _STRONG else "", right + 12, down + 15, count if count < 1000 else "…"
    )
    return Markup(
        '<g><rect x="{}" y="{}" width="24" height="20" rx="3" class="{}" style="fill-opacity:{}"/>{}'
    ).format(right, down, "full" if count else "empty", f"{strength:.2f}", text if count else "")


def _cell_text(bucket: str, level: int, count: int, size: int) -> str:
    return f"bucket {bucket}, level {level}: {count} files, {size_text(size) or '0 B'}"


def estimate_chart(points: Sequence[tuple[float, float]]) -> Markup:
    """Return a picture of expected and actual seconds, both on a logarithmic scale."""
    usable = [(max(0.01, expected), max(0.01, took)) for expected, took in points]
    if not usable:
        return Markup("")
    chart = _chart("XY", height=280, stroke=False, dots_size=3, truncate_legend=-1)
    chart.x_title, chart.y_title = "expected", "took"
    decades = range(
        math.floor(math.log10(min(min(point) for point in usable))),
        math.ceil(math.log10(max(max(point) for point in usable))) + 1,
    )
    scale = [{"value": decade, "label": span_text(10.0**decade)} for decade in decades]
    chart.x_labels = chart.y_labels = scale
    chart.add(
        "attempts",
        [
            {
                "value": (math.log10(expected), math.log10(took)),
                "label": f"expected {span_text(expected)}, took {span_text(took)}",
            }
            for expected, took in usable
        ],
    )
    ends = (decades[0], decades[-1])
    chart.add("as expected", [(end, end) for end in ends], stroke=True, show_dots=False)
    return _markup(chart, "expected and actual seconds")


def day_bars(sums: Sequence[Sums], currency: str) -> Markup:
    """Return a picture of core hours by day, or of money where there are prices."""
    if not sums:
        return Markup("")
    money = sums[0].money is not None
    chart = _chart("Bar", height=200, show_legend=False, x_label_rotation=0)
    last = sums[-_MOST_DAYS:]
    chart.x_labels = [one.name[5:] for one in last]
    if money:
        chart.add(f"cost {currency}", [round(one.money or 0, 4) for one in last])
        chart.value_formatter = lambda value: money_text(value, currency)
    else:
        chart.add("core time", [one.core_seconds for one in last])
        chart.value_formatter = span_text
    return _markup(chart, "cost by day")


def _chart(kind: str, **config: Any) -> Any:
    pygal = _pygal()

    style = pygal.style.Style(
        background="transparent",
        plot_background="transparent",
        foreground="var(--text)",
        foreground_strong="var(--text)",
        foreground_subtle="var(--dim)",
        guide_stroke_color="var(--dim)",
        major_guide_stroke_color="var(--dim)",
        colors=("var(--blue)", "var(--amber)", "var(--green)"),
        font_family="system-ui, sans-serif",
        label_font_size=11,
        major_label_font_size=11,
        legend_font_size=12,
        title_font_size=12,
        value_font_size=11,
        opacity=".75",
    )
    plain = {"js": (), "style": style, "disable_xml_declaration": True, "margin": 6, "width": 760}
    return getattr(pygal, kind)(**{**plain, "no_data_text": "", **config})


def _pygal() -> Any:
    """Import pygal without the import hook of its maps, which every later import of the process would ask."""
    import pygal
    import pygal.style

    sys.meta_path[:] = [one for one in sys.meta_path if type(one).__module__ != "pygal"]
    return pygal


def _markup(chart: Any, label: str) -> Markup:
    """Return the SVG of a chart, whose texts pygal has escaped, without the script for tooltips."""
    svg = _SCRIPT.sub("", chart.render(is_unicode=True))
    return Markup('<div role="img" aria-label="{}">').format(label) + Markup(svg) + Markup("</div>")
