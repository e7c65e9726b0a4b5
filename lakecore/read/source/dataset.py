"""This module shows scans as datasets of pyarrow, whose users push columns and filters down: DuckDB,
Polars.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from lakecore.errors import UnsupportedError
from lakecore.predicate.arrow_filter import condition_of
from lakecore.predicate.tree import conjunction
from lakecore.read.source.scan import Scan

__all__ = ["ScanDataset"]


class ScanDataset(ds.Dataset):  # type: ignore[misc] # pyarrow has no types
    """This is a dataset whose rows a scan reads, anew for each scanner.

    Only the columns that are asked for are read, and files that certainly hold no row of the filter are left
    out. `new_scan` makes the scan, so that a table is read at its latest snapshot each time. It has what
    engines use: `schema`, `scanner`, `to_table`, `to_batches`, `head`, `count_rows`.
    """

    def __init__(self, new_scan: Callable[[], Scan]) -> None:
        self._new_scan = new_scan
        self._schema = new_scan().schema

    @property
    def schema(self) -> pa.Schema:
        """Return the columns with their Arrow types."""
        return self._schema

    def scanner(
        self, columns: Sequence[str] | None = None, filter: Any = None, **settings: Any
    ) -> ds.Scanner:
        """Return a scanner of these columns and of the rows for which the filter is true.

        `settings` of pyarrow, which are about files, have no effect, but for `batch_size`.
        """
        scan = self._new_scan()
        names = list(self._schema.names if columns is None else columns)
        if isinstance(columns, dict):
            raise UnsupportedError("columns that are expressions are not pushed down; select names")
        text = "" if filter is None else str(filter)
        needed = [name for name in self._schema.names if name in names or _names(text, name)]
        needed = needed or list(self._schema.names[:1])
        if text and scan.limit is None:
            condition = condition_of(text, scan.source.row_type)
            parts = tuple(one for one in (scan.where, condition) if one is not None)
            scan = replace(scan, where=conjunction(parts), _condition="")
        scan = replace(scan, columns=tuple(needed))
        more = {"batch_size": settings["batch_size"]} if settings.get("batch_size") else {}
        return ds.Scanner.from_batches(
            scan.to_batches(), schema=scan.schema, columns=names, filter=filter, **more
        )

    def _refuse(self, *_: object, **__: object) -> Any:
        raise UnsupportedError(
            "a table of lakecore has no fragments of files that others may read; take a scanner"
        )

    get_fragments = replace_schema = filter = sort_by = join = join_asof = _refuse
    partition_expression = property(_refuse)

    def __repr__(self) -> str:
        return f"ScanDataset({', '.join(self._schema.names)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return ScanDataset, (self._new_scan,)


def _names(text: str, column: str) -> bool:
    """Return whether the text of a filter may name the column."""
    return re.search(rf"(?<![A-Za-z0-9_]){re.escape(column)}(?![A-Za-z0-9_])", text) is not None
