"""This module has the names that Airflow 3.1 keeps in other places than 3.2 and 3.3 do, and what the running
release offers.

Other modules of lakecore_airflow, and its tests, take these names from here. Names that have one place in
all releases are imported from Airflow.
"""

from __future__ import annotations

from typing import Any

try:  # Airflow 3.2 and later
    from airflow.sdk import AssetOrTimeSchedule, CronTriggerTimetable, conf, yaml
    from airflow.sdk.definitions.callback import AsyncCallback
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSkipException,
        TaskDeferred,
    )
except ImportError:  # Airflow 3.1
    import yaml  # type: ignore[import-untyped]
    from airflow.configuration import conf  # type: ignore[no-redef]
    from airflow.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSkipException,
        TaskDeferred,
    )
    from airflow.sdk.definitions.deadline import AsyncCallback
    from airflow.timetables.assets import AssetOrTimeSchedule
    from airflow.timetables.trigger import CronTriggerTimetable

try:  # Airflow 3.3
    from airflow.triggers.shared_stream import AdvanceItem, SharedStreamProducer

    HAS_ASSET_STATE = True
    """Watchers of assets can share a poll and store a position."""
except ImportError:
    AdvanceItem, SharedStreamProducer = Any, object
    HAS_ASSET_STATE = False

__all__ = [
    "HAS_ASSET_STATE",
    "AdvanceItem",
    "AirflowException",
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowSkipException",
    "AssetOrTimeSchedule",
    "AsyncCallback",
    "CronTriggerTimetable",
    "SharedStreamProducer",
    "TaskDeferred",
    "airflow_stats",
    "conf",
    "yaml",
]


def airflow_stats() -> Any:
    """Return Airflow's client of metrics, with `incr`, `gauge` and `timing`."""
    try:
        from airflow.sdk.observability import stats
    except ImportError:  # Airflow 3.1
        from airflow.stats import Stats

        return Stats
    return stats if hasattr(stats, "incr") else stats.Stats  # a class in 3.2, a module in 3.3
