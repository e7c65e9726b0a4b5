"""This package names all sensors: `from lakecore_airflow.sensors import NewSnapshotSensor`. A module is
loaded when one of its names is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakecore_airflow.operators.query_service import QueryServiceSensor
    from lakecore_airflow.sensors.partitions import PartitionDoneSensor
    from lakecore_airflow.sensors.snapshots import NewSnapshotSensor
    from lakecore_airflow.sensors.tags import TagSensor

__all__ = [
    "NewSnapshotSensor",
    "PartitionDoneSensor",
    "QueryServiceSensor",
    "TagSensor",
]

_HOMES = {
    "NewSnapshotSensor": "lakecore_airflow.sensors.snapshots",
    "PartitionDoneSensor": "lakecore_airflow.sensors.partitions",
    "QueryServiceSensor": "lakecore_airflow.operators.query_service",
    "TagSensor": "lakecore_airflow.sensors.tags",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
