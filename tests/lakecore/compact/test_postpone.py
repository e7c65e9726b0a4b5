"""Postponed rows: in which order they are replayed, where they go, and what the proof of it notices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import lakecore.commit.attempt as attempt
import lakecore.compact.kinds.postpone.plan as plans
import lakecore.compact.kinds.postpone.run as units
import lakecore.verify.proof.postponed as proofs
import lakecore.write.buckets.postpone as writing
from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.compact.kinds.postpone.plan import cut, plan_partitions
from lakecore.errors import ProofError
from lakecore.jobs.compact import Job, Report, Strategy, run
from lakecore.metadata.manifest.data_file import EMPTY_ROW, EntryKind, ManifestEntry
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.row.bucket import assign_buckets
from lakecore.table import Table
from lakecore.verify.digest.shape import ProofMode
from lakecore.write.buckets.postpone import new_buckets, writer_prefix
from lakecore.write.rows.incoming import Rows
from tests.support.builders import data_file
from tests.support.lake import key_table, live_files, memory_catalog, paths_of, put, rows_of


def entry(
    name: str, created: int, bucket: int = -2, total: int = -2, partition: bytes = EMPTY_ROW
) -> ManifestEntry:
    file = replace(data_file(name), creation_time=created)
    return ManifestEntry(
        kind=EntryKind.ADD, partition=partition, bucket=bucket, total_buckets=total, file=file
    )


def test_files_are_replayed_by_age_and_in_the_order_of_their_writer() -> None:
    names = [("data--u-x-s-7-w-u-10.avro", 5), ("data--u-x-s-7-w-u-9.avro", 5), ("data--u-x-s-3-w-u-0.avro", 5),
             ("data--u-y-s-9-w-u-0.avro", 4), ("strange.avro", 6)]  # fmt: skip
    entries = [entry(name, created) for name, created in names]
    entries += [entry("real", 1, bucket=0, total=4)]
    (only,) = plan_partitions(ManifestEntries.from_rows(entries), lambda rows: rows)
    assert [file.file_name for file in only.files] == [
        "data--u-y-s-9-w-u-0.avro", "data--u-x-s-3-w-u-0.avro", "data--u-x-s-7-w-u-9.avro",
        "data--u-x-s-7-w-u-10.avro", "strange.avro",
    ]  # fmt: skip
    assert (only.total_buckets, only.rows) == (4, 50)
    assert plan_partitions(ManifestEntries.from_rows(entries[-1:]), lambda rows: rows) == ()
    (new,) = plan_partitions(ManifestEntries.from_rows(entries[:2]), lambda rows: rows)
    assert new.total_buckets == 20


@pytest.mark.parametrize("user", ["me", "dag/task/run 1", "a-s-b", "-s-5-"])
def test_names_tell_the_writer_whatever_its_user_is_called(user: str) -> None:
    prefix = writer_prefix("data-", user, 42, "unique")
    assert "/" not in prefix
    assert prefix.split("-s-")[1].split("-")[0] == "42"


def waiting_table(name: str, **options: str) -> Table:
    table = key_table(memory_catalog(name), ("k INT", "v STRING", "n INT"), bucket="-2", **options)
    waiting = table.with_options({"postpone.batch-write-fixed-bucket": "false"})
    put(waiting, [{"k": k % 5, "v": str(k), "n": k} for k in range(20)], [{"k": 3, "v": None, "_kind": "-D"}])
    assert rows_of(table) == []
    return table


def compact(table: Table, **job: Any) -> Report:
    class Catalog(FilesystemCatalog):
        def load_table(self, name: str, options: Mapping[str, str] | None = None) -> Table:
            return table

    catalog = Catalog(
        table._stores.file_io, table._stores.paths.table_path.rpartition("/")[0], table._stores.clock
    )
    return run(Job(table=table.name, commit_user="me", **job), catalog, clock=table._stores.clock)


def test_new_partitions_get_buckets_for_their_rows() -> None:
    options = {"postpone.target-row-num-per-bucket": "8", "postpone.default-bucket-num": "5"}
    assert [new_buckets(options, rows) for rows in (None, 0, 8, 9, 21)] == [5, 1, 1, 2, 3]
    table = waiting_table("postponed-target", postpone__target_row_num_per_bucket="8")
    compact(table)
    live = table._scanner.live_entries(table._stores.snapshots.latest())
    assert set(live.total_buckets.tolist()) == {3}


def lose_a_row(rows: Rows) -> Rows:
    return Rows(rows.batch.slice(1), None if rows.kinds is None else rows.kinds[1:])


def turn_around(rows: Rows) -> Rows:
    order = pa.array(range(rows.batch.num_rows - 1, -1, -1))
    return Rows(rows.batch.take(order), None if rows.kinds is None else rows.kinds[::-1].copy())


def forget_kinds(rows: Rows) -> Rows:
    return Rows(rows.batch)


@pytest.mark.parametrize("damage", [lose_a_row, turn_around, forget_kinds])
def test_the_proof_stops_an_assignment_that_changes_rows(
    damage: Callable[[Rows], Rows], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = waiting_table("postponed-damage")
    honest = units._postponed_rows
    monkeypatch.setattr(units, "_postponed_rows", lambda *args: map(damage, honest(*args)))
    before = paths_of(table, "")
    with pytest.raises(ProofError, match="bucket-postpone"):
        compact(table, proof=ProofMode.FULL if damage is turn_around else ProofMode.KEYS)
    assert paths_of(table, "") == before
    monkeypatch.undo()
    report = compact(table, strategy=Strategy.FULL)
    placed, merged = report.proof.split("; sampled proof")
    assert "21 postponed rows = 5 keys + 16 older rows" in placed
    assert "the last row of every key" in placed
    assert "5 input rows = 4 output rows" in merged
    assert [row[0] for row in rows_of(table)] == [0, 1, 2, 4]
    assert compact(table).nothing_to_do


def test_the_proof_stops_an_assignment_to_other_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    table = waiting_table("postponed-places", postpone__default_bucket_num="3")
    before = paths_of(table, "")
    monkeypatch.setattr(writing, "assign_buckets", lambda *args: (assign_buckets(*args) + 1) % 3)
    with pytest.raises(ProofError, match=r"has rows of other buckets than \d"):
        compact(table)
    assert paths_of(table, "") == before


def test_a_large_partition_is_cut_by_buckets_and_proven_in_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "_UNIT_ROWS", 7)
    monkeypatch.setattr(proofs, "_MOST_ROWS", 3)
    table = waiting_table("postponed-cut", postpone__default_bucket_num="3")
    report = compact(table, strategy=Strategy.FULL)
    assert "21 postponed rows = 5 keys + 16 older rows" in report.proof
    assert [row[1:] for row in rows_of(table)] == [("15", 15), ("16", 16), ("17", 17), ("19", 19)]
    assert len({file.file_name.rpartition("-")[0] for file in live_files(table)}) > 1
    (whole,) = plan_partitions(ManifestEntries.from_rows([entry("a", 1)]), lambda rows: 64)
    large = replace(whole, files=(replace(whole.files[0], row_count=30_000_000),))
    monkeypatch.undo()
    assert [cut(one, idle) for one in (whole, large) for idle in (0, 4, 50)] == [1, 1, 1, 8, 8, 30]
    assert cut(replace(large, total_buckets=2), 50) == 2


def test_retractions_that_the_table_does_not_take_any_more_are_left_out() -> None:
    table = waiting_table("postponed-ignore").with_options({"ignore-delete": "true"})
    report = compact(table)
    assert "21 postponed rows = 5 keys + 15 older rows of these keys + 1 deletes" in report.proof
    assert [row[0] for row in rows_of(table)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({"merge_engine": "partial-update"}, [(3, "18", 18)]),
        ({"merge_engine": "aggregation", "fields__n__aggregate_function": "sum"}, [(3, "18", 42)]),
        ({"sequence_field": "n"}, [(3, "18", 18)]),
    ],
)
def test_other_ways_to_merge_are_obeyed(options: dict[str, str], rows: list[Any]) -> None:
    raw = {key.replace("sequence_field", "sequence__field"): value for key, value in options.items()}
    table = key_table(memory_catalog("postponed-engines"), ("k INT", "v STRING", "n INT"), bucket="-2", **raw)
    waiting = table.with_options({"postpone.batch-write-fixed-bucket": "false"})
    put(
        waiting, *([{"k": k % 5, "v": str(k), "n": k} for k in range(start, start + 10)] for start in (0, 10))
    )
    report = compact(table, strategy=Strategy.UNIVERSAL)
    assert "20 postponed rows = 5 keys + 15 older rows" in report.proof
    assert [row for row in rows_of(table) if row[0] == 3] == rows


def numbered_as_java(entries: ManifestEntries, *_: Any, **__: Any) -> ManifestEntries:
    """Java numbers postponed rows from the highest number of their bucket on, without regard to snapshots."""
    numbers = {"min_sequence_number": 100, "max_sequence_number": 104}
    rows = [
        replace(row, file=replace(row.file, **numbers)) if row.bucket == 0 else row for row in entries.rows()
    ]
    return ManifestEntries.from_rows(rows)


@pytest.mark.parametrize(
    ("stamps", "numbers"), [(None, [3, 4, 5, 7]), (numbered_as_java, [104, 105, 106, 107])]
)
def test_rows_written_after_an_assignment_come_after_it_whoever_made_it(
    monkeypatch: pytest.MonkeyPatch, stamps: Any, numbers: list[int]
) -> None:
    table = waiting_table("postponed-order", sequence__snapshot_ordering="true")
    waiting = table.with_options({"postpone.batch-write-fixed-bucket": "false"})
    monkeypatch.setattr(attempt, "with_snapshot_numbers", stamps or attempt.with_snapshot_numbers)
    compact(table)
    monkeypatch.undo()
    seen = [live_files(table)[0].max_sequence_number]
    for number in (1, 2):
        put(table, [{"k": 1, "v": "later", "n": number}])
        assert rows_of(table)[1] == (1, "later", number)
        seen.append(max(file.max_sequence_number for file in live_files(table)))
    put(waiting, [{"k": k, "v": "again", "n": 3} for k in range(2)])
    compact(table)
    assert [*seen, max(file.max_sequence_number for file in live_files(table))] == numbers
    assert rows_of(table) == [(0, "again", 3), (1, "again", 3), (2, "17", 17), (4, "19", 19)]


def test_a_dry_run_says_what_would_be_assigned() -> None:
    table = waiting_table("postponed-dry")
    report = compact(table, dry_run=True)
    assert report.planned == (
        "bucket-postpone: postponed rows are assigned to 1 bucket: merge 2 files, 21 rows",
    )
    assert rows_of(table) == []


def test_of_two_assignments_one_lands_and_the_other_does_what_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = waiting_table("postponed-race")
    honest = units._proven
    waiting = table.with_options({"postpone.batch-write-fixed-bucket": "false"})

    def meanwhile(*args: Any) -> Any:
        monkeypatch.setattr(units, "_proven", honest)
        compact(table, commit_identifier=500)
        put(waiting, [{"k": 77, "v": "late", "n": 1}])
        return honest(*args)

    monkeypatch.setattr(units, "_proven", meanwhile)
    report = compact(table)
    assert report.rows_in == 1
    assert [row[0] for row in rows_of(table)] == [0, 1, 2, 4, 77]
    assert all(file.level >= 0 and file.min_sequence_number >= 0 for file in live_files(table))
