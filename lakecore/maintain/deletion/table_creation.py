"""This module knows which table a run belongs to, also where another one was created under its name."""

from __future__ import annotations

from typing import Any

from lakecore.errors import CorruptDataError, NotFoundError
from lakecore.maintain.deletion.runs import RunRecord
from lakecore.maintain.target import Target
from lakecore.store.paths import MAIN_BRANCH

__all__ = ["check_same_table", "creation_of", "table_created"]

_CREATED = "table_created"


def table_created(target: Target) -> dict[str, Any]:
    """Return the entry of the ledger's parameters by which an undo knows the table of the run, also where
    another one was created in its place.
    """
    created = creation_of(target)
    return {} if created is None else {_CREATED: created}


def creation_of(target: Target, record: RunRecord | None = None) -> list[int] | None:
    """Return id and time of the first schema of the table, or those that a record has. None: there is no
    table, or its first schema cannot be read. It costs a listing and a read.
    """
    if record is not None and _CREATED in record.parameters:
        created: list[int] = record.parameters[_CREATED]
        return created
    schemas = target.at_branch(MAIN_BRANCH).schemas
    try:
        ids = schemas.list_ids()
        return [ids[0], schemas.load(ids[0]).time_millis] if ids else None
    except (CorruptDataError, NotFoundError):
        return None


def check_same_table(target: Target, record: RunRecord, created: list[int] | None) -> None:
    """Raise NotFoundError if the table is not the one that was `created` so: what is restored would belong to
    no table, or would be snapshots of a table whose files are gone.
    """
    if created is not None and creation_of(target) != created:
        raise NotFoundError(
            f"{target.name}: the table of run {record.id} was renamed, or dropped and perhaps created again, "
            "since the run; its files do not belong to what has the name now, so no snapshot or tag was "
            "restored; they stay in the quarantine until it is purged"
        )
