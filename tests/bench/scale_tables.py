"""The tables of docs/scale.md: the curves of `scale.json`, and what many executors would take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["curves_of_files", "curves_of_tables", "schedules"]

Point = Mapping[str, Any]
OF_FILES = {
    "plan": "plans of a scan",
    "commit": "commit of one file",
    "commit_merge": "the same, and all manifests are written anew",
    "expire": "expiry of a history that replaced so many files",
    "orphans": "search for orphans among so many",
}
OF_TABLES = {
    "compact_database_dry_run": "`compact-database --dry-run` of tables of six small files",
    "compact_database": "`compact-database` of these tables",
}


def curves_of_files(found: Mapping[str, Any]) -> list[Sequence[str]]:
    return _curves(found, OF_FILES, "files")


def curves_of_tables(found: Mapping[str, Any]) -> list[Sequence[str]]:
    return _curves(found, OF_TABLES, "tables")


def _curves(found: Mapping[str, Any], titles: Mapping[str, str], unit: str) -> list[Sequence[str]]:
    """Rows of cells, the head first: CPU seconds and peak memory by size."""
    curves = {name: {point["size"]: point for point in found["curves"][name]} for name in titles}
    sizes = sorted({size for points in curves.values() for size in points})
    head = [
        "CPU seconds, peak MB",
        *(f"{size:,}" + (f" {unit}" if n == 0 else "") for n, size in enumerate(sizes)),
    ]
    rows = [[titles[name], *(_cell(points.get(size)) for size in sizes)] for name, points in curves.items()]
    return [head, *rows]


def _cell(point: Point | None) -> str:
    if point is None:
        return "not measured"
    digits = 2 if point["cpu"] < 1 else 1 if point["cpu"] < 100 else 0
    return f"{point['cpu']:,.{digits}f} s, {point['peak_bytes'] / 1e6:,.0f}"


def schedules(found: Mapping[str, Any]) -> list[Sequence[str]]:
    """Rows of cells, the head first: minutes of each way for the numbers of tables and executors."""
    tables = found["schedule"]["tables"]["schedules"]
    counts = sorted({one["executors"] for one in tables})
    ways = {
        "one_driver": "{:,} small tables, one driver plans and commits",
        "a_task_for_each": "{:,} small tables, a task for each",
    }
    sizes = sorted({one["tables"] for one in tables})
    rows = [
        [title.format(size), *(_seconds(tables, key, size, count) for count in counts)]
        for size in sizes
        for key, title in ways.items()
    ]
    if plans := found["schedule"].get("plans"):
        row = [f"{one['seconds']:,.0f} s" for one in plans["schedules"]]
        rows.append(
            [
                f"the plans of a table of {plans['files']:,} files, a task for each group (the first counts all files)",
                *row,
            ]
        )
    return [["seconds on so many executors", *map(str, counts)], *rows]


def _seconds(schedules: Sequence[Point], key: str, tables: int, executors: int) -> str:
    (one,) = (one for one in schedules if (one["tables"], one["executors"]) == (tables, executors))
    return f"{one[key]:,.{int(one[key] < 10)}f} s"
