"""The level of the files of an overwrite: nothing is below them, so they can be on the highest level.
Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.key_order import key_order
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.options import PK_CLUSTERING_OVERRIDE
from lakecore.metadata.schema import TableSchema
from lakecore.options import Option
from lakecore.types.datatypes import RowType

__all__ = ["highest_level", "upgrade_levels"]

_TRIGGER = Option("num-sorted-run.compaction-trigger", int, 5, "Sorted runs that start a compaction.")
_LEVELS: Option[int | None] = Option("num-levels", int, None, "Levels; default is the trigger plus one.")


def highest_level(schema: TableSchema) -> int:
    """Return the level that full compactions write to. Raises InvalidOptionError."""
    return (_LEVELS.read(schema.options) or _TRIGGER.read(schema.options) + 1) - 1


def upgrade_levels(messages: Sequence[CommitMessage], schema: TableSchema) -> tuple[CommitMessage, ...]:
    """Move all files to the highest level, or none (rule of the format: overwrite-upgrade).

    No file moves when keys of two files of a bucket overlap, or where higher levels have another order. Files
    with retracting rows stay, too: at the highest level nothing would ever drop those. So do rows without a
    bucket.
    """
    if (
        not schema.primary_keys
        or PK_CLUSTERING_OVERRIDE.read(schema.options)
        or any(m.bucket < 0 for m in messages)
    ):
        return tuple(messages)
    if any(not _disjoint(m.new_files, schema.key_type) for m in messages):
        return tuple(messages)
    level = highest_level(schema)
    return tuple(replace(m, new_files=tuple(replace(f, level=level) for f in m.new_files)) for m in messages)


def _disjoint(files: Sequence[DataFile], key_type: RowType) -> bool:
    if any(file.delete_row_count != 0 for file in files):
        return False
    key = key_order(key_type)
    bounds = sorted((key(file.min_key), key(file.max_key)) for file in files)
    return all(before[1] < after[0] for before, after in pairwise(bounds))
