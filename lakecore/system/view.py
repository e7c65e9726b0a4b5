"""This module has the system tables whose rows are computed from metadata, as a source for scans."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeAlias

import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.metadata.snapshot import Snapshot
from lakecore.predicate.evaluate import mask
from lakecore.predicate.tree import Predicate
from lakecore.read.source.lineage.read_versions import ReadVersion
from lakecore.read.source.readable import Readable
from lakecore.read.split.change_reader import with_kind
from lakecore.row.values import rows_batch
from lakecore.types.arrow import arrow_schema
from lakecore.types.datatypes import RowType

__all__ = ["Listing", "Row", "RowMaker", "ViewRows"]

_BATCH = 4096

Row: TypeAlias = tuple[Any, ...]
RowMaker: TypeAlias = Callable[[Readable, Snapshot | None], Iterable[Row]]
"""Rows of internal values, given the table and the snapshot that is read (None: there is none yet)."""


@dataclass(frozen=True, slots=True)
class Listing:
    """These are the columns of a system table, and the function that computes its rows.

    With `dated` rows of an earlier snapshot are described by the schema of that time.
    """

    row_type: RowType
    rows: RowMaker
    dated: bool = False


@dataclass(frozen=True)
class ViewRows:
    """These are the rows that `make` lists. All are computed and then filtered: there are at most as many
    as files. `make_some`, where there is one, computes at least those that fulfil a filter, at less cost.
    """

    description: str
    row_type: RowType
    make: Callable[[], Iterable[Row]]
    make_some: Callable[[Predicate], Iterable[Row]] | None = None
    version: ReadVersion | None = None
    """It is what listeners of lineage are told; None for a list of many tables."""

    def plan(self, where: Predicate | None) -> Sequence[None]:
        """Return one part."""
        return (None,)

    def read(
        self, part: None, columns: Sequence[str], where: Predicate | None, *, kinds: bool
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows. Raises the errors of `make`."""
        some = self.make_some
        rows = iter(self.make() if where is None or some is None else some(where))
        schema = arrow_schema(self.row_type)
        while chunk := list(islice(rows, _BATCH)):
            batch = rows_batch(chunk, self.row_type, schema)
            filtered = batch if where is None else batch.filter(mask(where, batch))
            chosen = filtered.select(list(columns))
            yield with_kind(chosen) if kinds else chosen
