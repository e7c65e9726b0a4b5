"""This module prints what `describe` says of format tables and object tables, which have no snapshots."""

from __future__ import annotations

from lakecore.catalog.objects.file_tables import FileTable
from lakecore.cli.output import print_json, table_of
from lakecore.cli.session import Session
from lakecore.types.sql import type_text

__all__ = ["describe_files"]


def describe_files(session: Session, table: FileTable) -> None:
    """Print columns, partition columns and options, as JSON if the session says so."""
    options = dict(table.schema.options)
    described = {
        "table": table.name,
        "type": table.kind,
        "path": table.path,
        "fields": [field.to_json() for field in table.row_type.fields],
        "partition_keys": list(table.schema.partition_keys),
        "options": options,
        "comment": table.schema.comment,
    }
    if session.json:
        print_json(session.out, described)
        return
    facts = [
        ["table", table.name],
        ["type", str(described["type"])],
        ["path", table.path],
        ["partition_keys", ", ".join(table.schema.partition_keys)],
        ["comment", table.schema.comment or ""],
        ["snapshots", "none: the files of the directory are what it has now"],
    ]
    session.out.print(table_of(["", ""], [fact for fact in facts if fact[1]]))
    columns = [
        [field.id, field.name, type_text(field.type), field.description] for field in table.row_type.fields
    ]
    session.out.print(table_of(["id", "column", "type", "comment"], columns))
    session.out.print(table_of(["option", "value"], sorted(options.items())))
