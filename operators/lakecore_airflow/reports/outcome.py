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
    jobs = report.get("done")
    if isinstance(jobs, list):
        parts = [f"{one.get('job')}: {outcome_of(one)}" for one in jobs if isinstance(one, Mapping)]
        return ", ".join([*parts, *_not_done(report)]) or "nothing to do"
    parts = [] if report.get("nothing_to_do") else _changes(report)
    dry_run = bool(report.get("dry_run"))
    if report.get("picks_left") and not dry_run:
        parts.append(f"picks left: {report['picks_left']}")
    if report.get("skipped"):
        parts.append(str(report["skipped"]))
    if not parts:
        return "nothing to do" if dry_run or report.get("nothing_to_do") else "done"
    text = ", ".join(parts)
    return f"would be: {text}" if dry_run else text


def _changes(report: Mapping[str, Any]) -> list[str]:
    """Return the change of the number of files, else how many files, snapshots or names were removed."""
    before, after = report.get("before"), report.get("after")
    if (
        isinstance(before, Mapping)
        and isinstance(after, Mapping)
        and before.get("files") != after.get("files")
    ):
        about = "about " if report.get("dry_run") else ""
        return [f"{before.get('files')} → {about}{after.get('files')} files"]
    words = {"files": ("file removed", "files removed"), "snapshots_count": ("snapshot", "snapshots")}
    words["names_count"] = ("name", "names")
    return [f"{report[key]} {pair[report[key] != 1]}" for key, pair in words.items() if report.get(key)][:1]


def _not_done(report: Mapping[str, Any]) -> list[str]:
    """Return which jobs of a policy failed, were refused, were stopped by a hold, or are left."""
    parts = []
    for word in ("failed", "refused", "on_hold", "left"):
        names = report.get(word)
        if isinstance(names, Mapping | list) and names:
            parts.append(f"{word.replace('_', ' ')}: {', '.join(map(str, names))}")
    return parts
