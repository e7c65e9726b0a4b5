"""Which buckets have a pick is decided from columns: the picks are those of every bucket looked at file by file."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from lakecore.compact.engine.work import Place, Strategy
from lakecore.compact.kinds.primary_key import plan as planner
from lakecore.compact.kinds.primary_key.mode import Derivation, MergeMode
from lakecore.compact.kinds.primary_key.plan import BucketPick, PickRequest, plan_bucket, plan_picks
from lakecore.format.manifest import blocks
from lakecore.format.manifest import manifests as codec
from lakecore.format.manifest.manifests import decode_manifest, encode_manifest
from lakecore.lsm.options import EarlyFullPolicy, OffPeak, TreePolicy, UniversalPolicy
from lakecore.lsm.run_columns import run_columns
from lakecore.lsm.runs import level_runs
from lakecore.metadata.key_order import key_order
from lakecore.metadata.manifest.data_file import EMPTY_ROW, DataFile, ManifestEntry
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.index_file import DeletionFile, DeletionRange
from lakecore.metadata.options import TableOptions
from tests.lakecore.scan.test_scanner import scanner_of
from tests.support.builders import data_file, manifest_entry, table_schema
from tests.support.golden import golden_tables

KEY_TYPE = table_schema().key_type
PARTITIONS = (EMPTY_ROW, EMPTY_ROW[:-1] + b"\1", EMPTY_ROW[:-1] + b"\2")


def trees(entries: ManifestEntries) -> Mapping[tuple[int, int], tuple[Place, list[DataFile]]]:
    """The files of each bucket, in the order in which buckets are planned."""
    found: dict[tuple[int, int], tuple[Place, list[DataFile]]] = {}
    for row, code in zip(entries.rows(), entries.partition.tolist(), strict=True):
        place = Place(row.partition, row.bucket, row.total_buckets)
        found.setdefault((code, row.bucket), (place, []))[1].append(row.file)
    return {key: found[key] for key in sorted(found, key=lambda key: (key[0], key[1] & 0xFFFFFFFF))}


def file_by_file(entries: ManifestEntries, request: PickRequest) -> tuple[BucketPick, ...]:
    picks = (plan_bucket(place, files, request) for place, files in trees(entries).values())
    return tuple(pick for pick in picks if pick is not None)


def requests(draw: random.Random, target: int = 100) -> PickRequest:
    """Rules of any kind."""
    universal = UniversalPolicy(
        run_trigger=draw.choice([1, 2, 3, 5]),
        size_amp=draw.choice([10, 100, 200]),
        size_ratio=draw.choice([0, 1, 50]),
        off_peak=draw.choice([OffPeak(), OffPeak(0, 12, 30)]),
    )
    early = EarlyFullPolicy(
        interval_ms=draw.choice([None, None, None, 1]),
        total_size=draw.choice([None, None, 300]),
        incremental_size=draw.choice([None, None, 150]),
    )
    policy = TreePolicy(
        universal=universal,
        early_full=early,
        num_levels=draw.choice([2, 3, 6]),
        force_level_0=draw.random() < 0.3,
        force_rewrite=draw.random() < 0.2,
        small_file_size=target // 10 * 7,
        level_0_files=draw.choice([1, 1, 4]),
    )
    mode = MergeMode(
        derivation=draw.choice(list(Derivation)), announces=draw.random() < 0.5, marks=draw.random() < 0.5
    )
    old = draw.choice([None, None, lambda file: file.file_size % 3 == 0])
    return PickRequest(
        strategy=draw.choice(list(Strategy)),
        policy=policy,
        key_of=key_order(KEY_TYPE),
        key_type=draw.choice([KEY_TYPE, KEY_TYPE, None]),
        now_ms=1_700_000_000_000,
        hour=draw.randrange(24),
        mode=mode,
        expired=old,
    )


def history(draw: random.Random) -> list[ManifestEntry]:
    """Live files of some buckets as writers and compactions leave them, in any order of commits."""
    entries = []
    for number in range(draw.randrange(1, 60)):
        level = draw.choice([0, 0, 0, 1, 2, 5])
        low = draw.randrange(40)
        sequence = draw.randrange(6) if draw.random() < 0.3 else number * 10
        file = data_file(
            f"f{draw.randrange(10_000)}-{number}.parquet",
            keys=(low, low + draw.randrange(10)),
            level=level,
            size=draw.choice([1, 10, 60, 99, 100, 400, draw.randrange(1, 1000)]),
            sequence=(sequence, sequence + draw.randrange(3)),
        )
        changes = {
            "delete_row_count": draw.choice([0, 0, 3, None]),
            "creation_time": draw.choice([None, 1, 1_700_000_000_000 + number]),
        }
        place = {"partition": draw.choice(PARTITIONS), "bucket": draw.choice([0, 1, 2, 7])}
        entries.append(manifest_entry(replace(file, **changes), **place))
    return entries


def marked(draw: random.Random, entries: list[ManifestEntry]) -> dict[tuple[bytes, int, str], DeletionFile]:
    chosen = draw.sample(entries, draw.choice([0, 0, min(3, len(entries))]))
    return {
        (entry.partition, entry.bucket, entry.file.file_name): DeletionFile(
            "index-0", DeletionRange(entry.file.file_name, 1, 10, 1)
        )
        for entry in chosen
    }


def test_picks_of_any_history_are_those_of_files() -> None:
    picked = alone = 0
    before = codec.MANY_ENTRIES, blocks._MANY_FILES
    for seed in range(1500):
        draw = random.Random(seed)
        entries = history(draw)
        request = replace(requests(draw), deletions=marked(draw, entries))
        live = ManifestEntries.from_rows(entries)
        wanted = file_by_file(live, request)
        assert plan_picks(live, request) == wanted, seed
        if seed % 5 == 0:
            codec.MANY_ENTRIES = blocks._MANY_FILES = 0
            try:
                decoded = decode_manifest(encode_manifest(entries), "m")
                assert plan_picks(decoded, request) == file_by_file(decoded, request), seed
            finally:
                codec.MANY_ENTRIES, blocks._MANY_FILES = before
        picked += len(wanted)
        alone += sum(pick.reason == "full" for pick in wanted)
    assert picked > 1000
    assert alone > 100


def golden_requests() -> Iterator[tuple[str, ManifestEntries, PickRequest]]:
    for table in golden_tables():
        scanner = scanner_of(table.path)
        schema = scanner.stores.schema
        if not schema.primary_keys:
            continue
        options = TableOptions.from_schema(schema)
        policy = TreePolicy.from_options(
            schema.options, options.target_file_size, lookup=options.needs_lookup
        )
        for snapshot_id in scanner.stores.snapshots.list_ids():
            snapshot = scanner.stores.snapshots.load(snapshot_id)
            request = PickRequest(
                strategy=Strategy.FULL,
                policy=policy,
                key_of=key_order(schema.key_type),
                key_type=schema.key_type,
                now_ms=snapshot.time_millis,
                mode=MergeMode.of(options, lambda _: "parquet"),
                deletions=scanner.deletions(snapshot),
            )
            for strategy in Strategy:
                yield table.name, scanner.live_entries(snapshot), replace(request, strategy=strategy)


def test_picks_of_golden_tables_are_those_of_files() -> None:
    picked = 0
    for name, live, request in golden_requests():
        wanted = file_by_file(live, request)
        assert plan_picks(live, request) == wanted, name
        picked += len(wanted)
    assert picked > 300


def test_runs_from_columns_are_those_of_files() -> None:
    undecided = 0
    for seed in range(600):
        live = ManifestEntries.from_rows(history(random.Random(seed)))
        buckets = list(trees(live).values())
        number = {(place.partition, place.bucket): i for i, (place, _) in enumerate(buckets)}
        codes = np.array([number[row.partition, row.bucket] for row in live.rows()])
        order = np.argsort(codes, kind="stable")
        live = live.select(order)
        found = run_columns(codes[order], live.level, live.file_size, live.min_sequence, live.max_sequence)
        runs = list(found.runs_of(np.arange(len(buckets))))
        for (_, files), columns, unknown in zip(buckets, runs, found.undecided.tolist(), strict=True):
            wanted = level_runs(files)
            assert sorted((run.level, run.size) for run in columns) == sorted(
                (run.level, run.size) for run in wanted
            )
            fresh = [
                (file.min_sequence_number, file.max_sequence_number) for file in files if file.level == 0
            ]
            assert unknown == (len(set(fresh)) < len(fresh))
            if not unknown:
                assert [(run.level, run.size) for run in columns] == [(run.level, run.size) for run in wanted]
            undecided += unknown
    assert undecided > 20
    nothing = np.zeros(0, np.int64)
    assert list(run_columns(*[nothing] * 5).runs_of(nothing)) == []


def test_files_are_made_only_for_buckets_with_a_pick() -> None:
    entries = [
        manifest_entry(data_file(f"f{i}", keys=(i, i), level=i % 2 * 5, sequence=(i, i)), bucket=i % 20)
        for i in range(100)
    ]
    live = ManifestEntries.from_rows(entries)
    made: list[int] = []

    class Counting(planner.ManifestEntries):
        def files_of(self, groups, first=1):  # type: ignore[no-untyped-def]
            groups = list(groups)
            made.append(len(groups))
            return super().files_of(groups, first)

    counting = Counting(**{name: getattr(live, name) for name in live.__slots__})
    request = replace(
        requests(random.Random(0)),
        strategy=Strategy.UNIVERSAL,
        policy=TreePolicy.from_options({}, 100),
        expired=None,
        hour=0,
    )
    assert len(plan_picks(counting, request)) == 10
    assert made == [10]
