"""A writer that gets the column statistics of a file wrong."""

from __future__ import annotations

from dataclasses import replace

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.jobs.runner.lake import target_of
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.next_snapshot import next_metadata_only
from lakecore.metadata.snapshot import CommitKind
from lakecore.table import Table

__all__ = ["tell_wrong_statistics"]


def tell_wrong_statistics(lake: FilesystemCatalog, table: Table) -> str:
    """A snapshot that says of the largest file that it holds the least of its values only; the file's name."""
    target = target_of(table, lake, lake.clock)
    latest = target.snapshots.latest()
    assert latest is not None
    *kept, entry = sorted(table._scanner.live_entries(latest).rows(), key=lambda one: one.file.row_count)
    stats = replace(entry.file.value_stats, max_values=entry.file.value_stats.min_values)
    keys = replace(entry.file.key_stats, max_values=entry.file.key_stats.min_values)
    wrong = replace(entry, file=replace(entry.file, value_stats=stats, key_stats=keys))
    base = target.manifests.write_list(target.manifests.write(ManifestEntries.from_rows([*kept, wrong])))
    change = target.manifests.write_list(())
    snapshot = next_metadata_only(latest, base, change, CommitKind.COMPACT, latest.time_millis)
    assert target.snapshots.publish(snapshot)
    target.snapshots.write_hints(snapshot.id)
    return entry.file.file_name
