"""This module makes a table from the answer of a REST server (Java's `GetTableResponse`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lakecore.catalog.names import TableName
from lakecore.catalog.objects.file_tables import new_file_table
from lakecore.catalog.rest.resource_paths import ResourcePaths
from lakecore.catalog.rest.rest_partitions import RestDoneMarks
from lakecore.catalog.rest.rest_storage import RestStorage
from lakecore.catalog.rest.rest_versions import RestVersions
from lakecore.errors import CorruptDataError, UnavailableError
from lakecore.fs.resolve import plain_path
from lakecore.metadata.schema import TableSchema
from lakecore.store.branches import BranchStore
from lakecore.store.manifests import ManifestStore
from lakecore.store.paths import TablePaths
from lakecore.store.table_stores import TableStores
from lakecore.table import Table

__all__ = ["load_rest_table", "located_schema"]


def load_rest_table(
    name: TableName, answer: Mapping[str, Any], storage: RestStorage, paths: ResourcePaths
) -> Table:
    """Return a table, or a branch of one, with the schema of the server and storage that it opens.

    The server commits, but for external tables: of these it manages no versions, and files are published as
    in a filesystem catalog. Format tables and object tables are read only. Raises as `located_schema`, and
    NotFoundError for a branch without files, UnsupportedError for a branch of a table without snapshots.
    """
    path, schema = located_schema(str(name), answer)
    files = storage.of_table(repr(str(name)), path, paths.table(name, "token"), schema.options)
    own, clock = TablePaths(path), storage.client.clock
    other = new_file_table(str(name), path, schema, files, branch=name.branch != own.branch)
    if other is not None:
        return other
    if name.branch != own.branch:
        own = BranchStore(files, own).open(name.branch)
    versions = None
    if answer.get("isExternal") is not True:
        manifests = ManifestStore(files, own, schema, clock)
        versions = RestVersions(storage.client, paths, name, str(answer.get("id")), manifests)
    marks = RestDoneMarks(storage.client, str(name), paths.table(name, "partitions"), schema.partition_keys)
    stores = TableStores(
        schema, files, own, clock, versions=versions, done_marks=marks, manifest_cache=storage.manifest_cache
    )
    return Table(str(name), stores)


def located_schema(name: str, answer: Mapping[str, Any]) -> tuple[str, TableSchema]:
    """Return the plain path of a table and its newest schema.

    Raises UnavailableError for an answer that describes no table, UnsupportedError for storage that this
    release cannot open.
    """
    schema, location = answer.get("schema"), answer.get("path")
    if (
        not isinstance(schema, Mapping)
        or not isinstance(location, str)
        or not isinstance(answer.get("schemaId"), int)
    ):
        raise _no_table(name, "path, schemaId or schema is missing")
    try:
        raw = {
            "version": TableSchema.version_written(),
            "id": answer["schemaId"],
            "fields": schema.get("fields"),
            "highestFieldId": _highest_id(schema.get("fields")),
            "partitionKeys": schema.get("partitionKeys") or [],
            "primaryKeys": schema.get("primaryKeys") or [],
            "options": {key: one for key, one in (schema.get("options") or {}).items() if key != "path"},
            "comment": schema.get("comment"),
        }
        return plain_path(location), TableSchema.from_json(json.dumps(raw), f"table {name}")
    except (CorruptDataError, AttributeError, TypeError, ValueError, KeyError, RecursionError) as err:
        raise _no_table(name, str(err)) from err


def _highest_id(fields: Any) -> int:
    """Return the highest id of a field, also of nested ones, as Java's `RowType.currentHighestFieldId`."""
    ids = [-1]
    pending = [fields]
    while pending:
        one = pending.pop()
        if isinstance(one, list):
            pending += one
        elif isinstance(one, Mapping):
            if isinstance(one.get("id"), int):
                ids.append(one["id"])
            pending += list(one.values())
    return max(ids)


def _no_table(name: str, why: str) -> UnavailableError:
    return UnavailableError(
        f"table {name!r}: the server's answer describes no table ({why}); look into the log of the server"
    )
