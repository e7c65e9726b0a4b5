"""This module decides what the page of all attempts shows. Pure: attempts in, plain values out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

if TYPE_CHECKING:
    from lakecore.jobs.attempts import Attempt
    from lakecore.jobs.cost.prices import PriceList

__all__ = ["HistoryQuery", "HistoryView", "Sums", "Totals", "attempt_line", "history_view"]

PAGE = 100
_MOST_DAYS = 31
_MOST_POINTS = 500
_TOP = 10


@dataclass(frozen=True, slots=True)
class HistoryQuery:
    """It has what a reader wants of the attempts."""

    table: str = ""
    job: str = ""
    state: str = ""
    days: int = 1
    page: int = 1

    @classmethod
    def of(cls, raw: Mapping[str, str]) -> HistoryQuery:
        """Read the query of an address; what makes no sense is as if it were not there."""
        return cls(
            table=raw.get("table", "")[:200],
            job=raw.get("job", "")[:80],
            state=raw.get("state", "")[:20],
            days=min(_MOST_DAYS, _number(raw.get("days", ""))),
            page=_number(raw.get("page", "")),
        )

    def link(self, **changes: Any) -> str:
        """Return the query of an address with some fields changed."""
        changed = replace(self, **changes)
        pairs = {"table": changed.table, "job": changed.job, "state": changed.state}
        pairs |= {"days": "" if changed.days == 1 else str(changed.days)}
        pairs |= {"page": "" if changed.page == 1 else str(changed.page)}
        return "?" + urlencode({key: value for key, value in pairs.items() if value})


@dataclass(frozen=True, slots=True)
class Sums:
    """These are sums over attempts that have something in common, such as their table."""

    name: str
    attempts: int
    failures: int
    core_seconds: float
    money: float | None
    bytes_written: int


Totals = Mapping[str, Sequence[Sums]]
"""They are sums by `day`, `table` and `job`; tables and jobs are those with the highest cost."""


@dataclass(frozen=True, slots=True)
class HistoryView:
    """It has what the page shows."""

    lines: Sequence[Mapping[str, Any]]
    """They are the attempts of one page, the newest first."""
    matches: int
    pages: int
    query: HistoryQuery
    jobs: Sequence[str]
    states: Sequence[str]
    totals: Totals
    points: Sequence[tuple[float, float]]
    """Each has the seconds that were expected, and those that an attempt took."""
    factor: float | None
    """It is the median of the factor by which attempts took longer than expected."""


def history_view(
    attempts: Sequence[Attempt], query: HistoryQuery, prices: PriceList, day_of: Callable[[int], str]
) -> HistoryView:
    """Return the page for a query. `attempts` are the oldest first; `day_of` names the day of a moment."""
    matches = [one for one in reversed(attempts) if _matches(one, query)]
    pages = max(1, -(-len(matches) // PAGE))
    page = min(query.page, pages)
    points = [point for one in matches if (point := _point(one)) is not None][:_MOST_POINTS]
    keys: Mapping[str, Callable[[Attempt], str]] = {
        "day": lambda one: day_of(one.started_ms),
        "table": lambda one: one.table or "(the lake)",
        "job": lambda one: one.job,
    }
    totals = {name: _sums(matches, key, prices) for name, key in keys.items()}
    totals["day"] = sorted(totals["day"], key=lambda one: one.name)
    return HistoryView(
        lines=[attempt_line(one, prices) for one in matches[(page - 1) * PAGE : page * PAGE]],
        matches=len(matches),
        pages=pages,
        query=replace(query, page=page),
        jobs=sorted({one.job for one in attempts}),
        states=sorted({one.state.value for one in attempts}),
        totals=totals | {name: totals[name][:_TOP] for name in ("table", "job")},
        points=points,
        factor=median(took / expected for expected, took in points) if points else None,
    )


def attempt_line(one: Attempt, prices: PriceList) -> dict[str, Any]:
    """Return an attempt as pages and endpoint show it, with its cost in money where there are prices."""
    cost = dict(one.cost)
    money = prices.work(cost.get("core_seconds"))
    if money is not None:
        cost |= {"money": round(money, 6), "currency": prices.currency}
    return one.to_json() | {"cost": cost, "outcome": _outcome(one)}


def _outcome(one: Attempt) -> str:
    if one.error or one.state.value == "nothing":
        return one.error or ""
    figures = one.figures
    before, after = figures.get("before"), figures.get("after")
    parts = []
    if isinstance(before, Mapping) and isinstance(after, Mapping) and "files" in before:
        parts.append(f"{before['files']} → {after.get('files')} files")
    elif figures.get("files"):
        parts.append(f"{figures['files']} files")
    if figures.get("picks_left"):
        parts.append(f"picks left: {figures['picks_left']}")
    return ", ".join(parts)


def _matches(one: Attempt, query: HistoryQuery) -> bool:
    return (
        query.table.lower() in one.table.lower()
        and query.job in ("", one.job)
        and query.state in ("", one.state.value)
    )


def _point(one: Attempt) -> tuple[float, float] | None:
    expected, took = one.forecast.get("seconds"), one.cost.get("seconds")
    return (float(expected), float(took)) if expected and took else None


def _sums(attempts: Iterable[Attempt], key: Callable[[Attempt], str], prices: PriceList) -> Sequence[Sums]:
    groups: dict[str, list[Attempt]] = defaultdict(list)
    for one in attempts:
        groups[key(one)].append(one)
    sums = []
    for name, group in groups.items():
        core_seconds = sum(float(one.cost.get("core_seconds") or 0) for one in group)
        sums.append(
            Sums(
                name=name,
                attempts=len(group),
                failures=sum(one.state.value in ("failed", "refused", "killed") for one in group),
                core_seconds=core_seconds,
                money=prices.work(core_seconds),
                bytes_written=sum(int(one.cost.get("bytes_written") or 0) for one in group),
            )
        )
    return sorted(sums, key=lambda one: (-one.core_seconds, one.name))


def _number(text: str) -> int:
    return max(1, int(text[:7])) if text.isascii() and text.isdigit() else 1
