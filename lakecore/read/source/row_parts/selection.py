"""This module chooses columns by names and by paths: `a.b` is the field `b` of the ROW in column `a`. Pure.

The chosen fields of a ROW are one column with the name of the ROW, and are in the order of the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.types.datatypes import DataType, RowType

__all__ = ["check_ids", "check_list", "choose_columns"]

Path = tuple[str, ...]


def choose_columns(columns: Sequence[str] | None, row_type: RowType) -> RowType:
    """Return the columns to read, all for None. A ROW of which fields are named has only these fields.

    Raises InvalidInputError for an unknown name or field, and for a path that names two fields,
    UnsupportedError for fields of a ROW inside of an ARRAY, a MAP or a MULTISET.
    """
    if columns is None:
        return row_type
    check_list(columns)
    paths = [_path(name, row_type) for name in columns]
    of_rows: dict[str, list[Path]] = {}
    names: list[str] = []
    for name, *fields in paths:
        if fields or name in of_rows:
            of_rows.setdefault(name, [path[1:] for path in paths if path[0] == name])
            names += [] if name in names else [name]
        else:
            names.append(name)
    chosen = []
    for name in names:
        field = row_type.field(name)
        inner = of_rows.get(name)
        chosen.append(field if inner is None else replace(field, type=_part(field.type, inner, name)))
    return RowType(tuple(chosen), row_type.nullable)


def check_list(columns: Sequence[str]) -> None:
    """Raise InvalidInputError for a text in place of a list of names, and for an empty list."""
    if isinstance(columns, str):
        raise InvalidInputError(f"columns {columns!r}: write a list of names, such as [{columns!r}]")
    if not columns:
        raise InvalidInputError("no columns are selected; name at least one column")


def check_ids(data_type: RowType, column: str) -> None:
    """Raise UnsupportedError if two fields of a ROW have one id: which of them a file has is not certain."""
    ids = {field.id for field in data_type}
    if len(ids) < len(data_type.fields):
        raise UnsupportedError(
            f"column {column}: fields of the ROW have the same ids in the schema of the table, so that they "
            f"cannot be read alone; read {column}"
        )


def _path(name: str, row_type: RowType) -> Path:
    if name in row_type.names:
        return (name,)
    matches = list(_paths(name, row_type))
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise InvalidInputError(
            f"column {name!r} names {len(matches)} fields of the table, because their names have dots; read "
            f"{' or '.join(dict.fromkeys(path[0] for path in matches))}"
        )
    raise _unknown(name, row_type)


def _paths(name: str, row_type: RowType) -> Iterator[Path]:
    for field in row_type:
        if name == field.name:
            yield (name,)
        elif name.startswith(f"{field.name}.") and isinstance(field.type, RowType):
            for rest in _paths(name[len(field.name) + 1 :], field.type):
                yield (field.name, *rest)


def _unknown(name: str, row_type: RowType) -> InvalidInputError | UnsupportedError:
    have = f"the table has the columns {', '.join(row_type.names)}"
    above: list[str] = []
    rest, inner = name, row_type
    while (field := next((one for one in inner if rest.startswith(f"{one.name}.")), None)) is not None:
        above.append(field.name)
        rest = rest[len(field.name) + 1 :]
        if not isinstance(field.type, RowType):
            whole = ".".join(above)
            return UnsupportedError(
                f"column {name!r}: {whole} is of type {field.type}, and only fields of a ROW that is in no "
                f"ARRAY, MAP or MULTISET are read alone; read {whole}"
            )
        inner = field.type
        have = f"the ROW {'.'.join(above)} has the fields {', '.join(inner.names)}"
    return InvalidInputError(f"column {name!r} is not in the table; {have}")


def _part(data_type: DataType, paths: Sequence[Path], column: str) -> DataType:
    """Return the type with the fields of its ROWs that the paths name; an empty path names it whole."""
    if not isinstance(data_type, RowType) or () in paths:
        return data_type
    check_ids(data_type, column)
    fields = []
    for field in data_type:
        inner = [path[1:] for path in paths if path[0] == field.name]
        if inner:
            fields.append(replace(field, type=_part(field.type, inner, column)))
    return replace(data_type, fields=tuple(fields))
