"""This module decides what the page of the window shows: the plan of the next night, and what was left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lakecore_airflow.lake.tables import is_chosen
from lakecore_airflow.ui.window_use import RunUse

if TYPE_CHECKING:
    from lakecore.jobs.cost.prices import PriceList
    from lakecore.jobs.survey import Survey, TableRecord
    from lakecore.jobs.window.budget import Usage
    from lakecore.jobs.window.order import Turn
    from lakecore_airflow.ui.airflow_data import WindowDag

__all__ = ["BudgetUse", "WindowView", "next_window", "window_view"]

_MOST = 200
_LONGEST_S = 24 * 3600
_AFTER_THE_END = "after the end"
_OVER_THE_BUDGET = "over the budget"
_AT_WORK = "at work"
_NOTHING_USED = RunUse()


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetUse:
    """This is what the tables that begin in the window will use, what its run has used so far, and the limits
    of the run, if any.
    """

    bytes: int
    core_seconds: float
    money: float | None
    """It is None without a price of a core."""
    used: RunUse = _NOTHING_USED
    used_money: float | None = None
    most_bytes: int | None = None
    most_core_seconds: float | None = None
    most_money: float | None = None
    problem: str = ""
    """It says why the limits of the run cannot be read: then its tasks fail."""


@dataclass(frozen=True, slots=True)
class WindowView:
    """It has what the page shows. Shares are those of the width of the picture."""

    start_ms: int
    end_ms: int | None
    turns: Sequence[Turn]
    reasons: Sequence[str]
    """It has why each turn is left for another night, or that the table is at work; the text is empty for one
    that will be done.
    """
    shares: Sequence[tuple[float, float]]
    """Each turn has its begin and its length."""
    hidden: int
    """It counts turns beyond those that are shown."""
    fit: int
    over: int
    """So many turns end after the window."""
    unpaid: int
    """So many turns begin after the budget is used up."""
    use: BudgetUse
    seconds: float
    """This is the expected time of all turns."""
    end_share: float
    late: Sequence[TableRecord]
    """They are the tables that the last windows left, those left most often first."""


def next_window(dag: WindowDag, now_ms: int) -> tuple[int, int | None]:
    """Return begin and end of the window: of the one that is open, or of the next. Work goes on from now in
    a window that is open; without a schedule the next one would begin now.
    """
    from lakecore.errors import InvalidInputError
    from lakecore.jobs.runner.until import parse_until

    began_ms = dag.running_ms or max(dag.next_ms or 0, now_ms)
    try:
        end_ms = parse_until(dag.until, began_ms) if dag.until else None
    except InvalidInputError:
        end_ms = None
    return max(began_ms, now_ms), end_ms


def window_view(
    survey: Survey,
    window: tuple[int, int | None],
    params: Mapping[str, Any],
    prices: PriceList,
    used: RunUse = _NOTHING_USED,
) -> WindowView:
    """Return the plan of a window, which has a begin and perhaps an end. `params` are those of its run: the
    patterns of its tables, and the budget; `used` is what a run that is at work has done. The order is that
    of the run; tables that are not due take a look there, and are not shown, nor are those that the run has
    ended. The cost is a sort of the tables.
    """
    from lakecore.jobs.window.order import plan_window

    start_ms, end_ms = window
    names = [
        one.table
        for one in survey.tables
        if one.state.value != "vanished" and one.table not in used.ended and _is_asked(one, params)
    ]
    turns = [turn for turn in plan_window(survey, start_ms, end_ms, names) if turn.is_due]
    use, reasons = _budget(turns, params, prices, used)
    last_ms = max([end_ms or 0, *(turn.end_ms for turn in turns[:_MOST])], default=0)
    width = max(1, min(last_ms - start_ms, 1000 * _LONGEST_S))
    visible = turns[:_MOST]
    late = sorted((one for one in survey.tables if one.late.nights), key=lambda one: -one.late.nights)
    return WindowView(
        start_ms=start_ms,
        end_ms=end_ms,
        turns=visible,
        reasons=reasons[:_MOST],
        shares=[
            (_share(turn.start_ms - start_ms, width), _share(turn.end_ms - turn.start_ms, width))
            for turn in visible
        ],
        hidden=len(turns) - len(visible),
        fit=reasons.count("") + reasons.count(_AT_WORK),
        over=reasons.count(_AFTER_THE_END),
        unpaid=reasons.count(_OVER_THE_BUDGET),
        use=use,
        seconds=sum(turn.end_ms - turn.start_ms for turn in turns) / 1000,
        end_share=_share((end_ms or last_ms) - start_ms, width),
        late=late[:_MOST],
    )


def _is_asked(record: TableRecord, params: Mapping[str, Any]) -> bool:
    """Return whether the patterns of the run choose a table."""
    return is_chosen(
        record.table,
        params.get("database") or "*",
        params.get("include") or "*",
        params.get("exclude") or "",
    )


def _budget(
    turns: Sequence[Turn], params: Mapping[str, Any], prices: PriceList, used: RunUse
) -> tuple[BudgetUse, list[str]]:
    """Return what the turns will use within the limits of the run, and why each turn is left. A limit is
    looked at before a table begins, as by the tasks of the run. A table that is at work will use the rest of
    its core time, and all its bytes, which count for the run when it has ended.
    """
    from lakecore.errors import InvalidInputError
    from lakecore.jobs.window.budget import Budget, Usage

    limits, problem = Budget(), ""
    try:
        limits = Budget.parse(
            params.get("budget_bytes"), params.get("budget_core_seconds"), params.get("budget_money")
        )
        limits.reason_to_stop(Usage(), prices)  # a limit of money needs a price
    except InvalidInputError as err:
        limits, problem = Budget(), str(err)
    so_far = Usage(bytes=used.bytes, core_seconds=used.core_seconds)
    coming = sum((_rest(turn, used) for turn in turns if turn.table in used.running), start=Usage())
    reasons = []
    for turn in turns:
        if turn.table in used.running:
            reasons.append(_AT_WORK)
        elif limits.reason_to_stop(so_far + coming, prices):
            reasons.append(_OVER_THE_BUDGET)
        else:
            reasons.append("" if turn.fits else _AFTER_THE_END)
            coming += _rest(turn, used) if turn.fits else Usage()
    use = BudgetUse(
        bytes=coming.bytes,
        core_seconds=round(coming.core_seconds, 1),
        money=prices.work(coming.core_seconds),
        used=used,
        used_money=prices.work(used.core_seconds),
        most_bytes=limits.bytes,
        most_core_seconds=limits.core_seconds,
        most_money=limits.money,
        problem=problem,
    )
    return use, reasons


def _rest(turn: Turn, used: RunUse) -> Usage:
    """Return what a turn will use from now on: its time on as many cores as its table keeps busy."""
    seconds = turn.usage.core_seconds - used.running.get(turn.table, 0.0)
    return replace(turn.usage, core_seconds=max(0.0, seconds) * used.cores_of(turn.table))


def _share(part: int, whole: int) -> float:
    return round(min(100.0, max(0.0, 100 * part / whole)), 3)
