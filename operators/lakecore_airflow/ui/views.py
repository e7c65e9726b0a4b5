"""This module decides what the pages show. Pure: records in, plain values for the templates out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from lakecore_airflow.ui.words import DAY_MS, money_text, size_text, span_text

if TYPE_CHECKING:
    from lakecore.jobs.cost.prices import PriceList
    from lakecore.jobs.survey import Survey, TableRecord

__all__ = ["LakeQuery", "lake_records", "lake_view"]

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
    "expected": "Takes",
    "done": "Last done",
}
_DESCENDING = frozenset({"files", "bytes", "runs", "history", "commit", "expected", "done"})


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


def lake_view(survey: Survey, query: LakeQuery, prices: PriceList) -> LakeView:
    """Return the page for a query."""
    records = lake_records(survey, query)
    descending = query.reverse != (query.order in _DESCENDING)
    pages = max(1, -(-len(records) // PAGE))
    page = min(query.page, pages)
    counts = Counter(record.state.value for record in survey.tables)
    return LakeView(
        rows=records[(page - 1) * PAGE : page * PAGE],
        matches=len(records),
        pages=pages,
        page=page,
        states=[(state, counts[state]) for state in STATES if counts[state]],
        tiles=_tiles(survey, prices),
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


def lake_records(survey: Survey, query: LakeQuery) -> list[TableRecord]:
    """Return the tables that match a query, in its order."""
    records = [record for record in survey.tables if _matches(record, query)]
    descending = query.reverse != (query.order in _DESCENDING)
    records.sort(key=lambda record: record.table)
    records.sort(key=lambda record: _value(record, query.order), reverse=descending)
    return records


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
        "expected": record.expected_seconds or 0,
        "done": record.attempts[0].started_ms if record.attempts else 0,
    }
    return values[order]


def _tiles(survey: Survey, prices: PriceList) -> dict[str, str]:
    live = [record for record in survey.tables if record.state.value != "vanished"]
    counts = Counter(record.state.value for record in live)
    urgent = sum(counts[state] for state in ("broken", "sick", "unreachable"))
    sizes = [one.figures.history_bytes for one in live if one.figures.history_bytes is not None]
    live_bytes = sum(one.figures.bytes for one in live)
    today = survey.started_ms // DAY_MS
    week = [day for day in survey.activity if day.day > today - 7]
    failures = sum(day.failures for day in survey.activity if day.day >= today - 1)
    core_seconds = sum(day.core_seconds for day in week)
    tiles = {
        "Tables": f"{len(live):,}",
        "Sick or broken": f"{urgent:,}",
        "Due": f"{counts['due']:,}",
        "On hold": f"{counts['held']:,}",
        "Failed since yesterday": f"{failures:,}",
        "Data files": f"{sum(one.figures.files for one in live):,}",
        "Live": size_text(live_bytes),
        "Only for old snapshots": size_text(sum(sizes)) if sizes else "not measured",
        "Core time, 7 days": span_text(core_seconds),
        "Cost, 7 days": money_text(prices.work(core_seconds), prices.currency),
        "Storage a month": money_text(prices.storage(live_bytes + sum(sizes)), prices.currency),
    }
    return {title: text for title, text in tiles.items() if text}
