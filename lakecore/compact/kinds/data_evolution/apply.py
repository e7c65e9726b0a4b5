"""This module turns planned row ranges into executable picks: one unit that merges columns, and one more for
each group of blobs.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakecore.compact.engine.work import UnitResult, UnitTable, WorkPick, place_name
from lakecore.compact.kinds.append.plan import JoinPick
from lakecore.compact.kinds.data_evolution.blob_run import BlobUnit, run_blobs
from lakecore.compact.kinds.data_evolution.run import ColumnMergeUnit
from lakecore.compact.kinds.data_evolution.run import run_unit as run_columns

__all__ = ["run_unit", "work_picks"]


def work_picks(picks: Iterable[JoinPick], table: UnitTable, file_prefix: str) -> tuple[WorkPick, ...]:
    """Return the picks that the driver runs."""
    return tuple(_work_pick(pick, table, f"{file_prefix}-{number}") for number, pick in enumerate(picks))


def _work_pick(pick: JoinPick, table: UnitTable, prefix: str) -> WorkPick:
    place = pick.place
    apart = tuple(file for group in pick.blobs for file in group)
    replaced = (*pick.files, *apart)
    name = f"{place_name(place, table.schema)}, files from {replaced[0].file_name}"
    bucket_dir = table.reading.bucket_dir(place.partition, place.bucket)
    within = table.in_partition(place.partition)
    joined = ColumnMergeUnit(
        name=name,
        table=within,
        bucket_dir=bucket_dir,
        files=pick.files,
        deletions=pick.deletions,
        columns=pick.columns,
        file_prefix=prefix,
    )
    blobs = (
        BlobUnit(
            name=f"{name}, blobs from {group[0].file_name}",
            table=within,
            bucket_dir=bucket_dir,
            files=group,
            file_prefix=prefix,
        )
        for group in pick.blobs
    )
    units: tuple[ColumnMergeUnit | BlobUnit, ...] = (*([joined] if pick.files else []), *blobs)
    reasons = (
        [f"the pick has {len(pick.files)} files with columns of {joined.rows} rows"] if pick.files else []
    )
    reasons += [f"{len(apart)} blob files are merged"] if apart else []
    return WorkPick(
        name=name,
        place=place,
        bucket_dir=bucket_dir,
        reason=", ".join(reasons),
        replaced=replaced,
        units=units,
        shared_rows=sum(file.row_count for file in replaced) - sum(unit.rows for unit in units),
    )


def run_unit(unit: ColumnMergeUnit | BlobUnit) -> UnitResult:
    """Run a unit of `work_picks`."""
    return run_blobs(unit) if isinstance(unit, BlobUnit) else run_columns(unit)
