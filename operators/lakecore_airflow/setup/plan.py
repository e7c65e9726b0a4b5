"""This module decides what `lakecore airflow init` makes, keeps or refuses, from what there is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakecore.errors import AlreadyExistsError, InvalidInputError

__all__ = [
    "DAG_FILE",
    "InitRequest",
    "Step",
    "check_request",
    "plan_connection",
    "plan_dag_file",
    "plan_pool",
    "plan_settings",
]

DAG_FILE = '''"""The DAGs of lakecore, for the connections in `lakecore.toml` beside this file."""

from __future__ import annotations

from lakecore_airflow.dags import lakecore_dags  # an Airflow DAG file

globals().update(lakecore_dags(beside=__file__))
'''
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*")
_MOST_NAME = 200
_HINTS = """
# Each DAG has a table with its schedule (a cron expression in UTC) and the defaults of its params:
# [airflow.nightly]
# schedule = "0 2 * * *"
# until = "05:00"
#
# Nothing is removed until a policy is named:
# [airflow.maintenance]
# policy = "/etc/lakecore/policy.yaml"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class InitRequest:
    """This is what a person asks for."""

    connection: Mapping[str, Any] = field(repr=False)
    """This is the connection as `connection_of` makes it, with secrets."""
    lake_conn_id: str = "lake_default"
    dags_folder: str = ""
    """Empty: Airflow's own setting."""
    pool: str = "lakecore"
    slots: int = 2
    overwrite: bool = False
    keep_connection: bool = False
    """Keep a connection of that name, also one of another warehouse."""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """This is one thing that Airflow needs for the lake, and what becomes of it."""

    what: str
    name: str
    state: str
    """It is `kept`, `create`, or `change`."""
    note: str = ""

    @property
    def is_work(self) -> bool:
        """Return whether something is to be done."""
        return self.state != "kept"


def check_request(request: InitRequest) -> None:
    """Check what a person wrote. Raises InvalidInputError."""
    for option, name in (("--lake-conn-id", request.lake_conn_id), ("--pool", request.pool)):
        if not _NAME.fullmatch(name) or len(name) > _MOST_NAME:
            raise InvalidInputError(
                f"{option} {name!r}: such a name has at most {_MOST_NAME} letters, digits, and _ . -"
            )
    if request.overwrite and request.keep_connection:
        raise InvalidInputError("--overwrite and --keep-connection contradict each other: leave one out")
    if request.slots < 1:
        raise InvalidInputError(f"--slots {request.slots}: a pool needs at least one slot")
    if not request.connection.get("host"):
        raise InvalidInputError(
            "the catalog has no warehouse, which a connection of Airflow needs: set its option `warehouse`"
        )


def plan_connection(request: InitRequest, existing: Mapping[str, Any] | None, variable: bool) -> Step:
    """Return the step of the connection. `existing`: as Airflow has it. `variable`: it comes from
    the environment, where Airflow looks first. Raises AlreadyExistsError for one of another warehouse.
    """
    name, connection = request.lake_conn_id, request.connection
    if existing is None:
        return Step("connection", name, "create", str(connection["host"]))
    same_lake = existing.get("conn_type") == "lakecore" and existing.get("host") == connection["host"]
    if same_lake and _fields(connection).items() <= _fields(existing).items():
        return Step("connection", name, "kept", str(connection["host"]))
    if request.keep_connection:
        note = "" if same_lake else f"it leads to {existing.get('host')!r}, not {connection['host']!r}"
        return Step("connection", name, "kept", note or "some of its fields are not those of the catalog")
    if variable or not (same_lake or request.overwrite):
        remedy = "change the variable" if variable else "change it with --overwrite"
        raise AlreadyExistsError(
            f"there is already a connection {name!r}, of the type {existing.get('conn_type')!r} with the "
            f"warehouse {existing.get('host')!r}, not {connection['host']!r}: choose another "
            f"--lake-conn-id, or {remedy}"
        )
    if request.overwrite:
        return Step("connection", name, "change", str(connection["host"]))
    return Step("connection", name, "kept", "other fields differ from the catalog's: --overwrite sets them")


def _fields(connection: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that have a value, those of `extra` beside the others."""
    extra = connection.get("extra") or {}
    return {
        **{name: connection[name] for name in ("login", "password") if connection.get(name)},
        **{f"extra.{name}": value for name, value in extra.items()},
    }


def plan_pool(request: InitRequest, slots: int | None) -> Step:
    """Return the step of the pool. `slots`: those of the pool of that name, if there is one."""
    text = f"{request.slots} slots"
    if slots is None:
        return Step("pool", request.pool, "create", text)
    if slots == request.slots or not request.overwrite:
        return Step("pool", request.pool, "kept", f"{slots} slots")
    return Step("pool", request.pool, "change", f"{slots} to {text}")


def plan_settings(
    request: InitRequest, path: str, section: Mapping[str, Any] | None, exists: bool
) -> tuple[Step, str]:
    """Return the step of `lakecore.toml`, and the text that is to be added to it.

    `section`: its table `airflow`, if it has one. Raises AlreadyExistsError for settings without the
    connection: a file that somebody wrote is never rewritten.
    """
    table = f'[airflow]\nconnections = ["{request.lake_conn_id}"]\npool = "{request.pool}"\n'
    if section is None:
        if exists and not request.overwrite:
            raise AlreadyExistsError(
                f"{path} has no table [airflow]: add it ({'; '.join(table.splitlines())}), or let "
                "--overwrite do it"
            )
        return Step("settings", path, "change" if exists else "create"), table + _HINTS
    connections = section.get("connections", ["lake_default"])
    if request.lake_conn_id not in connections:
        raise AlreadyExistsError(
            f"the settings in {path} are for the connections {', '.join(connections)}: add "
            f'"{request.lake_conn_id}" to `connections` there'
        )
    pool = section.get("pool", "default_pool")
    note = "" if pool == request.pool else f'its DAGs use the pool {pool}; set pool = "{request.pool}" there'
    return Step("settings", path, "kept", note), ""


def plan_dag_file(request: InitRequest, path: str, text: str | None, others: Mapping[str, str]) -> Step:
    """Return the step of the DAG file. `text`: that of the file at `path`, if there is one. `others`: the
    texts of other DAG files by path. Raises AlreadyExistsError for a file of that name that makes other DAGs.
    """
    for other, contents in {**({} if text is None else {path: text}), **others}.items():
        if "lakecore_dags(" in contents:
            return Step("DAG file", other, "kept", "" if other == path else "it makes DAGs of lakecore")
    if text is not None and not request.overwrite:
        raise AlreadyExistsError(
            f"{path} is a file that makes no DAGs of lakecore: rename it, or replace it with --overwrite"
        )
    return Step("DAG file", path, "create" if text is None else "change")
