"""This module has the object table (`type=object-table`): its rows list the files below a directory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import UnsupportedError
from lakecore.predicate.tree import Predicate
from lakecore.read.directory.present_table import PresentTable
from lakecore.read.source.scan import Scan
from lakecore.system.columns import columns as row_type_of
from lakecore.system.view import Row, ViewRows
from lakecore.types.datatypes import DataField, RowType

__all__ = ["OBJECT_TABLE", "ObjectTable", "object_columns"]

OBJECT_TABLE = "object-table"
"""This is the value of the option `type`."""
_ROW_TYPE = row_type_of(
    "path STRING NOT NULL",
    "name STRING NOT NULL",
    "length BIGINT NOT NULL",
    "mtime BIGINT NOT NULL",
    "atime BIGINT NOT NULL",
    "owner STRING",
)
_DESCRIPTIONS = (
    "Relative path of object",
    "Name of object",
    "Bytes length of object",
    "Modification time of object",
    "Access time of object",
    "Owner of object",
)
"""Schemas of object tables have these descriptions of columns, whoever creates them."""


def object_columns() -> tuple[DataField, ...]:
    """Return the columns of the stored schema of an object table."""
    return tuple(
        replace(field, description=text) for field, text in zip(_ROW_TYPE.fields, _DESCRIPTIONS, strict=True)
    )


@dataclass(frozen=True, repr=False)
class ObjectTable(PresentTable):
    """This is an object table. It has `scan`; everything else of a table is refused.

    Its columns are those of Java: `path` is relative to the directory; `mtime` and `atime` are milliseconds,
    and `atime` is 0 and `owner` null, because storage does not tell them.
    """

    kind = OBJECT_TABLE
    title = "object table"
    refusal = "an object table: it lists the files of a directory, has no snapshots, and can only be read"

    @property
    def row_type(self) -> RowType:
        """Return Java's columns."""
        return _ROW_TYPE

    def with_options(self, options: Mapping[str, str]) -> ObjectTable:
        """Return the same table. Raises UnsupportedError for any option."""
        for key in options:
            raise UnsupportedError(
                f"object table {self.name}: option {key} has no effect on it; leave it out"
            )
        return self

    def scan(
        self,
        *,
        where: str | Predicate | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        **travel: Any,
    ) -> Scan:
        """Scan like `Table.scan`, but only the present. It costs a listing for each directory.

        Raises UnsupportedError for a symbolic link, InvalidInputError.
        """
        self._check_present(travel)
        return Scan.of(ViewRows(self.name, _ROW_TYPE, self._files), where, columns, limit)

    def _files(self) -> Iterator[Row]:
        pending = [self.path]
        while pending:
            for child in self.file_io.list(pending.pop()):
                if child.is_link:
                    raise UnsupportedError(
                        f"{child.path} is a symbolic link, and lakecore follows none in an object table; put "
                        "the file or directory itself there"
                    )
                if child.is_dir:
                    pending.append(child.path)
                else:
                    relative = child.path.removeprefix(self.path).lstrip("/")
                    yield relative, child.name, child.size, child.mtime_ms, 0, None
