"""This module shows the warehouse of one opened table to jobs, where nobody has its catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakecore.data_class import dataclass
from lakecore.errors import NotFoundError
from lakecore.fs.confined import ConfinedFileIO
from lakecore.fs.file_io import FileIO
from lakecore.table import Table

__all__ = ["OneTableLake"]


@dataclass(frozen=True)
class OneTableLake:
    """This is the warehouse of `table`, which has that table only. Its storage has the limits of the
    table.
    """

    table: Table

    @property
    def file_io(self) -> FileIO:
        return self.table._stores.file_io

    @property
    def warehouse(self) -> str:
        """Return what the storage is confined to; without limits the directory above the database."""
        storage = self.file_io
        if isinstance(storage, ConfinedFileIO):
            return storage.allowed.warehouse
        return self.table._stores.paths.table_path.rsplit("/", 2)[0]

    def load_table(self, name: str, options: Mapping[str, str] | None = None) -> Table:
        """Open the table again, with its latest schema and without the options of the handle. Raises
        NotFoundError.
        """
        stores = self.table._stores
        schema = stores.schemas.latest() if name == self.table.name else None
        if schema is None:
            raise NotFoundError(
                f"table {name!r} does not exist; it was dropped, or is another than {self.table.name}"
            )
        opened = replace(self.table, _stores=replace(stores, schema=schema), _overrides={})
        return opened.with_options(options) if options else opened
