"""This module records renames of tables while they are made: `<warehouse>/.lakecore/renames/<table>.json`.

A rename of a catalog with a list of names has two steps, the name and the directory. A record that is there
after its process has ended says that the rename may be half made.
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict
from typing import ClassVar

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, NotFoundError, reason
from lakecore.maintain.service_store import ServiceStore
from lakecore.maintain.table_key import file_name, table_key
from lakecore.metadata.json_record import json_object

__all__ = ["InterruptedRenames", "Rename"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Rename:
    """This is a rename of `table` to `new`. `path` is the directory that the table had; it is compared only,
    because whoever can write into the warehouse can write a record.
    """

    table: str
    new: str
    path: str

    def encoded(self) -> bytes:
        """Return the bytes of the record."""
        return json.dumps(asdict(self), indent=2).encode()

    @classmethod
    def decoded(cls, data: bytes, path: str) -> Rename:
        """Parse the record at `path`. Raises CorruptDataError."""
        try:
            raw = json_object(data)
            if not all(isinstance(value, str) for value in raw.values()):
                raise ValueError("a value is not a string")
            return cls(**raw)
        except (ValueError, TypeError) as err:
            raise CorruptDataError(path, f"is not the record of a rename: {reason(err)}") from err


@dataclass(frozen=True)
class InterruptedRenames(ServiceStore):
    """It stores the renames of a warehouse that were begun and have not ended."""

    directory: ClassVar[str] = "renames"

    def begin(self, rename: Rename) -> None:
        """Record a rename before its first step."""
        self.file_io.overwrite(self._path(rename), rename.encoded())

    def end(self, rename: Rename) -> None:
        """Remove the record of a rename that is complete or was taken back."""
        self.file_io.delete(self._path(rename))

    def of_name(self, table: str) -> Rename | None:
        """Return the rename from or to this name, None without one. It costs a listing, and a read for each
        record; one that is damaged is logged and left out.
        """
        for status in self.file_io.list(self.root):
            try:
                rename = Rename.decoded(self.file_io.read(status.path), status.path)
            except NotFoundError:
                continue  # it has ended meanwhile
            except CorruptDataError as err:
                logger.warning("%s is ignored: %s", status.path, err)
                continue
            if table in (rename.table, rename.new):
                return rename
        return None

    def _path(self, rename: Rename) -> str:
        name = file_name(table_key(rename.table), is_folder=False)
        return f"{self.root}/{name}.json"
