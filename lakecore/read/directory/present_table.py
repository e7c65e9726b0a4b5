"""This module has what tables without snapshots share: they have only the present, and can only be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn

from lakecore.data_class import dataclass
from lakecore.display import one_line
from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.fs.file_io import FileIO
from lakecore.metadata.schema import TableSchema

__all__ = ["PresentTable"]


@dataclass(frozen=True, repr=False)
class PresentTable:
    """This is the base of tables that are directories of files. What it lacks raises UnsupportedError."""

    name: str
    path: str
    """It is the directory of the files."""
    schema: TableSchema
    file_io: FileIO
    warnings: tuple[str, ...] = ()

    kind: ClassVar[str]
    """It is the value of the option `type`."""
    title: ClassVar[str]
    """It names the kind in messages, as in `format table`."""
    refusal: ClassVar[str]
    """It says what such a table is, and why it can only be read."""

    def __repr__(self) -> str:
        return one_line(type(self).__name__, self.name, {"path": self.path})

    def _check_present(self, travel: Mapping[str, Any]) -> None:
        """Raise InvalidInputError for an argument of `scan` that names a snapshot."""
        for name, value in travel.items():
            if value is not None:
                raise InvalidInputError(
                    f"{self.title} {self.name}: it has no snapshots, and so no {name}; leave it out"
                )

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise UnsupportedError(f"table {self.name} is {self.refusal}")
