"""This module decides what the tabs of a run and of a task show: outcomes in words, tables by jobs, sums.
Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakecore_airflow.reports.outcome import outcome_of
from lakecore_airflow.ui.words import size_text

__all__ = ["RunMatrix", "run_matrix", "run_sums", "run_view"]


def run_view(tasks: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a line for each task of a run, failures first; `report` is its XCom, or None."""
    order = {"failed": 0, "upstream_failed": 1, "up_for_retry": 2, "running": 3}
    lines = [
        {**task, "outcome": outcome_of(task["report"]) if isinstance(task["report"], Mapping) else ""}
        for task in tasks
    ]
    return sorted(lines, key=lambda line: (order.get(line["state"], 9), line["task_id"], line["map_index"]))


@dataclass(frozen=True, slots=True)
class RunMatrix:
    """It has a row for each table of a run, failures first, and a column for each job."""

    jobs: Sequence[str]
    rows: Sequence[tuple[str, str, Mapping[str, str]]]
    """Each has the table, the state of its task, and the outcome of each job."""


def run_matrix(lines: Sequence[Mapping[str, Any]]) -> RunMatrix:
    """Return what each job did to each table, for the tasks that have reports."""
    jobs: dict[str, None] = {}
    rows = []
    for line in lines:
        report = line["report"]
        if not isinstance(report, Mapping):
            continue
        cells = _cells_of(report, line)
        jobs |= dict.fromkeys(cells)
        rows.append((str(report.get("table") or line["name"]), str(line["state"]), cells))
    return RunMatrix(tuple(jobs), rows)


def _cells_of(report: Mapping[str, Any], line: Mapping[str, Any]) -> dict[str, str]:
    jobs = report.get("done")
    if not isinstance(jobs, list):
        return {str(report.get("job") or line["task_id"]): outcome_of(report)}
    cells = {str(one.get("job")): outcome_of(one) for one in jobs if isinstance(one, Mapping)}
    for name in ("failed", "refused", "held"):
        reasons = report.get(name)
        if isinstance(reasons, Mapping):
            cells |= {str(job): f"{name}: {text}" for job, text in reasons.items()}
    rest = report.get("left")
    return cells | dict.fromkeys(map(str, rest if isinstance(rest, list) else ()), "left")


def run_sums(lines: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return sums over the reports of a run, as title and text; what is 0 is left out."""
    reports = [line["report"] for line in lines if isinstance(line["report"], Mapping)]
    parts = [one for report in reports for one in (report, *_dicts(report.get("done")))]
    states = Counter(str(line["state"]) for line in lines)
    before, after = (
        _sum(shape.get("files") for shape in _shapes(parts, name)) for name in ("before", "after")
    )
    tiles = {
        "Tasks": f"{len(lines):,}",
        "Failed": f"{states['failed']:,}" if states["failed"] else "",
        "Skipped": f"{states['skipped']:,}" if states["skipped"] else "",
        "Files": f"{before:,} → {after:,}" if before != after else "",
        "Rewritten": size_text(_sum(one.get("bytes_in") for one in parts)),
        "Removed": size_text(_sum(one.get("bytes") for one in parts if not one.get("dry_run"))),
        "Picks left": f"{count:,}" if (count := _sum(one.get("picks_left") for one in parts)) else "",
    }
    return {title: text for title, text in tiles.items() if text and text != "0 B"}


def _dicts(values: Any) -> list[Mapping[str, Any]]:
    return [one for one in values if isinstance(one, Mapping)] if isinstance(values, list) else []


def _shapes(reports: Iterable[Mapping[str, Any]], name: str) -> list[Mapping[str, Any]]:
    return [
        shape for one in reports if isinstance(shape := one.get(name), Mapping) and not one.get("dry_run")
    ]


def _sum(values: Iterable[Any]) -> int:
    return sum(value for value in values if isinstance(value, int) and not isinstance(value, bool))
