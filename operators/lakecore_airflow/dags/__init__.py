"""This package has the DAGs of lakecore, which come with it: a file in the DAG folder calls
`lakecore_dags`.

Each module has one DAG: `DEFAULTS` are its settings, `build` makes it. A DAG that is switched on over a lake
that it knows nothing about removes nothing from it: whatever deletes waits until somebody has named a policy.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakecore_airflow.dags import (
    adhoc,
    batch_tags,
    compactor,
    maintenance,
    nightly,
    on_asset,
    on_snapshot,
    partition,
    survey,
)
from lakecore_airflow.dags.parts import EVERY_DAG, LakeDag
from lakecore_airflow.settings import DagSettings, SettingsError, find_settings, parse_settings

if TYPE_CHECKING:
    from airflow.sdk import DAG

__all__ = ["SettingsError", "lakecore_dags"]

_DAGS: Mapping[str, tuple[Mapping[str, Any], Callable[[LakeDag], DAG]]] = {
    "nightly": (nightly.DEFAULTS, nightly.build),
    "maintenance": (maintenance.DEFAULTS, maintenance.build),
    "batch_tags": (batch_tags.DEFAULTS, batch_tags.build),
    "compactor": (compactor.DEFAULTS, compactor.build),
    "partition": (partition.DEFAULTS, partition.build),
    "on_snapshot": (on_snapshot.DEFAULTS, on_snapshot.build),
    "on_asset": (on_asset.DEFAULTS, on_asset.build),
    "survey": (survey.DEFAULTS, survey.build),
    "adhoc": (adhoc.DEFAULTS, adhoc.build),
}


def lakecore_dags(
    *names: str,
    beside: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    policy: Sequence[Mapping[str, Any]] | str | None = None,
    conn_ids: Sequence[str] | None = None,
) -> dict[str, DAG]:
    """Return DAGs by their ids, for `globals().update(lakecore_dags(…))` in a DAG file.

    `names`: short names (`nightly`, `maintenance`, `batch_tags`, `compactor`, `partition`, `on_snapshot`,
    `on_asset`, `survey`, `adhoc`); none: all. `beside`: the DAG file (`__file__`), in whose folder
    `lakecore.toml` is looked for. `settings`: the contents of the table `airflow`, instead of a file.
    `policy` and `conn_ids` come before both: the policy of the maintenance, and the connections, each of
    which gets DAGs of its own.
    DAGs of another connection than `lake_default` have its id behind theirs: `lakecore_nightly__archive`.

    Raises SettingsError for names, keys and files that cannot be used; Airflow shows it as an import error.
    """
    strange = sorted(set(names) - set(_DAGS))
    if strange:
        raise SettingsError(f"no DAG {strange[0]!r}; there are {', '.join(_DAGS)}")
    dag_settings = _settings(beside, settings)
    dags: dict[str, DAG] = {}
    for connection in dag_settings.connections if conn_ids is None else conn_ids:
        for name in names or tuple(_DAGS):
            defaults, build = _DAGS[name]
            values = dag_settings.of(name, {**EVERY_DAG, **defaults})
            if name in ("maintenance", "adhoc"):
                values["policy"] = policy or _policy(dag_settings, values)
            lake = LakeDag(name=name, connection=connection, settings=values)
            dags[lake.dag_id] = build(lake)
    return dags


def _settings(beside: str | Path | None, settings: Mapping[str, Any] | None) -> DagSettings:
    if settings is not None:
        return parse_settings({"airflow": settings}, tuple(_DAGS), "settings")
    return find_settings(beside, tuple(_DAGS), os.environ)


def _policy(settings: DagSettings, values: Mapping[str, Any]) -> Any:
    """Return the policy of a DAG: its own, else that of the maintenance."""
    return values["policy"] or settings.of("maintenance", {**EVERY_DAG, **maintenance.DEFAULTS})["policy"]
