"""Wrong column statistics in manifests are made again from the rows of their files.

Filters skip files by them, so rows are missing from queries. Only where all else that a description says is
true of its file (size, counts, sequence numbers, keys): then it is the description of that file, and what is
wrong with it follows from its rows. No data file changes. Older snapshots keep what they say.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from lakecore.commit.publication import publish
from lakecore.errors import CommitConflictError, CommitUncertainError, LakeError
from lakecore.format.statistics import DENSE_STORE, key_modes, simple_stats, stats_modes
from lakecore.maintain.repair.context import Action, ActionResult, Parameters, RepairContext
from lakecore.maintain.repair.plan import ActionPreview
from lakecore.maintain.target import Target
from lakecore.metadata.key_value import key_fields
from lakecore.metadata.manifest.data_file import DataFile, ManifestEntry
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.live_entries import live_entries
from lakecore.metadata.next_snapshot import next_metadata_only
from lakecore.metadata.options import TableOptions
from lakecore.metadata.snapshot import BATCH_IDENTIFIER, CommitKind, Snapshot
from lakecore.types.datatypes import RowType
from lakecore.verify.fsck.data_files import DataFileCheck, bounds_of
from lakecore.verify.fsck.findings import FindingKind, Findings
from lakecore.verify.fsck.references import DataReference, bucket_directory
from lakecore.write.options import FileRules

__all__ = ["STATISTICS", "live_files_at"]


def live_files_at(target: Target, entries: ManifestEntries, paths: Collection[str]) -> list[tuple[str, int]]:
    """Return paths and positions of the live files that fsck reported: those of `paths` that are live."""
    if not paths or not len(entries) or TableOptions.from_schema(target.schema).data_evolution:
        return []
    directory = bucket_directory(target.paths, target.schema)
    names = np.array([path.rpartition("/")[2].encode() for path in paths])
    at = np.flatnonzero(np.isin(np.array(entries.names()), names))
    rows = zip(at.tolist(), entries.rows(at), strict=True)
    places = ((target.paths.data_file(directory(e.partition, e.bucket), e.file), i) for i, e in rows)
    return [(path, row) for path, row in places if path in paths]


def _live(target: Target, latest: Snapshot) -> ManifestEntries:
    return live_entries(target.manifests.read(target.manifests.data_manifests(latest)))


def _find(
    target: Target, entries: ManifestEntries, parameters: Parameters
) -> dict[str, tuple[int, ManifestEntry]]:
    """Return, by path, positions and entries as they should be. Each suspect is read three times."""
    problems = {}
    for path, row in live_files_at(target, entries, frozenset(parameters.get("described", ()))):
        entry = entries.row(row)
        if _problems(target, entry, entry.file, path) == {FindingKind.COLUMN_STATISTICS}:
            right = _describe(target, entry.file, path)
            if not _problems(target, entry, right, path):
                problems[path] = row, replace(entry, file=right)
    return problems


def _problems(target: Target, entry: ManifestEntry, file: DataFile, path: str) -> set[FindingKind]:
    findings = Findings()
    reference = DataReference(path, entry.bucket, file, "the latest", target.schemas, entry.bucket >= 0)
    DataFileCheck(target.file_io, findings, keyed=True, deep=True).check(reference)
    return {finding.kind for finding in findings.items}


def _describe(target: Target, file: DataFile, path: str) -> DataFile:
    """Return the file with statistics as a writer would have made them."""
    schema, bounds = bounds_of(target.file_io, path, file, target.schemas)
    raw = target.schema.options
    rules = FileRules.of(raw, file.level)
    modes = stats_modes(schema.row_type, raw, rules.stats_mode)
    values, columns = simple_stats(bounds, schema.row_type, modes, dense=DENSE_STORE.read(raw))
    right = replace(file, value_stats=values, value_stats_cols=columns)
    if not schema.primary_keys:
        return right
    column_modes = key_modes(schema.key_type, raw, rules.stats_mode, rules.format)
    keys, _ = simple_stats(bounds, RowType(key_fields(schema)), column_modes, dense=False)
    return replace(right, key_stats=keys)


def _look(context: RepairContext, branch: str, parameters: Parameters) -> ActionPreview | None:
    target = context.at(branch)
    latest = target.snapshots.latest()
    if latest is None or not parameters:
        return None
    problems = _find(target, _live(target, latest), parameters)
    if not problems:
        return None
    return ActionPreview(
        why=f"snapshot {latest.id} has wrong column statistics, so filters may skip rows",
        changes=tuple(f"statistics of {path} -> those of its rows" for path in sorted(problems)),
        paths=frozenset(problems),
    )


def _correct(
    context: RepairContext, branch: str, parameters: Parameters, paths: frozenset[str]
) -> ActionResult:
    """Commit a COMPACT snapshot of the same files in new manifests. It keeps all live entries in memory, as a
    plan does.

    Raises CommitConflictError when another commit was first; then nothing is left behind.
    """
    target = context.at(branch)
    latest = target.snapshots.latest()
    if latest is None:
        return ActionResult()
    entries = _live(target, latest)
    problems = _find(target, entries, parameters)
    chosen = [
        pair for path, pair in problems.items() if f"statistics of {path} -> those of its rows" in paths
    ]
    is_unchanged = np.ones(len(entries), bool)
    is_unchanged[[row for row, _ in chosen]] = False
    right = ManifestEntries.from_rows([entry for _, entry in chosen])
    return _publish(
        context, target, latest, ManifestEntries.concat([entries.select(is_unchanged), right]), len(chosen)
    )


def _publish(
    context: RepairContext, target: Target, latest: Snapshot, entries: ManifestEntries, count: int
) -> ActionResult:
    manifests = target.manifests
    paths: list[str] = []
    try:
        files = manifests.write(entries)
        paths += [file.file_name for file in files]
        base = manifests.write_list(files)
        paths.append(base[0])
        change = manifests.write_list(())
        paths.append(change[0])
        author = {"commit_user": context.user, "commit_identifier": BATCH_IDENTIFIER}
        now_ms = target.clock.now_ms()
        planned = next_metadata_only(latest, base, change, CommitKind.COMPACT, now_ms, **author)
        publication = publish(target.snapshots, planned, latest, target.settle_ms)
        if publication.replaced:
            raise CommitUncertainError(
                f"{target.name}: {publication.note}; create a new plan, and delete nothing"
            )
        if not publication.published:
            raise CommitConflictError(f"{target.name}: another writer committed first; create a new plan")
    except CommitUncertainError:
        raise
    except LakeError:
        for name in paths:
            manifests.delete(name)
        raise
    return ActionResult(snapshot=planned.id, files=count)


STATISTICS = Action(look=_look, do=_correct)
