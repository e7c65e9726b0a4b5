"""This module publishes the next schema of a table."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from lakecore.catalog.alter import apply_changes
from lakecore.catalog.change_text import changes_of
from lakecore.clock import Clock
from lakecore.errors import CommitConflictError, InvalidOptionError, LakeError, NotFoundError
from lakecore.metadata.options import BucketMode, TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.schema_change import SchemaChange
from lakecore.table import Table

__all__ = ["alter_schema"]

logger = logging.getLogger(__name__)

_ALTER_TRIES = 50


def alter_schema(
    table: Table,
    changes: Sequence[SchemaChange] | SchemaChange | Sequence[Mapping[str, Any]],
    clock: Clock,
    before_publication: Callable[[TableSchema, TableSchema], None] | None = None,
) -> None:
    """Publish the next schema of the table, with all changes or none. `before_publication` gets the schema
    that there is and the next one; what it raises prevents the change.

    When others change the schema at the same time, the changes are applied again on top of theirs. Raises
    InvalidInputError naming what cannot change, CommitConflictError when others won every retry,
    NotFoundError for a table that was renamed or dropped meanwhile.
    """
    new_changes = changes_of(changes)
    for _ in range(_ALTER_TRIES):
        old = table._stores.schemas.latest()
        if old is None:
            raise _missing_table(table)
        has_snapshots = table._stores.snapshots.latest_id() is not None
        schema = apply_changes(old, new_changes, clock.now_ms(), has_snapshots=has_snapshots)
        _check_branches(table, schema)
        _check_postponed(table, old, schema)
        if before_publication is not None:
            before_publication(old, schema)
        if table._stores.schemas.publish(schema):
            _check_table_is_there(table, old, schema)
            logger.info("apply_changes table %s: schema %d", table.name, schema.id)
            return
    raise CommitConflictError(
        f"table {table.name!r}: its schema was changed {_ALTER_TRIES} times by others during this "
        "change; try again"
    )


def _check_table_is_there(table: Table, old: TableSchema, new: TableSchema) -> None:
    """Take back a schema that lies alone where the table was: it was renamed or dropped meanwhile. Raises
    NotFoundError then.
    """
    paths, storage = table._stores.paths, table._stores.file_io
    if storage.stat(paths.schema(old.id)) is None and table._stores.schemas.list_ids() == (new.id,):
        storage.delete(paths.schema(new.id))
        with suppress(LakeError):  # an empty directory is in nobody's way
            storage.remove_directory(paths.schema_dir)
            storage.remove_directory(paths.root)
        raise _missing_table(table)


def _missing_table(table: Table) -> NotFoundError:
    return NotFoundError(
        f"table {table.name!r}: it was renamed or dropped during the change of its schema, so nothing is "
        "changed; load the table by the name that it has now and change it again"
    )


def _check_branches(table: Table, schema: TableSchema) -> None:
    """Check that branches which options name exist."""
    for key in ("scan.fallback-branch", "scan.primary-branch"):
        branch = schema.options.get(key, "").strip()
        if branch and table.schema.options.get(key, "").strip() != branch:
            table._stores.branches.open(branch)


def _check_postponed(table: Table, old: TableSchema, new: TableSchema) -> None:
    """Refuse to drop postponed buckets while rows wait in them: nobody would read these rows afterwards."""
    latest = table._stores.snapshots.latest()
    modes = [TableOptions.from_schema(schema).bucket_mode for schema in (old, new)]
    if latest is None or modes[0] is not BucketMode.POSTPONE or modes[1] is BucketMode.POSTPONE:
        return
    if (table._scanner.live_entries(latest).bucket < 0).any():
        raise InvalidOptionError(
            f"option bucket={new.options.get('bucket')}: rows of bucket-postpone would be lost; compact first"
        )
