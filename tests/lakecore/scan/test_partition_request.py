"""Conditions on partitions leave manifests, blocks and entries out before they are read, and never a wanted one."""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakecore.errors import CorruptDataError
from lakecore.format.manifest import manifests as codec
from lakecore.format.manifest.manifests import decode_manifests, encode_manifest
from lakecore.fs.memory import MemoryFileIO
from lakecore.metadata.manifest.data_file import EMPTY_STATS, SimpleStats
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.entry_request import WHOLE, EntryRequest
from lakecore.metadata.manifest.manifest_file import ManifestFile
from lakecore.metadata.manifest.manifest_stats import describe_manifest
from lakecore.predicate.tree import And, Compare, Comparison, In, IsNotNull, IsNull, Not, NotIn, Or, Predicate
from lakecore.row.binary_row import decode_row, encode_row
from lakecore.scan.filters import EVERYTHING, ScanFilter, keeps_manifest, select_entries
from lakecore.scan.partition_request import entry_request, keeps_manifests, matching_partitions
from lakecore.scan.pruning import prune_partitions
from lakecore.store import manifests as stored
from lakecore.store.manifests import ManifestStore
from lakecore.store.paths import TablePaths
from lakecore.types.datatypes import DataField, RowType, parse_type
from tests.lakecore.scan.test_pruning import TYPES, VALUES
from tests.lakecore.scan.test_scanner import scanner_of
from tests.support.builders import data_file, manifest_entry, table_schema
from tests.support.golden import golden_tables

MORE_TYPES = {
    "c": "CHAR(9)",
    "u": "VARBINARY(20)",
    "n": "INT",
    "w": "SMALLINT",
    "f": "FLOAT",
    "e": "DECIMAL(30, 4)",
    "l": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
}
ALL_TYPES = {**TYPES, **MORE_TYPES}
ALL_VALUES = {
    **VALUES,
    "x": [None, -1.5, -0.0, 0.0, 1e300, float("nan"), float("inf")],
    "c": [None, "", "nine char", "ab"],
    "u": [None, b"", b"\0\0\0\0", b"a longer value"],
    "n": [None, -1, 0, 20260101, (1 << 31) - 1],
    "w": [None, -1, 0, 300],
    "f": [None, -0.0, 0.0, 1.5, float("nan")],
    "e": [None, *(value for value in VALUES["d"] if value is not None)],
    "l": [None, 0, 1_700_000_000_123_456_000],
}
NO_BOUNDS = ("u", "x", "f")
"""Not used by the test that something is left out: their bounds are not recorded, or hide NaN."""


def kind_of(names: Sequence[str]) -> RowType:
    return RowType(tuple(DataField(i, name, parse_type(ALL_TYPES[name])) for i, name in enumerate(names)))


def entries_of(rows: Sequence[tuple[Any, ...]], kind: RowType, start: int = 0) -> ManifestEntries:
    return ManifestEntries.from_rows(
        [
            manifest_entry(data_file(f"f{start + i}"), partition=encode_row(row, kind))
            for i, row in enumerate(rows)
        ]
    )


def _leaf(name: str) -> st.SearchStrategy[Predicate]:
    value = st.sampled_from([value for value in ALL_VALUES[name] if value is not None])
    some = st.lists(value, max_size=3).map(tuple)
    if name == "u":
        return st.sampled_from([IsNull(name), IsNotNull(name)])
    return st.one_of(
        st.builds(Compare, st.just(name), st.sampled_from(Comparison), value),
        st.builds(In, st.just(name), some),
        st.builds(NotIn, st.just(name), some),
        st.builds(IsNull, st.just(name)),
        st.builds(IsNotNull, st.just(name)),
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[RowType, list[list[tuple[Any, ...]]], Predicate]:
    """The type of partitions, the partitions of the entries of some manifests, and a predicate."""
    names = draw(st.lists(st.sampled_from(sorted(ALL_TYPES)), min_size=1, max_size=3, unique=True))
    row = st.tuples(*(st.sampled_from(ALL_VALUES[name]) for name in names))
    manifests = draw(st.lists(st.lists(row, min_size=1, max_size=4), min_size=1, max_size=3))
    leaves = st.sampled_from(names).flatmap(_leaf)
    pair = st.lists(leaves, min_size=2, max_size=2).map(tuple)
    predicate = draw(
        st.one_of(leaves, pair.map(And), pair.map(Or), st.builds(Not, leaves), st.builds(Not, pair.map(Or)))
    )
    return kind_of(names), manifests, predicate


@settings(max_examples=400)
@given(cases(), st.booleans())
def test_no_manifest_or_block_with_a_wanted_partition_is_left_out(
    case: tuple[RowType, list[list[tuple[Any, ...]]], Predicate], counted: bool
) -> None:
    kind, manifests, predicate = case
    groups = [entries_of(rows, kind) for rows in manifests]
    files = [describe_manifest(group, "m", 1, kind) for group in groups]
    if not counted:
        files = [
            replace(file, partition_stats=replace(file.partition_stats, null_counts=())) for file in files
        ]
    request = entry_request(EVERYTHING, predicate, kind, keys=False)
    assert request.partitions is not None
    for group, keeps in zip(groups, keeps_manifests(files, predicate, kind).tolist(), strict=True):
        wanted = len(prune_partitions(group, predicate, kind))
        assert keeps or not wanted
        assert request.may_hold(b"..".join(group.partitions)) or not wanted
        assert int(request.partitions(group.partitions)[group.partition].sum()) == wanted


@settings(max_examples=200)
@given(cases(), st.randoms(use_true_random=False))
def test_filters_of_a_scan_give_pieces_that_wanted_partitions_have(
    case: tuple[RowType, list[list[tuple[Any, ...]]], Predicate], draw: random.Random
) -> None:
    kind, manifests, predicate = case
    rows = [row for group in manifests for row in group]
    specs = [
        {name: value for name, value in zip(kind.names, row, strict=True) if draw.random() < 0.7}
        for row in draw.sample(rows, draw.randrange(len(rows) + 1))
    ]
    serialized = frozenset(encode_row(row, kind) for row in rows if draw.random() < 0.5)
    where = ScanFilter(
        partitions=tuple(specs) if draw.random() < 0.7 else None,
        serialized=serialized if draw.random() < 0.4 else None,
    )
    asked = predicate if draw.random() < 0.5 else None
    request = entry_request(where, asked, kind, keys=True)
    assert request.keys
    for row in rows:
        entries = entries_of([row], kind)
        chosen = select_entries(entries, where, kind)
        wanted = len(chosen if asked is None else prune_partitions(chosen, asked, kind))
        assert request.may_hold(encode_row(row, kind)) or not wanted
        if request.partitions is not None:
            assert int(request.partitions(entries.partitions).sum()) == wanted


@pytest.mark.parametrize("name", sorted(set(ALL_TYPES) - set(NO_BOUNDS)))
def test_manifests_of_other_partitions_are_left_out(name: str) -> None:
    kind = kind_of([name])
    low, *_, high = sorted(value for value in ALL_VALUES[name] if value is not None)
    files = [describe_manifest(entries_of([(value,)], kind), "m", 1, kind) for value in (low, high, None)]

    def kept(predicate: Predicate) -> list[bool]:
        found: list[bool] = keeps_manifests(files, predicate, kind).tolist()
        return found

    assert kept(Compare(name, Comparison.EQ, low)) == [True, False, False]
    assert kept(Compare(name, Comparison.GT, low)) == [False, True, False]
    assert kept(IsNull(name)) == [False, False, True]
    assert kept(IsNotNull(name)) == [True, True, False]
    assert kept(In(name, (high,))) == [False, True, False]


def test_a_manifest_with_values_and_null_is_kept_for_both() -> None:
    kind = kind_of("s")
    file = describe_manifest(entries_of([("one",), (None,)], kind), "m", 1, kind)
    for predicate in (IsNull("s"), IsNotNull("s"), Compare("s", Comparison.EQ, "one")):
        assert keeps_manifests([file], predicate, kind).tolist() == [True]
    assert keeps_manifests([file], Compare("s", Comparison.EQ, "two"), kind).tolist() == [False]


@pytest.mark.parametrize(
    "stats",
    [
        EMPTY_STATS,
        SimpleStats(b"", b"", ()),
        SimpleStats(b"\0\0\0\1damaged", b"\0\0\0\1damaged", (0,)),
        SimpleStats(encode_row((None,), kind_of("s")), encode_row((None,), kind_of("s")), (None,)),
        SimpleStats(encode_row((None,), kind_of("s")), encode_row((None,), kind_of("s")), ()),
    ],
)
def test_bounds_that_were_not_recorded_or_cannot_be_read_keep_the_manifest(stats: SimpleStats) -> None:
    file = ManifestFile(
        file_name="m", file_size=1, num_added_files=1, num_deleted_files=0, partition_stats=stats
    )
    for predicate in (Compare("s", Comparison.EQ, "one"), IsNull("s")):
        assert keeps_manifests([file], predicate, kind_of("s")).tolist() == [True]
    if stats is EMPTY_STATS:
        assert keeps_manifest(file, ScanFilter(partitions=({"s": "one"},)), kind_of("s"))


def test_conditions_on_other_columns_keep_everything() -> None:
    kind = kind_of("s")
    file = describe_manifest(entries_of([("one",)], kind), "m", 1, kind)
    for predicate in (None, Compare("k", Comparison.EQ, 1)):
        assert keeps_manifests([file], predicate, kind).tolist() == [True]
        assert entry_request(EVERYTHING, predicate, kind, keys=False) == WHOLE
    either = Or((Compare("k", Comparison.EQ, 1), Compare("s", Comparison.EQ, "two")))
    assert keeps_manifests([file], either, kind).tolist() == [True]
    assert entry_request(EVERYTHING, either, kind, keys=False) == WHOLE


def test_only_pieces_that_are_long_few_and_known_are_searched() -> None:
    kind = kind_of(["s", "n"])

    def pieces(predicate: Predicate, where: ScanFilter = EVERYTHING) -> tuple[tuple[bytes, ...], ...]:
        return entry_request(where, predicate, kind, keys=False).pieces

    assert pieces(Compare("s", Comparison.EQ, "2026-01-01")) == ((b"2026-01-01",),)
    assert pieces(Compare("s", Comparison.EQ, "abc")) == ()
    assert pieces(Compare("s", Comparison.GE, "2026-01-01")) == ()
    assert pieces(In("n", (1, 1 << 40))) == ()
    assert pieces(In("s", tuple(f"value {i}" for i in range(17)))) == ()
    both = And((Compare("s", Comparison.EQ, "2026"), In("n", (258, 259))))
    assert pieces(both) == ((b"2026",), (b"\2\1\0\0", b"\3\1\0\0"))
    specs = ({"s": "2026-01-01", "n": 7}, {"n": 258})
    assert pieces(IsNull("n"), ScanFilter(partitions=specs)) == ((b"2026-01-01", b"\2\1\0\0"),)
    assert pieces(IsNull("n"), ScanFilter(partitions=(*specs, {"s": None}))) == ()


@contextmanager
def columns_for_all() -> Iterator[None]:
    """All manifests are decoded straight into columns, however few entries they have."""
    before = codec.MANY_ENTRIES, stored.MANY_ENTRIES
    codec.MANY_ENTRIES = stored.MANY_ENTRIES = 0
    try:
        yield
    finally:
        codec.MANY_ENTRIES, stored.MANY_ENTRIES = before


def test_entries_that_were_asked_for_are_as_in_a_whole_read() -> None:
    kind = kind_of(["s", "n"])
    texts = [None, "", "2026-01-01", "2026-01-02", "a rather long name of a partition", "zz"]
    for seed in range(12):
        draw = random.Random(seed)
        rows = [(draw.choice(texts), draw.choice([None, 1, 258])) for _ in range(draw.randrange(1, 400))]
        if draw.random() < 0.5:
            rows.sort(key=repr)
        cuts = sorted(draw.randrange(len(rows) + 1) for _ in range(3))
        parts = [
            entries_of(rows[low:high], kind, low)
            for low, high in zip([0, *cuts], [*cuts, len(rows)], strict=True)
        ]
        files = [(encode_manifest(part), f"m{i}") for i, part in enumerate(parts)]
        predicate = draw.choice(
            [
                Compare("s", Comparison.EQ, draw.choice(texts[1:])),
                In("s", ("2026-01-01", "zz")),
                IsNull("s"),
                Compare("n", Comparison.EQ, 258),
                Compare("s", Comparison.GT, "2026-01-01"),
            ]
        )
        with columns_for_all():
            whole = decode_manifests(files)
            request = entry_request(EVERYTHING, predicate, kind, keys=draw.random() < 0.5)
            some = decode_manifests(files, request)
        wanted = prune_partitions(whole, predicate, kind)
        assert prune_partitions(some, predicate, kind).rows() == wanted.rows()
        assert len(some) == len(wanted)
        assert len(some) + some.left_out == len(whole)
        assert not whole.left_out
        assert encode_manifest(some) == encode_manifest(wanted)
        assert some.names() == wanted.names()
        assert some.extra_hash.tolist() == wanted.extra_hash.tolist()
        keys, others = some.keys(), wanted.keys()
        assert keys is not None
        assert others is not None
        assert [part.to_list() for part in keys] == [part.to_list() for part in others]


def test_entries_that_the_decoder_left_out_count_as_read() -> None:
    schema = table_schema("s STRING, k INT", primary_keys=(), partition_keys=("s",))
    store = ManifestStore(MemoryFileIO(), TablePaths("t"), schema)
    rows = [(f"day {i % 7}",) for i in range(100)]
    files = store.write(entries_of(rows, schema.partition_type))
    request = entry_request(
        EVERYTHING, Compare("s", Comparison.EQ, "day 3"), schema.partition_type, keys=False
    )
    with columns_for_all():
        assert len(store.read(files, request)) == 14
        wrong = [replace(file, num_added_files=file.num_added_files + 1) for file in files]
        with pytest.raises(CorruptDataError, match="holds 100 entries, but the manifest list records 101"):
            store.read(wrong, request)


def test_blocks_without_a_wanted_record_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = kind_of("s")
    files = [
        (encode_manifest(entries_of([(f"day-{day:06}",)] * 40, kind, day * 40)), f"m{day}")
        for day in range(50)
    ]
    seen = []

    def may_hold(self: EntryRequest, data: bytes) -> bool:
        found = all(any(piece in data for piece in pieces) for pieces in self.pieces)
        seen.append(found)
        return found

    monkeypatch.setattr(EntryRequest, "may_hold", may_hold)
    request = entry_request(EVERYTHING, Compare("s", Comparison.EQ, "day-000007"), kind, keys=False)
    with columns_for_all():
        some = decode_manifests(files, request)
        none = decode_manifests(files, replace(request, pieces=((b"day-000099",),)))
    assert (len(some), some.left_out) == (40, 49 * 40)
    assert (len(none), none.left_out) == (0, 50 * 40)
    assert seen.count(True) == 1
    assert len(seen) == 100


def test_pruned_plans_of_golden_tables_are_whole_plans_filtered() -> None:
    """Of every table with partitions, also with null in them, and of every snapshot of it that still stands."""
    plans = nulls = 0
    for table in golden_tables():
        scanner = scanner_of(table.path)
        kind = scanner.stores.schema.partition_type
        if not kind.fields:
            continue
        for snapshot_id in scanner.stores.snapshots.list_ids()[-3:]:
            snapshot = scanner.stores.snapshots.load(snapshot_id)
            whole = scanner.live_entries(snapshot)
            for row in {decode_row(value, kind) for value in whole.partitions}:
                tests: list[Predicate] = [
                    IsNull(name) if value is None else Compare(name, Comparison.EQ, value)
                    for name, value in zip(kind.names, row, strict=True)
                ]
                if any(isinstance(value, (bytes, float)) for value in row):
                    continue
                spec = ScanFilter(partitions=(dict(zip(kind.names, row, strict=True)),))
                predicate = And(tuple(tests))
                wanted = prune_partitions(whole, predicate, kind).rows()
                with columns_for_all():
                    pruned = scanner.live_entries(snapshot, predicate=predicate)
                    chosen = scanner.live_entries(snapshot, spec)
                assert prune_partitions(pruned, predicate, kind).rows() == wanted, (table.name, row)
                assert chosen.rows() == wanted, (table.name, row)
                assert pruned.slow_entries == 0
                plans += 1
                nulls += None in row
    assert plans > 100
    assert nulls > 0


def test_plans_of_golden_tables_tell_that_nothing_was_decoded_record_by_record(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Tables of Java 0.8 to 2.0: the counter is in the plan, and in the log that --verbose shows."""
    caplog.set_level(logging.INFO, logger="lakecore.store.manifests")
    decoded = 0
    for table in golden_tables():
        scanner = scanner_of(table.path)
        snapshot = scanner.stores.snapshots.latest()
        if snapshot is None:
            continue
        caplog.clear()
        with columns_for_all():
            plan = scanner.plan(snapshot, scanner.stores.schema)
        assert plan.entries.slow_entries == 0, table.name
        (record,) = caplog.records
        counts = re.search(
            r"(\d+) entries of \d+ manifests were decoded, (\d+) of them record by record", record.message
        )
        assert counts is not None
        assert counts[2] == "0"
        decoded += int(counts[1])
    assert decoded > 1000


def test_a_partition_is_wanted_only_where_the_condition_is_true() -> None:
    kind = kind_of("s")
    rows = [encode_row((value,), kind) for value in ("a", None, "b")]
    found = matching_partitions(rows, Compare("s", Comparison.NE, "a"), kind)
    assert np.asarray(found).tolist() == [False, False, True]
