"""This module writes schemas and changes of schemas as Paimon's REST interface has them. It is pure.

The names are those of Java's `Schema` and `SchemaChange.Actions` (1.4 and 2.0).
"""

from __future__ import annotations

from typing import Any

from lakecore.metadata.schema import TableSchema
from lakecore.metadata.schema_change import (
    AddColumn,
    ChangeComment,
    ChangeDefault,
    ChangeNullability,
    ChangeType,
    DropColumn,
    DropPrimaryKey,
    MoveColumn,
    Position,
    RenameColumn,
    SchemaChange,
    SetOption,
    SetTableComment,
    UnsetOption,
)
from lakecore.types.datatypes import type_to_json

__all__ = ["change_to_json", "schema_to_json"]


def schema_to_json(schema: TableSchema) -> dict[str, Any]:
    """Return the schema of a table to be created."""
    return {
        "fields": [field.to_json() for field in schema.fields],
        "partitionKeys": list(schema.partition_keys),
        "primaryKeys": list(schema.primary_keys),
        "options": dict(schema.options),
        "comment": schema.comment,
    }


def change_to_json(change: SchemaChange) -> dict[str, Any]:
    """Return one change of a schema."""
    match change:
        case SetOption(key, value):
            return {"action": "setOption", "key": key, "value": value}
        case UnsetOption(key):
            return {"action": "removeOption", "key": key}
        case SetTableComment(comment):
            return {"action": "updateComment", "comment": comment}
        case DropPrimaryKey():
            return {"action": "dropPrimaryKey"}
        case MoveColumn(name, position):
            return {"action": "updateColumnPosition", "move": _move(name, position)}
        case _:
            return _of_column(change)


def _of_column(
    change: AddColumn
    | DropColumn
    | RenameColumn
    | ChangeType
    | ChangeNullability
    | ChangeComment
    | ChangeDefault,
) -> dict[str, Any]:
    names = {"fieldNames": list(change.path)}
    match change:
        case AddColumn():
            move = None if change.position is None else _move(change.path[-1], change.position)
            own = {"dataType": type_to_json(change.type), "comment": change.comment, "move": move}
            return {"action": "addColumn", **names, **own}
        case DropColumn():
            return {"action": "dropColumn", **names}
        case RenameColumn():
            return {"action": "renameColumn", **names, "newName": change.name}
        case ChangeType():
            own = {"newDataType": type_to_json(change.type), "keepNullability": change.keep_nullability}
            return {"action": "updateColumnType", **names, **own}
        case ChangeNullability():
            return {"action": "updateColumnNullability", **names, "newNullability": change.nullable}
        case ChangeComment():
            return {"action": "updateColumnComment", **names, "newComment": change.comment}
        case ChangeDefault():
            return {"action": "updateColumnDefaultValue", **names, "newDefaultValue": change.value}


def _move(name: str, position: Position) -> dict[str, Any]:
    return {
        "fieldName": name,
        "referenceFieldName": position.reference,
        "type": position.place.name,
    }
