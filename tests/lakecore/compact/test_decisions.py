"""What Java picked, on every tree of the golden tables that it compacted: the same inputs, the same output level.

Each COMPACT snapshot shows it: the files it removes were the pick, the levels of what it adds the output. Tables that
this release cannot compact count too, for the rule is one; only whether a file moves or is rewritten differs for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.compact.engine.work import Place, Strategy
from lakecore.compact.kinds.append.plan import JoinRequest, plan_joins
from lakecore.compact.kinds.primary_key.plan import BucketPick, PickRequest, plan_bucket
from lakecore.lsm.options import AppendPolicy, TreePolicy
from lakecore.metadata.key_order import key_order
from lakecore.metadata.manifest.data_file import DataFile, EntryKind
from lakecore.metadata.options import BucketMode, ChangelogProducer, MergeEngine, TableOptions
from lakecore.metadata.snapshot import CommitKind
from lakecore.table import Table
from tests.support.golden import GoldenTable, golden_tables


@dataclass(frozen=True)
class Step:
    """One bucket before a compaction of Java, and what it did."""

    where: str
    place: Place
    before: list[DataFile]
    removed: list[DataFile]
    added: list[DataFile]
    request: PickRequest
    lookup: bool


def steps(golden: GoldenTable) -> Iterator[Step]:
    table = load_catalog(golden.warehouse).load_table(golden.name)
    if not table.schema.primary_keys:
        return
    ids = table._stores.snapshots.list_ids()
    for snapshot_id in ids:
        snapshot = table._stores.snapshots.load(snapshot_id)
        if snapshot.commit_kind is CommitKind.COMPACT and snapshot_id - 1 in ids:
            yield from _steps_of(table, snapshot_id)


def _steps_of(table: Table, snapshot_id: int) -> Iterator[Step]:
    snapshot = table._stores.snapshots.load(snapshot_id)
    schema = table._stores.schemas.load(snapshot.schema_id)
    options = TableOptions.from_schema(schema)
    if options.bucket_mode is BucketMode.POSTPONE:
        return
    lookup = (
        options.changelog_producer is ChangelogProducer.LOOKUP
        or options.merge_engine is MergeEngine.FIRST_ROW
        or options.deletion_vectors
        or options.force_lookup
    )
    policy = TreePolicy.from_options(schema.options, options.target_file_size)
    request = PickRequest(
        strategy=Strategy.UNIVERSAL,
        policy=replace(policy, force_level_0=True) if lookup else policy,
        key_of=key_order(schema.key_type),
        now_ms=snapshot.time_millis,
    )
    trees: dict[Place, list[DataFile]] = {}
    for entry in table._scanner.live_entries(table._stores.snapshots.load(snapshot_id - 1)):
        place = Place(entry.partition, entry.bucket, entry.total_buckets)
        trees.setdefault(place, []).append(entry.file)
    changed: dict[Place, dict[EntryKind, list[DataFile]]] = {}
    for entry in table._stores.manifests.read(
        table._stores.manifests.read_list(snapshot.delta_manifest_list)
    ):
        place = Place(entry.partition, entry.bucket, entry.total_buckets)
        changed.setdefault(place, {}).setdefault(entry.kind, []).append(entry.file)
    for place, files in changed.items():
        removed, added = files.get(EntryKind.DELETE, []), files.get(EntryKind.ADD, [])
        where = f"{table.name} snapshot {snapshot_id} bucket {place.bucket}"
        yield Step(where, place, trees[place], removed, added, request, lookup)


def _agrees(pick: BucketPick | None, step: Step) -> bool:
    if pick is None:
        return False
    rewritten = [file for stretch in pick.work.rewrites for section in stretch for file in section.files]
    moved = {file.file_name for file in pick.work.upgrades}
    removed = {file.file_name for file in step.removed}
    levels = {file.level for file in step.added}
    same_files = {file.file_name for file in rewritten} | moved == removed
    same_moves = step.lookup or moved == removed & {file.file_name for file in step.added}
    return same_files and same_moves and levels <= {pick.output_level}


@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
def test_picks_are_those_of_java(version: str) -> None:
    compared = dict.fromkeys(Strategy, 0)
    for golden in golden_tables():
        if golden.version != version:
            continue
        for step in steps(golden):
            universal = plan_bucket(step.place, step.before, step.request)
            full = plan_bucket(step.place, step.before, replace(step.request, strategy=Strategy.FULL))
            agreeing = [
                strategy
                for strategy, pick in zip(Strategy, (universal, full), strict=True)
                if _agrees(pick, step)
            ]
            assert agreeing, (step.where, universal, full)
            compared[agreeing[0]] += 1
    assert compared[Strategy.UNIVERSAL] > 90
    assert compared[Strategy.FULL] > 20


def test_joins_are_those_of_java() -> None:
    """Append tables: the files that Java's compaction removed. Rewriting an index is no compaction."""
    compared = 0
    for golden in golden_tables():
        table = load_catalog(golden.warehouse).load_table(golden.name)
        ids = table._stores.snapshots.list_ids()
        if table.schema.primary_keys or any(key.startswith("file-index.") for key in table.schema.options):
            continue
        for snapshot_id in ids:
            snapshot = table._stores.snapshots.load(snapshot_id)
            if snapshot.commit_kind is not CommitKind.COMPACT or snapshot_id - 1 not in ids:
                continue
            schema = table._stores.schemas.load(snapshot.schema_id)
            options = TableOptions.from_schema(schema)
            request = JoinRequest(
                strategy=Strategy.UNIVERSAL,
                policy=AppendPolicy.from_options(schema.options, options.target_file_size),
                ordered=options.bucket_mode is not BucketMode.BUCKET_UNAWARE,
            )
            joins = plan_joins(
                table._scanner.live_entries(table._stores.snapshots.load(snapshot_id - 1)), request, {}
            )
            delta = table._stores.manifests.read(
                table._stores.manifests.read_list(snapshot.delta_manifest_list)
            )
            removed = {entry.file.file_name for entry in delta if entry.kind is EntryKind.DELETE}
            assert {file.file_name for join in joins for file in join.files} == removed, golden.name
            compared += 1
    assert compared > 10
