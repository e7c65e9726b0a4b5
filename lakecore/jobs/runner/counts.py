"""This module counts what a table has before and after a chore, as far as that is cheap to know."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields, replace

from lakecore.data_class import dataclass
from lakecore.errors import LakeError
from lakecore.maintain.target import Target
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.shape import Shape
from lakecore.metadata.snapshot import Snapshot

__all__ = ["UNKNOWN", "Change", "Counts", "counts_of", "counts_of_entries", "counts_of_shape", "snapshots_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """These are the live data files of the latest snapshot, their bytes, physical rows and sorted runs,
    and the number of `snapshots`. A count is None when only reading every manifest would tell it.
    """

    files: int | None = None
    bytes: int | None = None
    rows: int | None = None
    snapshots: int | None = None
    sorted_runs: int | None = None

    def towards(self, after: Counts) -> str:
        """Format the change for users: `files 12 -> 10, rows 40, snapshots 5 -> 1`; unknown counts are left
        out, or shown as `?`.
        """
        notes = [
            (one.name.replace("_", " "), getattr(self, one.name), getattr(after, one.name))
            for one in fields(self)
        ]
        pairs = [(name, now, "?" if then is None else then) for name, now, then in notes if now is not None]
        return ", ".join(
            f"{name} {now}" if now == then else f"{name} {now} -> {then}" for name, now, then in pairs
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """This is what a chore adds (or, below 0, removes). None means that it is not known before the run."""

    files: int | None = 0
    bytes: int | None = 0
    rows: int | None = 0
    snapshots: int | None = 0
    sorted_runs: int | None = 0

    @classmethod
    def adding(cls, files: Shape, *, snapshots: int | None) -> Change:
        """Count live files that are added, as whole sorted runs, in `snapshots` commits."""
        return cls(snapshots=snapshots, **_figures(files))

    @classmethod
    def removing(cls, files: Shape, *, snapshots: int | None) -> Change:
        """Count live files that are removed, as whole sorted runs."""
        return cls(snapshots=snapshots, **{name: -count for name, count in _figures(files).items()})

    def of(self, before: Counts) -> Counts:
        """Return the counts after the change."""
        names = [one.name for one in fields(self)]
        return Counts(**{name: _sum(getattr(before, name), getattr(self, name)) for name in names})


def _sum(before: int | None, change: int | None) -> int | None:
    return None if before is None or change is None else before + change


UNKNOWN = Change(files=None, bytes=None, rows=None, snapshots=None, sorted_runs=None)
"""This is for a chore whose outcome shows only when it is done."""


def counts_of(target: Target, snapshot: Snapshot | None = None) -> Counts:
    """Return the counts of `snapshot`, else of the latest. This costs a listing of the snapshots and reads of
    two manifest lists. It reads no manifest, so bytes and sorted runs are None. Counts that cannot be read
    are None, too.
    """
    counts = Counts()
    with suppress(LakeError):
        counts = replace(counts, snapshots=snapshots_of(target))
        latest = snapshot or target.snapshots.latest()
        if latest is None:
            return replace(counts, files=0, bytes=0, rows=0, sorted_runs=0)
        counts = replace(counts, rows=latest.total_record_count)
        lists = target.manifests.data_manifests(latest)
        live = sum(file.num_added_files - file.num_deleted_files for file in lists)
        counts = replace(counts, files=live)
    return counts


def counts_of_entries(target: Target, entries: ManifestEntries) -> Counts:
    """Return the counts from all live entries of the latest snapshot, when they were read already."""
    return counts_of_shape(target, Shape.of(entries, keyed=bool(target.schema.primary_keys)))


def counts_of_shape(target: Target, files: Shape) -> Counts:
    """Return the counts from the shape of all live files of the latest snapshot. It costs one listing."""
    return Counts(snapshots=snapshots_of(target), **_figures(files))


def _figures(shape: Shape) -> dict[str, int]:
    return {name: getattr(shape, name) for name in ("files", "bytes", "rows", "sorted_runs")}


def snapshots_of(target: Target) -> int:
    """Return the number of snapshots, at the cost of one listing."""
    return len(target.snapshots.list_ids())
