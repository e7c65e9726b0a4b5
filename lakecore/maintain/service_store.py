"""This module has the base of the stores of lakecore's own records: `<warehouse>/.lakecore/<directory>`."""

from __future__ import annotations

from typing import ClassVar

from lakecore.data_class import dataclass
from lakecore.fs.confined import service_files
from lakecore.fs.file_io import FileIO

__all__ = ["ServiceStore"]


@dataclass(frozen=True)
class ServiceStore:
    """It stores records of a warehouse. Its storage changes nothing outside of `.lakecore`."""

    directory: ClassVar[str]
    """The records are in this directory below `.lakecore`."""

    file_io: FileIO
    warehouse: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "file_io", service_files(self.file_io, self.warehouse))

    @property
    def root(self) -> str:
        """Return the directory of the records."""
        return f"{self.warehouse.rstrip('/')}/.lakecore/{self.directory}"
