"""This module reads the figures of one table.

A table whose latest snapshot and schema are those of the last survey costs its schema, the latest
snapshot and the listings of snapshots, tags, branches and consumers. Any other table also costs its
manifests once, its manifest lists twice, and some 1 us of CPU for each file; with `history` the delta
manifests of every snapshot.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from lakecore.errors import NotFoundError
from lakecore.lsm.options import MIN_FILES, RUN_TRIGGER, AppendPolicy
from lakecore.maintain.retention_options import SNAPSHOT_MAX, SNAPSHOT_MIN, SNAPSHOT_TIME
from lakecore.maintain.survey.plan import HealthRules
from lakecore.maintain.survey.record import Figures
from lakecore.maintain.target import Target
from lakecore.metadata.manifest.data_file import EntryKind
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.options import TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.snapshot import Snapshot
from lakecore.scan.scanner import Scanner

__all__ = ["MOST_SNAPSHOTS", "figures_of", "rules_of"]

MOST_SNAPSHOTS = 200
"""The history of a table with more snapshots is not added up."""


def rules_of(target: Target) -> HealthRules:
    """Return the options that say when maintenance of the table is due. Raises InvalidOptionError."""
    raw = target.schema.options
    return HealthRules(
        run_trigger=RUN_TRIGGER.read(raw),
        min_files=MIN_FILES.read(raw),
        manifest_target=target.manifests.target_size,
        snapshots_max=SNAPSHOT_MAX.read(raw),
        snapshots_min=SNAPSHOT_MIN.read(raw),
        retained_ms=SNAPSHOT_TIME.read(raw),
    )


def figures_of(target: Target, before: Figures | None, *, history: bool) -> Figures:
    """Return the figures of a table. `before` are those of the last survey; with `history` the bytes that
    only older snapshots need are added up.

    Raises UnsupportedError, CorruptDataError, NotFoundError, UnavailableError, as a scan of the table
    does.
    """
    latest = target.snapshots.latest()
    ids = target.snapshots.list_ids()
    figures = _same(before, latest, target.schema, history=history and len(ids) <= MOST_SNAPSHOTS)
    if figures is None:
        figures = Figures(has_key=bool(target.schema.primary_keys), schema=target.schema.id)
        if latest is not None:
            entries = Scanner(target.name, target.stores).live_entries(latest)
            figures = _files(target, latest, entries, figures)
            if history and len(ids) <= MOST_SNAPSHOTS:
                figures = replace(figures, history_bytes=_history_bytes(target, entries, ids))
    oldest = target.snapshots.earliest()
    positions = [one.next_snapshot for one in target.consumers.list()]
    return replace(
        figures,
        snapshots=len(ids),
        oldest_ms=None if oldest is None else max(0, oldest.time_millis),
        history_bytes=0 if len(ids) == 1 else figures.history_bytes,
        tags=len(target.tags.list()),
        branches=len(target.branches.list()),
        consumers=len(positions),
        consumer_lag=max(0, latest.id + 1 - min(positions)) if latest is not None and positions else 0,
    )


def _same(
    before: Figures | None, latest: Snapshot | None, schema: TableSchema, *, history: bool
) -> Figures | None:
    """Return the earlier figures if they are those of the latest snapshot, and of the schema."""
    if before is None or latest is None or (history and before.history_bytes is None):
        return None
    now = (latest.id, max(0, latest.time_millis), latest.delta_manifest_list, schema.id)
    then = (before.snapshot, before.snapshot_ms, before.snapshot_key, before.schema)
    return before if now == then else None


def _files(target: Target, latest: Snapshot, entries: ManifestEntries, figures: Figures) -> Figures:
    manifests = target.manifests.data_manifests(latest)
    index_files = Scanner(target.name, target.stores).index_files(latest)
    marked = sum(place.cardinality or 0 for file in index_files for place in file.deletions)
    places = _places(entries)
    runs, small, due = _due(target, entries, places, keyed=figures.has_key)
    return replace(
        figures,
        snapshot=latest.id,
        snapshot_ms=max(0, latest.time_millis),
        snapshot_key=latest.delta_manifest_list,
        files=len(entries),
        bytes=int(entries.file_size.sum()),
        rows=int(entries.row_count.sum()),
        deleted_rows=int(np.maximum(entries.delete_row_count, 0).sum()) + marked,
        buckets=len(np.unique(places)),
        partitions=len(np.unique(entries.partition)),
        level0_files=int((entries.level == 0).sum()) if figures.has_key else 0,
        sorted_runs=runs,
        due_buckets=due,
        small_files=small,
        postponed_files=int((entries.bucket < 0).sum()),
        manifests=len(manifests),
        manifest_bytes=sum(one.file_size for one in manifests),
    )


def _places(entries: ManifestEntries) -> npt.NDArray[np.int64]:
    """Return a number for each entry that its bucket of its partition alone has."""
    if not len(entries):
        return np.zeros(0, np.int64)
    bucket = entries.bucket.astype(np.int64)
    width = int(bucket.max() - bucket.min()) + 1
    return np.asarray(entries.partition.astype(np.int64) * width + (bucket - bucket.min()))


def _due(
    target: Target, entries: ManifestEntries, places: npt.NDArray[np.int64], *, keyed: bool
) -> tuple[int, int, int]:
    """Return the most sorted runs of one bucket, the small files that others of their bucket can take in,
    and the number of buckets that a compaction would take up by their number of runs or small files.
    """
    rules = rules_of(target)
    if keyed:
        ready = entries.bucket >= 0  # postponed files are no sorted runs
        at, level = places[ready], entries.level[ready].astype(np.int64)
        upper = np.unique(np.stack([at[level > 0], level[level > 0]]), axis=1)[0]
        _, runs = np.unique(np.concatenate([at[level == 0], upper]), return_counts=True)
        return int(runs.max(initial=0)), 0, int((runs > rules.run_trigger).sum())
    table_target = TableOptions.from_schema(target.schema).target_file_size
    policy = AppendPolicy.from_options(target.schema.options, table_target)
    _, count = np.unique(places[entries.file_size < policy.small_file_size], return_counts=True)
    return 0, int(count[count > 1].sum()), int((count >= rules.min_files).sum())


def _history_bytes(target: Target, entries: ManifestEntries, ids: tuple[int, ...]) -> int:
    """Return the bytes of data files that snapshots have removed since the oldest one, and that are not among
    the live `entries`.

    A snapshot that expires meanwhile is left out.
    """
    live = entries.name_hash
    removed: dict[int, int] = {}
    for one in ids[1:]:
        with suppress(NotFoundError):
            snapshot = target.snapshots.load(one)
            manifests = target.manifests.read_list(snapshot.delta_manifest_list)
            changes = target.manifests.read([file for file in manifests if file.num_deleted_files])
            dropped = changes.kind == EntryKind.DELETE
            hashes, sizes = changes.name_hash[dropped].tolist(), changes.file_size[dropped].tolist()
            removed.update(zip(hashes, sizes, strict=True))
    names = np.fromiter(removed.keys(), live.dtype, len(removed))
    removed_sizes = np.fromiter(removed.values(), np.int64, len(removed))
    return int(removed_sizes[~np.isin(names, live)].sum())
