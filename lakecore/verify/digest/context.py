"""What the parts of a proof read with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakecore.fs.file_io import FileIO
from lakecore.metadata.schema import TableSchema
from lakecore.verify.digest.shape import RowShape

__all__ = ["ProofContext"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofContext:
    """What reading for a proof needs. `schemas`: those of all files of the pick, by id. Pickles."""

    file_io: FileIO
    shape: RowShape
    schemas: Mapping[int, TableSchema]
