"""This module lists the partitions and data files of a format table.

Spec (Java 2.0): names that begin with `_` or `.` are hidden, directories with all that is below; other files
at any depth below a partition are rows. (Java 1.4 reads files in hidden directories too, which others are
still writing.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, InvalidInputError, UnsupportedError
from lakecore.fs.file_io import FileIO, FileStatus
from lakecore.predicate.evaluate import mask
from lakecore.predicate.tree import Predicate, restricted
from lakecore.read.directory.rules import FormatRules
from lakecore.row.values import rows_batch
from lakecore.types.arrow import arrow_schema
from lakecore.types.datatypes import AtomicType, DataType, RowType, TypeRoot
from lakecore.types.text import parse_value

__all__ = ["FilePartition", "data_files", "files_in", "partitions_of"]

_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_BYTES = (TypeRoot.BINARY, TypeRoot.VARBINARY)


@dataclass(frozen=True, slots=True)
class FilePartition:
    """This is a directory whose files have the same partition values."""

    path: str
    values: tuple[Any, ...]
    """These are the internal values of the partition columns; empty for a table without partitions."""


def partitions_of(
    file_io: FileIO, location: str, partition_type: RowType, rules: FormatRules, where: Predicate | None
) -> list[FilePartition]:
    """List the partitions for which `where` may be true, in order of their paths. It costs a listing for
    each directory that the conditions on the columns above do not exclude.

    Directories that name no value of the next column are passed over. Raises CorruptDataError for a text that
    is no value of its column, UnsupportedError for a symbolic link.
    """
    level = [FilePartition(location, ())]
    for depth, field in enumerate(partition_type.fields, 1):
        children = [
            FilePartition(child.path, (*parent.values, _value(child.path, text, field.type, rules)))
            for parent in level
            for child in _directories(
                file_io.list(parent.path), rules.default_name if rules.only_value else None
            )
            if (text := _text(child.name, field.name, rules)) is not None
        ]
        level = _matching(children, RowType(partition_type.fields[:depth]), where)
    return level


def data_files(file_io: FileIO, directory: str) -> list[FileStatus]:
    """List the files below a directory that hold rows, in order of their paths; a missing directory has none.
    It costs a listing for each directory. Raises UnsupportedError for a symbolic link.
    """
    return sorted(_files_below(file_io, directory), key=lambda file: file.path)


def files_in(children: Iterable[FileStatus]) -> Iterable[FileStatus]:
    """Yield the files among the entries of a directory that hold rows."""
    return (child for child in children if not child.is_dir and not _is_hidden(child) and not _is_link(child))


def _files_below(file_io: FileIO, directory: str) -> Iterator[FileStatus]:
    children = file_io.list(directory)
    yield from files_in(children)
    for child in _directories(children):
        yield from _files_below(file_io, child.path)


def _directories(children: Iterable[FileStatus], exempt: str | None = None) -> list[FileStatus]:
    visible = [child for child in children if child.name == exempt or not _is_hidden(child)]
    return [child for child in visible if not _is_link(child) and child.is_dir]


def _is_hidden(status: FileStatus) -> bool:
    return status.name.startswith(("_", "."))


def _is_link(status: FileStatus) -> bool:
    """Raise UnsupportedError for a link: whether its rows are to be read, and read once, is not known."""
    if status.is_link:
        raise UnsupportedError(
            f"{status.path} is a symbolic link, and lakecore follows none in a format table; put the file or "
            "directory itself there"
        )
    return False


def _text(name: str, column: str, rules: FormatRules) -> str | None:
    if rules.only_value:
        return _unescape(name)
    key, _, text = name.rpartition("=")
    return _unescape(text) if text and _unescape(key) == column else None


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)


def _value(path: str, text: str, data_type: DataType, rules: FormatRules) -> Any:
    if text == rules.default_name:
        return None
    if isinstance(data_type, AtomicType) and data_type.root in _BYTES:
        return text.encode()
    try:
        return parse_value(text, data_type)
    except InvalidInputError as err:
        raise CorruptDataError(
            path, f"is no partition directory of this table: {err}; rename it, so that it begins with _"
        ) from err


def _matching(
    partitions: Sequence[FilePartition], row_type: RowType, where: Predicate | None
) -> list[FilePartition]:
    condition = restricted(where, row_type.names)
    if condition is None or not partitions:
        return list(partitions)
    batch = rows_batch([one.values for one in partitions], row_type, arrow_schema(row_type))
    return [
        one for one, matches in zip(partitions, mask(condition, batch).to_pylist(), strict=True) if matches
    ]
