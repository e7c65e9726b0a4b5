"""This module has a source without rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.predicate.tree import Predicate
from lakecore.types.datatypes import RowType

__all__ = ["NoRows"]


@dataclass(frozen=True)
class NoRows:
    """This source has the columns of a table, and no rows."""

    description: str
    row_type: RowType

    def plan(self, where: Predicate | None) -> Sequence[Any]:
        return ()

    def read(
        self, part: Any, columns: Sequence[str], where: Predicate | None, *, kinds: bool
    ) -> Iterator[pa.RecordBatch]:
        return iter(())
