"""This module turns planned file groups of append tables into executable picks, one unit each."""

from __future__ import annotations

from collections.abc import Iterable

from lakecore.compact.engine.deletion_vectors import counted
from lakecore.compact.engine.work import UnitTable, WorkPick, place_name
from lakecore.compact.kinds.append.plan import JoinPick
from lakecore.compact.kinds.append.run import ConcatUnit
from lakecore.format.parquet.splice.mode import CopyMode

__all__ = ["work_picks"]


def work_picks(
    picks: Iterable[JoinPick], table: UnitTable, file_prefix: str, copy: CopyMode
) -> tuple[WorkPick, ...]:
    """Return the picks that the driver runs."""
    return tuple(
        _work_pick(pick, table, f"{file_prefix}-{number}", copy) for number, pick in enumerate(picks)
    )


def _work_pick(pick: JoinPick, table: UnitTable, prefix: str, copy: CopyMode) -> WorkPick:
    place = pick.place
    name = f"{place_name(place, table.schema)}, files from {pick.files[0].file_name}"
    bucket_dir = table.reading.bucket_dir(place.partition, place.bucket)
    deletions = tuple(None if vector is None else counted(table, vector) for vector in pick.deletions)
    unit = ConcatUnit(
        name=name,
        table=table.in_partition(place.partition),
        bucket_dir=bucket_dir,
        files=pick.files,
        deletions=deletions,
        file_prefix=prefix,
        copy=copy,
    )
    deleted = sum(vector.place.cardinality or 0 for vector in deletions if vector is not None)
    return WorkPick(
        name=name,
        place=place,
        bucket_dir=bucket_dir,
        reason=f"the pick has {len(pick.files)} files with {deleted} deleted rows"
        if deleted
        else f"the pick has {len(pick.files)} small files",
        replaced=pick.files,
        deletions=deletions,
        units=(unit,),
    )
