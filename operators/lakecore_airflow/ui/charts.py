"""This module draws the pictures of the pages, as SVG that takes its colours from the page."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from lakecore_airflow.ui.views import size_text, time_text

if TYPE_CHECKING:
    from lakecore.jobs.survey import DayPoint

__all__ = ["history_chart", "level_picture", "score_line"]

_WIDTH, _HEIGHT = 96, 20
_SCRIPT = re.compile(r"<script.*?</script>", re.DOTALL)


def score_line(days: Sequence[DayPoint]) -> Markup:
    """Return a small line of the scores of the last days. Fewer than two days give no picture."""
    if len(days) < 2:
        return Markup("")
    first, last = days[0].time_ms, max(days[-1].time_ms, days[0].time_ms + 1)
    places = [
        (_WIDTH * (day.time_ms - first) / (last - first), _HEIGHT * (100 - min(100, day.score)) / 100)
        for day in days
    ]
    points = " ".join(f"{right:.1f},{down:.1f}" for right, down in places)
    title = f"score {days[0].score} to {days[-1].score}, {time_text(first)} to {time_text(last)}"
    svg = (
        '<svg class="line" role="img" viewBox="-1 -1 {0} {1}" width="{0}" height="{1}"><title>{2}</title>'
        '<polyline points="{3}"/></svg>'
    )
    return Markup(svg).format(_WIDTH + 2, _HEIGHT + 2, title, points)


def history_chart(days: Sequence[DayPoint]) -> Markup:
    """Return a picture of files and sorted runs of the last days. Fewer than two days give no picture."""
    if len(days) < 2:
        return Markup("")
    chart = _chart("Line", height=220, show_dots=True, fill=False)
    chart.x_labels = [time_text(day.time_ms)[5:10] for day in days]
    chart.add("files", [day.files for day in days])
    chart.add("sorted runs", [day.sorted_runs for day in days], secondary=True)
    return _markup(chart)


def level_picture(levels: Mapping[int, Mapping[str, int]]) -> Markup:
    """Return a picture of the bytes of each level as bars. A table without files gives no picture."""
    if not levels:
        return Markup("")
    chart = _chart("HorizontalBar", height=60 + 34 * len(levels), show_legend=False, print_values=True)
    chart.x_labels = [f"level {level}" for level in sorted(levels, reverse=True)]
    chart.add(
        "bytes",
        [
            {"value": levels[level]["bytes"], "label": f"{levels[level]['files']} files"}
            for level in sorted(levels, reverse=True)
        ],
        formatter=size_text,
    )
    chart.value_formatter = size_text
    return _markup(chart)


def _chart(kind: str, **config: Any) -> Any:
    pygal = _pygal()

    style = pygal.style.Style(
        background="transparent",
        plot_background="transparent",
        foreground="var(--text)",
        foreground_strong="var(--text)",
        foreground_subtle="var(--dim)",
        colors=("var(--blue)", "var(--amber)", "var(--green)"),
        font_family="system-ui, sans-serif",
        label_font_size=11,
        major_label_font_size=11,
        legend_font_size=12,
        value_font_size=11,
    )
    plain = {"js": (), "style": style, "disable_xml_declaration": True, "margin": 6, "width": 760}
    return getattr(pygal, kind)(**plain, **config)


def _pygal() -> Any:
    """Import pygal without the import hook of its maps, which every later import of the process would ask."""
    import pygal
    import pygal.style

    sys.meta_path[:] = [one for one in sys.meta_path if type(one).__module__ != "pygal"]
    return pygal


def _markup(chart: Any) -> Markup:
    """Return the SVG of a chart, whose texts pygal has escaped, without the script for tooltips."""
    return Markup(_SCRIPT.sub("", chart.render(is_unicode=True)))
