"""This module chooses the merge engine that a table's options name."""

from __future__ import annotations

from lakecore.merge.engines.aggregation import Aggregation
from lakecore.merge.engines.first_row import FirstRow
from lakecore.merge.engines.partial_update import PartialUpdate
from lakecore.merge.groups import Engine
from lakecore.metadata.options import MergeEngine, TableOptions
from lakecore.metadata.schema import TableSchema

__all__ = ["engine_of"]


def engine_of(table: str, schema: TableSchema, options: TableOptions) -> Engine | None:
    """Return the engine of a table, or None for deduplicate. `table` is its name for messages. Raises
    InvalidOptionError for options of no sense.
    """
    match options.merge_engine:
        case MergeEngine.DEDUPLICATE:
            return None
        case MergeEngine.FIRST_ROW:
            return FirstRow(table, options.ignore_delete)
        case MergeEngine.PARTIAL_UPDATE:
            return PartialUpdate.of(table, schema, options)
        case MergeEngine.AGGREGATION:
            return Aggregation.of(table, schema, options)
