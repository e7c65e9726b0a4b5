"""This module puts the report of a task into a few words, for the pages and for the labels of mapped tasks.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["LABEL", "label_of", "outcome_of"]

LABEL = "{{ task.table }}{% if outcome is defined %} · {{ outcome }}{% endif %}"
"""As `map_index_template` it names a mapped task by its table, and when it ends also by its outcome."""

_LONGEST_LABEL = 120


def label_of(report: Mapping[str, Any]) -> str:
    """Return the outcome as a label may show it: one line that is not too long."""
    text = " ".join(outcome_of(report).split())
    return text if len(text) <= _LONGEST_LABEL else f"{text[: _LONGEST_LABEL - 1]}…"


def outcome_of(report: Mapping[str, Any]) -> str:
    """Say in a few words what the report of a task tells: `28 → 2 files`, `nothing to do`."""
    if report.get("error"):
        return str(report["error"])
    if report.get("nothing_to_do"):
        return "nothing to do"
    parts = []
    before, after = report.get("before"), report.get("after")
    if isinstance(before, Mapping) and isinstance(after, Mapping) and before.get("files") is not None:
        about = "about " if report.get("dry_run") else ""
        parts.append(f"{before['files']} → {about}{after.get('files')} files")
    names = {"files": "files removed", "snapshots_count": "snapshots", "names_count": "names"}
    parts += [f"{report[key]} {text}" for key, text in names.items() if report.get(key) and not parts]
    if report.get("picks_left") and not report.get("dry_run"):
        parts.append(f"picks left: {report['picks_left']}")
    if report.get("skipped"):
        parts.append(str(report["skipped"]))
    jobs = report.get("done")
    if isinstance(jobs, list):
        parts += [f"{one.get('job')}: {outcome_of(one)}" for one in jobs if isinstance(one, Mapping)]
    for word in ("failed", "refused", "on_hold"):
        reasons = report.get(word)
        if isinstance(reasons, Mapping) and reasons:
            parts.append(f"{word.replace('_', ' ')}: {', '.join(map(str, reasons))}")
    rest = report.get("left")
    if isinstance(rest, list) and rest:
        parts.append(f"left: {', '.join(map(str, rest))}")
    text = ", ".join(parts) or "done"
    return f"would be: {text}" if report.get("dry_run") else text
