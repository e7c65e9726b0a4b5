"""This module has the engines of the DAGs: the param that names one, and how a driver elsewhere is submitted.

A run may have the engine `submit` only where the settings name the connection of Spark. Its other arguments
come from the settings alone: who starts a run chooses no files, users or queues of the cluster. What cannot
work is refused when the DAG file is parsed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from airflow.sdk import Param

from lakecore.errors import InvalidInputError
from lakecore_airflow.dags.parts import LakeDag, engine_param
from lakecore_airflow.settings import SettingsError
from lakecore_airflow.tasks.engine import AUTO
from lakecore_airflow.tasks.submit_settings import SUBMIT, SubmitSettings

__all__ = ["ENGINE_DEFAULTS", "check_engine", "dag_engine_param", "engine_parameters", "refuse_budgets"]

ENGINE_DEFAULTS: Mapping[str, Any] = {"engine": AUTO, "submit": None}
"""These are the settings that `dag_engine_param` and `engine_parameters` need."""

_PROVIDER = "airflow.providers.apache.spark"


def dag_engine_param(lake: LakeDag, work: str) -> Param:
    """Return the param of the engine. `work`: the kind of things that it rewrites. Raises SettingsError for
    an engine that the DAG has not, and for settings of a driver elsewhere that cannot work.
    """
    engines = [AUTO, "spark", "local"]
    if lake.settings["submit"] is not None:
        _check_submit(lake)
        engines.append(SUBMIT)
    elif lake.settings["engine"] == SUBMIT:
        raise SettingsError(
            f"airflow.{lake.name}: engine submit needs a connection of the type Spark: name it in "
            '[airflow.submit], conn_id = "spark_default"'
        )
    check_engine(lake, engines)
    return engine_param(lake.settings["engine"], work, engines)


def engine_parameters(lake: LakeDag) -> dict[str, str]:
    """Return the arguments of a task whose engine is that of its run."""
    submit = json.dumps(lake.settings["submit"] or {})
    chosen = f"{{% if params.engine == '{SUBMIT}' %}}{submit}{{% endif %}}"
    return {"engine": "{{ params.engine }}", "submit": chosen}


def check_engine(lake: LakeDag, engines: Sequence[str]) -> None:
    """Check that the engine of the settings is one of those of the DAG. Raises SettingsError."""
    engine = lake.settings["engine"]
    if engine not in engines:
        raise SettingsError(f"airflow.{lake.name}: engine is {engine!r}; this DAG has {', '.join(engines)}")


def refuse_budgets(lake: LakeDag) -> None:
    """Refuse a budget that no driver elsewhere obeys: all chores of a table are one job there. Raises
    SettingsError.
    """
    budgets = [name for name in lake.settings if name.startswith("budget_") and lake.settings[name]]
    if budgets and lake.settings["engine"] == SUBMIT:
        raise SettingsError(
            f"airflow.{lake.name}: {budgets[0]} is not obeyed with engine submit, where all chores of a "
            "table are one job: leave it out, or choose another engine"
        )


def _check_submit(lake: LakeDag) -> None:
    submit = lake.settings["submit"]
    where = f"airflow.{lake.name}: submit"
    if not isinstance(submit, Mapping) or not isinstance(submit.get("conn_id"), str):
        raise SettingsError(
            f'{where} is {submit!r}: make it a table with conn_id = "spark_default", the connection of Spark'
        )
    try:
        SubmitSettings.parse(submit)
        json.dumps(submit)
    except (InvalidInputError, TypeError) as err:
        raise SettingsError(f"{where}: {err}") from err
    if not _has_provider():
        raise SettingsError(
            f"{where} needs Airflow's Spark provider: pip install 'lakecore[airflow,spark-submit]', in the "
            "environment of each component"
        )


def _has_provider() -> bool:
    try:
        return find_spec(_PROVIDER) is not None
    except ModuleNotFoundError:  # a package above it is missing, too
        return False
