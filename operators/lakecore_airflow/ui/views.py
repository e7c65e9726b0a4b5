"""This module decides what the pages show. Pure: records in, plain values for the templates out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

if TYPE_CHECKING:
    from lakecore.jobs.survey import Survey, TableRecord

__all__ = ["LakeQuery", "age_text", "lake_view", "outcome_of", "run_view", "size_text", "time_text"]

PAGE = 100
"""So many tables are on one page."""
STATES = ("broken", "sick", "held", "unreachable", "vanished", "due", "unsupported", "ok")
"""The most urgent states are first."""
COLUMNS: Mapping[str, str] = {
    "score": "Health",
    "table": "Table",
    "state": "State",
    "files": "Files",
    "bytes": "Size",
    "runs": "Sorted runs",
    "history": "History",
    "commit": "Last commit",
    "due": "Due in",
}
_DESCENDING = frozenset({"files", "bytes", "runs", "history", "commit"})
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class LakeQuery:
    """It has what a reader wants of the list of tables: a part of the name, a state, an order, a page."""

    text: str = ""
    state: str = ""
    order: str = "score"
    reverse: bool = False
    page: int = 1

    @classmethod
    def of(cls, raw: Mapping[str, str]) -> LakeQuery:
        """Read the query of an address; what makes no sense is as if it were not there."""
        number = raw.get("page", "1")
        order = raw.get("order", "score")
        return cls(
            text=raw.get("q", "")[:200],
            state=raw.get("state", "") if raw.get("state") in STATES else "",
            order=order if order in COLUMNS else "score",
            reverse=raw.get("reverse") == "1",
            page=max(1, int(number[:7])) if number.isascii() and number.isdigit() else 1,
        )

    def link(self, **changes: Any) -> str:
        """Return the query of an address with some fields changed."""
        changed = replace(self, **changes)
        pairs = {
            "q": changed.text,
            "state": changed.state,
            "order": "" if changed.order == "score" else changed.order,
            "reverse": "1" if changed.reverse else "",
            "page": "" if changed.page == 1 else str(changed.page),
        }
        return "?" + urlencode({key: value for key, value in pairs.items() if value})


@dataclass(frozen=True, slots=True)
class LakeView:
    """It has what the page of a lake shows."""

    rows: Sequence[TableRecord]
    matches: int
    """It counts the tables that the filters leave; `rows` are those of one page."""
    pages: int
    page: int
    states: Sequence[tuple[str, int]]
    """They are the states that occur, and how many tables have each."""
    tiles: Mapping[str, str]
    headers: Sequence[tuple[str, str, str]]
    """Each column has a title, the link that orders by it, and a mark if it is the order now."""
    query: LakeQuery = field(default_factory=LakeQuery)


def lake_view(survey: Survey, query: LakeQuery) -> LakeView:
    """Return the page for a query."""
    records = [record for record in survey.tables if _matches(record, query)]
    descending = query.reverse != (query.order in _DESCENDING)
    records.sort(key=lambda record: record.table)
    records.sort(key=lambda record: _value(record, query.order), reverse=descending)
    pages = max(1, -(-len(records) // PAGE))
    page = min(query.page, pages)
    counts = Counter(record.state.value for record in survey.tables)
    return LakeView(
        rows=records[(page - 1) * PAGE : page * PAGE],
        matches=len(records),
        pages=pages,
        page=page,
        states=[(state, counts[state]) for state in STATES if counts[state]],
        tiles=_tiles(survey),
        headers=[
            (
                title,
                query.link(order=name, reverse=name == query.order and not query.reverse, page=1),
                ("▼" if descending else "▲") if name == query.order else "",
            )
            for name, title in COLUMNS.items()
        ],
        query=replace(query, page=page),
    )


def _matches(record: TableRecord, query: LakeQuery) -> bool:
    return query.text.lower() in record.table.lower() and query.state in ("", record.state.value)


def _value(record: TableRecord, order: str) -> Any:
    figures = record.figures
    values = {
        "score": record.score,
        "table": record.table,
        "state": STATES.index(record.state.value),
        "files": figures.files,
        "bytes": figures.bytes,
        "runs": figures.sorted_runs,
        "history": figures.history_bytes or 0,
        "commit": figures.snapshot_ms or 0,
        "due": 1e9 if record.due_in_days is None else record.due_in_days,
    }
    return values[order]


def _tiles(survey: Survey) -> dict[str, str]:
    live = [record for record in survey.tables if record.state.value != "vanished"]
    counts = Counter(record.state.value for record in live)
    urgent = sum(counts[state] for state in ("broken", "sick", "unreachable"))
    sizes = [one.figures.history_bytes for one in live if one.figures.history_bytes is not None]
    return {
        "Tables": f"{len(live):,}",
        "Sick or broken": f"{urgent:,}",
        "Due": f"{counts['due']:,}",
        "On hold": f"{counts['held']:,}",
        "Data files": f"{sum(one.figures.files for one in live):,}",
        "Live": size_text(sum(one.figures.bytes for one in live)),
        "Only for old snapshots": size_text(sum(sizes)) if sizes else "not measured",
    }


def size_text(size: int | None) -> str:
    """Format a size as the command line does; an unknown one is an empty text."""
    from lakecore.display import size_text as text_of

    return text_of(size) or ""


def time_text(millis: int | None) -> str:
    """Format milliseconds since the epoch as `2026-11-21 09:46:10 UTC`; what is no date is an empty text."""
    if not millis:
        return ""
    try:
        return datetime.fromtimestamp(millis / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return ""


def age_text(millis: int | None, now_ms: int) -> str:
    """Format how long ago something was: `3 h ago`."""
    if not millis:
        return ""
    past = max(0, now_ms - millis)
    for unit, size in (("d", 24 * _HOUR_MS), ("h", _HOUR_MS), ("min", 60_000)):
        if past >= size:
            return f"{past / size:.0f} {unit} ago"
    return "just now"


def outcome_of(report: Mapping[str, Any]) -> str:
    """Say in a few words what the report of a task tells: `28 → 2 files`, `nothing to do`."""
    if report.get("error"):
        return str(report["error"])
    if report.get("nothing_to_do"):
        return "nothing to do"
    parts = []
    before, after = report.get("before"), report.get("after")
    if isinstance(before, Mapping) and isinstance(after, Mapping) and before.get("files") is not None:
        parts.append(f"{before['files']} → {after.get('files')} files")
    names = {"files": "files removed", "snapshots_count": "snapshots", "names_count": "names"}
    parts += [f"{report[key]} {text}" for key, text in names.items() if report.get(key) and not parts]
    if report.get("picks_left"):
        parts.append(f"{report['picks_left']} picks left")
    if report.get("skipped"):
        parts.append(str(report["skipped"]))
    outcome = report.get("done")
    if isinstance(outcome, list):
        parts += [f"{one.get('job')}: {outcome_of(one)}" for one in outcome if isinstance(one, Mapping)]
    text = ", ".join(parts) or "done"
    return f"would be: {text}" if report.get("dry_run") else text


def run_view(tasks: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a line for each task of a run, failures first; `report` is its XCom, or None."""
    order = {"failed": 0, "upstream_failed": 1, "up_for_retry": 2, "running": 3}
    lines = [
        {**task, "outcome": outcome_of(task["report"]) if isinstance(task["report"], Mapping) else ""}
        for task in tasks
    ]
    return sorted(lines, key=lambda line: (order.get(line["state"], 9), line["task_id"], line["map_index"]))
