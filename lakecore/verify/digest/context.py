"""This module has the context that the parts of a proof read with."""

from __future__ import annotations

from collections.abc import Mapping

from lakecore.data_class import dataclass
from lakecore.fs.file_io import FileIO
from lakecore.metadata.schema import TableSchema
from lakecore.verify.digest.shape import RowShape

__all__ = ["ProofContext"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofContext:
    """A proof is made with this storage, shape and schemas. `schemas` are those of all files of the pick,
    by id. It can be pickled.
    """

    file_io: FileIO
    shape: RowShape
    schemas: Mapping[int, TableSchema]
    threads: int = 1
    """So many threads read files where several are read at once."""
