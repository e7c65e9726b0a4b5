"""This module asks for what there is, and makes what is missing, in the order in which Airflow needs it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lakecore.errors import InvalidInputError
from lakecore_airflow.settings import SettingsError, load_settings, settings_file
from lakecore_airflow.setup.airflow_command import AirflowCommand, find_airflow
from lakecore_airflow.setup.dag_folder import DagFolder
from lakecore_airflow.setup.plan import (
    DAG_FILE,
    InitRequest,
    Step,
    check_request,
    plan_connection,
    plan_dag_file,
    plan_pool,
    plan_settings,
)

__all__ = ["init"]


def init(request: InitRequest, environ: Mapping[str, str]) -> list[Step]:
    """Make what Airflow needs for a lake, and return the steps. The caller has opened the catalog.

    Everything is checked before anything is written. A run that was interrupted can be repeated. Raises
    NotFoundError without Airflow, AlreadyExistsError for what is there and leads elsewhere, UnavailableError,
    InvalidInputError.
    """
    check_request(request)
    work = _planned_work(request, find_airflow(environ), environ)
    if not request.dry_run:
        for step, write in work:
            if step.is_work:
                write()
    return [step for step, _ in work]


def _planned_work(
    request: InitRequest, airflow: AirflowCommand, environ: Mapping[str, str]
) -> list[tuple[Step, Callable[[], None]]]:
    """Return the steps, each with what makes it. Nothing is written."""
    state = _read_state(request, airflow)
    folder = DagFolder(Path(os.path.abspath(request.dags_folder or state.dags_folder)))
    variable = f"AIRFLOW_CONN_{request.lake_conn_id.upper()}" in environ
    settings, write_settings = _settings(request, folder, environ)
    connection = plan_connection(request, state.connection, variable)
    write_connection = partial(
        airflow.write_connection,
        request.lake_conn_id,
        _with_other_fields(request, state.connection),
        replace=connection.state == "change",
    )
    dag_file = plan_dag_file(request, str(folder.file), folder.text(), folder.others())
    if dag_file.is_work:
        folder.check_writable()
    return [
        (connection, write_connection),
        (plan_pool(request, state.slots), partial(airflow.write_pool, request.pool, request.slots)),
        (settings, write_settings),
        (dag_file, partial(folder.write, folder.file, DAG_FILE)),
    ]


@dataclass(frozen=True, slots=True)
class _AirflowState:
    """This is what Airflow has."""

    connection: Mapping[str, Any] | None
    slots: int | None
    dags_folder: str


def _read_state(request: InitRequest, airflow: AirflowCommand) -> _AirflowState:
    """Ask Airflow, several questions at once: each answer takes it some seconds. Raises UnavailableError."""
    with ThreadPoolExecutor(4) as pool:
        provider = pool.submit(airflow.check_provider)
        connection = pool.submit(airflow.connection, request.lake_conn_id)
        slots = pool.submit(airflow.pool_slots, request.pool)
        folder = None if request.dags_folder else pool.submit(airflow.dags_folder)
        provider.result()
        return _AirflowState(connection.result(), slots.result(), "" if folder is None else folder.result())


def _with_other_fields(request: InitRequest, existing: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the connection that is to be written: fields of an earlier one that the catalog does not have,
    such as prices, stay if it is of the same type.
    """
    if existing is None or existing.get("conn_type") != "lakecore":
        return dict(request.connection)
    extra = {**existing["extra"], **request.connection.get("extra", {})}
    return {**request.connection, **({"extra": extra} if extra else {})}


def _settings(
    request: InitRequest, folder: DagFolder, environ: Mapping[str, str]
) -> tuple[Step, Callable[[], None]]:
    """Plan the settings file: the one that DAGs of the folder read, else a new one in the folder."""
    beside = folder.path / "lakecore.toml"
    path = settings_file(folder.file, environ) or beside
    section = _section(path) if path.exists() else None
    if section is None and path != beside and "LAKECORE_CONFIG" not in environ:
        path = beside  # a file in a home directory that says nothing of Airflow
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    step, text = plan_settings(request, str(path), section, bool(before))
    if step.is_work:
        DagFolder(path.parent).check_writable()
    return step, partial(folder.write, path, f"{before.rstrip()}\n\n{text}" if before else text)


def _section(path: Path) -> Mapping[str, Any] | None:
    """Return the table `airflow` of a file. Raises InvalidInputError."""
    try:
        section = load_settings(path).get("airflow")
    except SettingsError as err:
        raise InvalidInputError(f"{err}: correct it first") from err
    if section is None:
        return None
    if not isinstance(section, Mapping):
        raise InvalidInputError(f"{path}: airflow is {section!r}; make it a table: [airflow]")
    if not isinstance(section.get("connections", []), list):
        raise InvalidInputError(f"{path}: connections is no list of connection ids; correct it first")
    return section
