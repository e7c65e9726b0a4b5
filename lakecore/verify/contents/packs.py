"""This module checks the packs of blobs that rows of a key-value file refer to: they must exist, and its
sidecar must name them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field

import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.errors import NotFoundError
from lakecore.format.blob.sidecar import REFERENCES_SUFFIX, Pack, decode_packs, packs_of
from lakecore.fs.file_io import FileIO
from lakecore.metadata.dedicated_columns import managed_columns
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.schema import TableSchema
from lakecore.verify.digest.shape import RowShape
from lakecore.verify.rules.kinds import retracting

__all__ = ["PackCheck", "RowPacks"]


class RowPacks:
    """These are the packs that rows refer to, by the columns that a check covers."""

    def __init__(self, shape: RowShape, schema: TableSchema) -> None:
        names = managed_columns(schema.row_type, schema.options) if shape.keyed else ()
        first = len(shape.key)
        self._places = [first + i for i, value in enumerate(shape.values) if value.name in names]
        self.packs: set[Pack] = set()

    def add(self, columns: Sequence[pa.Array]) -> None:
        """Add the arrays of a batch: key, values, sequence number, row kind."""
        if self._places:
            live = pa.array(~retracting(columns[-1].to_numpy(zero_copy_only=False)))
            self.packs.update(*(packs_of(columns[place].filter(live)) for place in self._places))


@dataclass(slots=True)
class PackCheck:
    """It remembers which packs are there: 200 bytes a pack."""

    file_io: FileIO
    _there: set[str] = field(default_factory=set)

    def problems(self, path: str, file: DataFile, referred: set[Pack]) -> Iterator[tuple[str, str]]:
        """Yield (path, problem) for the packs of a data file. Raises CorruptDataError for a damaged sidecar;
        other checks find a lost one.
        """
        name = next((name for name in file.extra_files if name.endswith(REFERENCES_SUFFIX)), None)
        packs: set[Pack] = set()
        if name is not None:
            sidecar = f"{path.rpartition('/')[0]}/{name}"
            try:
                packs = set(decode_packs(self.file_io.read(sidecar), sidecar))
            except NotFoundError:
                packs = referred
            for _, pack in sorted(referred - packs):
                yield sidecar, f"its manifest entry does not name {pack}, to which rows refer"
        for directory, pack in sorted(packs | referred):
            where = f"{_path(directory)}/{pack}"
            if not self._is_there(where, path):
                yield where, "it is missing, although rows have blobs in it"

    def _is_there(self, pack: str, path: str) -> bool:
        """Return whether a pack exists. Packs in another storage than the table's are not checked."""
        if pack in self._there or pack.partition("://")[1] != path.partition("://")[1]:
            return True
        if self.file_io.stat(pack) is None:
            return False
        self._there.add(pack)
        return True


def _path(uri: str) -> str:
    return "/" + uri.removeprefix("file:").lstrip("/") if uri.startswith("file:") else uri
