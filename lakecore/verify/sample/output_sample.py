"""This module compares sampled rows of new files with their descriptions: column statistics and file
indexes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, NotFoundError, ProofError
from lakecore.types.arrow import arrow_type
from lakecore.verify.contents.column_stats import ColumnStats, keeps_blanks
from lakecore.verify.contents.file_indexes import sample_problems
from lakecore.verify.digest.columns import StoredFile
from lakecore.verify.digest.context import ProofContext

__all__ = ["OutputSample"]


@dataclass(slots=True)
class _Rows:
    """The rows of one file, which are its statistics, and the sampled values of indexed columns with their
    positions.
    """

    stored: StoredFile
    stats: ColumnStats
    positions: list[npt.NDArray[np.int64]] = field(default_factory=list)
    columns: dict[str, list[pa.Array]] = field(default_factory=dict)


@dataclass(slots=True)
class OutputSample:
    """It collects sampled rows of the outputs of one unit. It keeps the values of indexed columns of these
    rows in memory.
    """

    context: ProofContext
    unit: str
    _files: dict[str, _Rows] = field(default_factory=dict)

    def add(self, stored: StoredFile, columns: Sequence[pa.Array], positions: npt.NDArray[np.int64]) -> None:
        """Add rows of a file at `positions`, with the columns of the wide shape."""
        shape = self.context.shape.wide
        rows = self._files.get(stored.path)
        if rows is None:
            stats = ColumnStats(shape, partly=True, chars=keeps_blanks(shape, stored.path))
            rows = self._files[stored.path] = _Rows(stored, stats)
        rows.stats.add(columns)
        if not _indexed(stored):
            return
        rows.positions.append(positions)
        values = columns[len(shape.key) : len(shape.key) + len(shape.values)]
        for kind, column in zip(shape.values, values, strict=True):
            rows.columns.setdefault(kind.name, []).append(column.cast(arrow_type(kind.type)))

    def check(self) -> None:
        """Raise ProofError naming a file whose description does not fit its sampled rows."""
        for rows in self._files.values():
            stored = rows.stored
            schema = self.context.schemas[stored.file.schema_id]
            for problem in rows.stats.problems(stored.file, schema):
                self._refuse(stored, problem)
            if not rows.positions:
                continue
            positions = np.concatenate(rows.positions)
            columns = {name: (positions, pa.concat_arrays(parts)) for name, parts in rows.columns.items()}
            try:
                for _, problem in sample_problems(
                    self.context.file_io, stored.path, stored.file, schema, columns
                ):
                    self._refuse(stored, problem)
            except (CorruptDataError, NotFoundError) as err:
                raise ProofError(
                    self.unit, f"the file index of output {stored.path} cannot be read: {err}"
                ) from err

    def _refuse(self, stored: StoredFile, problem: str) -> None:
        seed = self.context.shape.seed
        raise ProofError(self.unit, f"output {stored.path}: {problem} (sample of seed {seed})")


def _indexed(stored: StoredFile) -> bool:
    return stored.file.embedded_index is not None or any(
        name.endswith(".index") for name in stored.file.extra_files
    )
