"""This module notes that a complete copy is being moved to its place, so that a killed run is completed."""

from __future__ import annotations

import json
from typing import ClassVar

from lakecore.data_class import dataclass
from lakecore.errors import AlreadyExistsError, NotFoundError
from lakecore.maintain.deletion.runs import quoted_table
from lakecore.maintain.service_store import ServiceStore
from lakecore.metadata.json_record import json_object

__all__ = ["CopyMark"]


@dataclass(frozen=True)
class CopyMark(ServiceStore):
    """This is the file `.lakecore/copies/<target>/moving.json` beside the files of a copy."""

    directory: ClassVar[str] = "copies"

    source: str
    target: str

    @property
    def files(self) -> str:
        """Return the directory in which the copy is made."""
        return f"{self._folder}/files"

    def is_interrupted(self) -> bool:
        """Return whether a run of this copy was interrupted while it moved. Raises AlreadyExistsError for a
        copy of another table.
        """
        try:
            source = json_object(self.file_io.read(self._path)).get("source")
        except NotFoundError:
            return False
        if source != self.source:
            raise AlreadyExistsError(
                f"table {self.target!r}: a copy of {source!r} was interrupted while it was moved there; "
                "repeat that copy first"
            )
        return True

    def begin(self) -> None:
        """Note that the copy is complete and will be moved."""
        self.file_io.overwrite(self._path, json.dumps({"source": self.source}).encode())

    def end(self) -> None:
        """Remove the note, after the table is in its place."""
        self.file_io.delete(self._path)

    @property
    def _folder(self) -> str:
        return f"{self.root}/{quoted_table(self.target)}"

    @property
    def _path(self) -> str:
        return f"{self._folder}/moving.json"
