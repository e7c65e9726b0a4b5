"""Joins as picks of one unit each."""

from __future__ import annotations

from collections.abc import Iterable

from lakecore.compact.append.joined_run import JoinedUnit
from lakecore.compact.append.plan import JoinPick
from lakecore.compact.append.run import JoinUnit
from lakecore.compact.naming import place_name
from lakecore.compact.vectors import counted
from lakecore.compact.work import UnitTable, WorkPick

__all__ = ["joined_picks", "work_picks"]


def work_picks(picks: Iterable[JoinPick], table: UnitTable, file_prefix: str) -> tuple[WorkPick, ...]:
    """What the driver runs."""
    return tuple(_work_pick(pick, table, f"{file_prefix}-{number}") for number, pick in enumerate(picks))


def _work_pick(pick: JoinPick, table: UnitTable, prefix: str) -> WorkPick:
    place = pick.place
    name = f"{place_name(place, table.schema)}, files from {pick.files[0].file_name}"
    bucket_dir = table.reading.bucket_dir(place.partition, place.bucket)
    deletions = tuple(None if vector is None else counted(table, vector) for vector in pick.deletions)
    unit = JoinUnit(
        name=name,
        table=table.in_partition(place.partition),
        bucket_dir=bucket_dir,
        files=pick.files,
        deletions=deletions,
        file_prefix=prefix,
    )
    deleted = sum(vector.place.cardinality or 0 for vector in deletions if vector is not None)
    return WorkPick(
        name=name,
        place=place,
        bucket_dir=bucket_dir,
        reason=f"{len(pick.files)} files, {deleted} deleted rows"
        if deleted
        else f"{len(pick.files)} small files",
        replaced=pick.files,
        deletions=deletions,
        units=(unit,),
    )


def joined_picks(picks: Iterable[JoinPick], table: UnitTable, file_prefix: str) -> tuple[WorkPick, ...]:
    """The same for files that hold columns of the same rows."""
    return tuple(_joined_pick(pick, table, f"{file_prefix}-{number}") for number, pick in enumerate(picks))


def _joined_pick(pick: JoinPick, table: UnitTable, prefix: str) -> WorkPick:
    place = pick.place
    name = f"{place_name(place, table.schema)}, files from {pick.files[0].file_name}"
    bucket_dir = table.reading.bucket_dir(place.partition, place.bucket)
    within = table.in_partition(place.partition)
    unit = JoinedUnit(
        name=name,
        table=within,
        bucket_dir=bucket_dir,
        files=pick.files,
        deletions=pick.deletions,
        columns=pick.columns,
        file_prefix=prefix,
    )
    return WorkPick(
        name=name,
        place=place,
        bucket_dir=bucket_dir,
        reason=f"{len(pick.files)} files with columns of {unit.rows} rows",
        replaced=pick.files,
        units=(unit,),
        shared_rows=sum(file.row_count for file in pick.files) - unit.rows,
    )
