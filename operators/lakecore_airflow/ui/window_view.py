"""This module decides what the page of the window shows: the plan of the next night, and what was left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakecore.jobs.survey import Survey, TableRecord
    from lakecore.jobs.window.order import Turn
    from lakecore_airflow.ui.airflow_data import WindowDag

__all__ = ["WindowView", "next_window", "window_view"]

_MOST = 200
_LONGEST_S = 24 * 3600


@dataclass(frozen=True, slots=True)
class WindowView:
    """It has what the page shows. Shares are those of the width of the picture."""

    start_ms: int
    end_ms: int | None
    turns: Sequence[Turn]
    shares: Sequence[tuple[float, float]]
    """Each turn has its begin and its length."""
    hidden: int
    """It counts turns beyond those that are shown."""
    fit: int
    over: int
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


def window_view(survey: Survey, start_ms: int, end_ms: int | None) -> WindowView:
    """Return the plan of a window."""
    from lakecore.jobs.window.order import plan_window

    turns = plan_window(survey, start_ms, end_ms)
    last_ms = max([end_ms or 0, *(turn.end_ms for turn in turns[:_MOST])], default=0)
    width = max(1, min(last_ms - start_ms, 1000 * _LONGEST_S))
    visible = turns[:_MOST]
    late = sorted((one for one in survey.tables if one.late.nights), key=lambda one: -one.late.nights)
    return WindowView(
        start_ms=start_ms,
        end_ms=end_ms,
        turns=visible,
        shares=[
            (_share(turn.start_ms - start_ms, width), _share(turn.end_ms - turn.start_ms, width))
            for turn in visible
        ],
        hidden=len(turns) - len(visible),
        fit=sum(turn.fits for turn in turns),
        over=sum(not turn.fits for turn in turns),
        seconds=(turns[-1].end_ms - start_ms) / 1000 if turns else 0.0,
        end_share=_share((end_ms or last_ms) - start_ms, width),
        late=late[:_MOST],
    )


def _share(part: int, whole: int) -> float:
    return round(min(100.0, max(0.0, 100 * part / whole)), 3)
