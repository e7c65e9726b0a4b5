"""Compactions of append tables copy row groups where they may, decode the rest, and say which and why."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.compact.engine.outcome import Outcome, ProvenPick
from lakecore.compact.engine.work import Place, WorkPick
from lakecore.errors import CorruptDataError, NotFoundError
from lakecore.format.bounds import ColumnBounds
from lakecore.format.parquet.splice.footer import read_splice_footer
from lakecore.format.parquet.splice.mode import CopyMode
from lakecore.format.parquet.splice.reasons import SpliceReason
from lakecore.fs.local import LocalFileIO
from lakecore.fs.whole_file import BytesSource
from lakecore.jobs import compact
from lakecore.metadata.manifest.data_file import DataFile, FileSource
from lakecore.verify.digest.columns import StoredFile
from lakecore.verify.fsck.check import fsck
from lakecore.write.files import spliced
from lakecore.write.files.copy_plan import CopyCount, CopyInput, plan_copies
from lakecore.write.files.merged_bounds import MergedBounds
from lakecore.write.files.rolling import FileSpec
from tests.support.copied_table import NAME, ROWS, compacted, new_table, rows_of
from tests.support.lake import live_files
from tests.support.parquet_edits import edit_footer, flip_byte

SMALL = 100


def rows(catalog: FilesystemCatalog) -> pa.Table:
    return catalog.load_table(NAME).scan().to_arrow().sort_by("id")


def files(catalog: FilesystemCatalog) -> list[DataFile]:
    return sorted(live_files(catalog.load_table(NAME)), key=lambda file: file.min_sequence_number)


def paths(catalog: FilesystemCatalog) -> list[Path]:
    folder = Path(catalog.warehouse) / "d.db" / "t" / "bucket-0"
    return [folder / file.file_name for file in files(catalog)]


def check(catalog: FilesystemCatalog) -> None:
    table = catalog.load_table(NAME)
    report = fsck(
        table._stores.file_io, table._stores.paths, now_ms=catalog.clock.now_ms(), read_data=True, deep=True
    )
    assert report.damage == ()


@pytest.fixture
def both(tmp_path: Path) -> tuple[FilesystemCatalog, FilesystemCatalog]:
    """Two lakes with the same table."""
    return new_table(tmp_path / "a"), new_table(tmp_path / "b")


def test_copies_are_described_as_decoded_rows_are(
    both: tuple[FilesystemCatalog, FilesystemCatalog],
) -> None:
    copied, decoded = both
    assert compacted(copied).files_copied == 3
    assert compacted(decoded, CopyMode.NONE).files_copied == 0
    assert rows(copied).equals(rows(decoded))
    (one,), (other,) = files(copied), files(decoded)
    for name in ("row_count", "value_stats", "value_stats_cols", "min_sequence_number", "max_sequence_number",
                 "level", "schema_id", "file_source", "delete_row_count", "key_stats", "min_key", "write_cols"):  # fmt: skip
        assert getattr(one, name) == getattr(other, name), name
    assert pq.read_metadata(paths(copied)[0]).num_row_groups == 3
    check(copied)


def test_fixed_buckets_keep_the_order_of_rows(tmp_path: Path) -> None:
    catalog = new_table(tmp_path, files=4, options={"bucket": "1", "bucket-key": "id"})
    report = compacted(catalog)
    assert (report.files_copied, report.files_out) == (4, 1)
    read = catalog.load_table(NAME).scan().to_arrow()
    assert read["id"].to_pylist() == list(range(4 * ROWS))
    check(catalog)


def test_a_file_ends_behind_the_input_with_which_it_is_large_enough(tmp_path: Path) -> None:
    catalog = new_table(tmp_path, files=5, options={"bucket": "1", "bucket-key": "id"})
    size = files(catalog)[0].file_size
    target = {"target-file-size": f"{size * 3 // 2} b", "compaction.small-file-ratio": "1"}
    report = compacted(catalog, options=target)
    assert (report.files_copied, report.rows_copied) == (5, 5 * ROWS)
    assert [file.row_count for file in files(catalog)] == [2 * ROWS, 2 * ROWS, ROWS]
    check(catalog)


def test_small_files_between_large_ones_are_decoded(tmp_path: Path) -> None:
    many = ROWS * 3 // 2
    catalog = new_table(tmp_path, files=2, count=many, options={"bucket": "1", "bucket-key": "id"})
    table = catalog.load_table(NAME)
    for number in (2_000, 2_001):
        table.append(rows_of(number, SMALL))
    table.append(rows_of(3, many))
    report = compacted(catalog)
    assert (report.files_copied, report.rows_copied, report.files_out) == (3, 3 * many, 1)
    assert report.decoded_because == {SpliceReason.SMALL_GROUPS.value: 2}
    groups = pq.read_metadata(paths(catalog)[0])
    assert [groups.row_group(i).num_rows for i in range(4)] == [many, many, 2 * SMALL, many]
    found = catalog.load_table(NAME).scan().to_arrow()["id"].to_pylist()
    small = [one for number in (2_000, 2_001) for one in rows_of(number, SMALL)["id"].to_pylist()]
    assert found == [*range(2 * many), *small, *rows_of(3, many)["id"].to_pylist()]
    check(catalog)


def test_too_many_small_files_between_large_ones_let_all_be_decoded(tmp_path: Path) -> None:
    catalog = new_table(tmp_path, files=1, options={"bucket": "1", "bucket-key": "id"})
    table = catalog.load_table(NAME)
    for number in range(1, 4):
        table.append(rows_of(1000 + number, SMALL))
        table.append(rows_of(number))
    report = compacted(catalog)
    assert report.files_copied == 0
    assert report.decoded_because == {SpliceReason.SMALL_GROUPS.value: 3, SpliceReason.MIXED.value: 4}
    assert report.files_out == 1
    again = rows(catalog)
    assert again.num_rows == 4 * ROWS + 3 * SMALL


def test_all_sizes_are_copied_where_that_is_asked_for(tmp_path: Path) -> None:
    catalog = new_table(tmp_path, files=6, count=SMALL)
    assert compacted(catalog).files_copied == 0
    catalog = new_table(tmp_path / "b", files=6, count=SMALL)
    report = compacted(catalog, CopyMode.ALL)
    assert (report.files_copied, report.decoded_because) == (6, {})
    assert pq.read_metadata(paths(catalog)[0]).num_row_groups == 6
    check(catalog)


def test_deleted_rows_are_left_out(tmp_path: Path) -> None:
    catalog = new_table(tmp_path, options={"deletion-vectors.enabled": "true"})
    catalog.load_table(NAME).delete("id = 5")
    expected = rows(catalog)
    report = compacted(catalog)
    assert report.files_copied == 2
    assert report.decoded_because == {SpliceReason.DELETED_ROWS.value: 1}
    assert rows(catalog).equals(expected)
    assert expected.num_rows == 3 * ROWS - 1
    check(catalog)


REFUSED = {
    "another codec": ({"file.compression": "snappy"}, SpliceReason.OTHER_CODEC),
    "another format": ({"file.format": "orc"}, SpliceReason.NOT_PARQUET),
    "file indexes": ({"file-index.bloom-filter.columns": "id"}, SpliceReason.FILE_INDEXES),
}


@pytest.mark.parametrize("what", REFUSED)
def test_tables_whose_files_are_decoded(what: str, tmp_path: Path) -> None:
    options, reason = REFUSED[what]
    catalog = new_table(tmp_path)
    expected = rows(catalog)
    report = compacted(catalog, options=options)
    assert (report.files_copied, report.decoded_because) == (0, {reason.value: 3})
    assert rows(catalog).equals(expected)


def test_rows_with_ids_are_decoded(tmp_path: Path) -> None:
    catalog = new_table(tmp_path, options={"row-tracking.enabled": "true"})
    assert compacted(catalog).decoded_because == {SpliceReason.ROW_IDS.value: 3}


def test_files_of_other_columns_are_decoded(tmp_path: Path) -> None:
    catalog = new_table(tmp_path)
    catalog.alter_table(NAME, [{"op": "rename", "name": "name", "to": "title"}])
    table = catalog.load_table(NAME)
    for number in (3, 4):
        table.append(rows_of(number).rename_columns(["id", "title", "price", "amount", "tags"]))
    expected = rows(catalog)
    report = compacted(catalog)
    assert report.files_copied == 2
    assert report.decoded_because == {SpliceReason.OTHER_TABLE.value: 3}
    assert rows(catalog).equals(expected)
    check(catalog)


def test_files_of_an_older_schema_with_the_same_columns_are_copied(tmp_path: Path) -> None:
    catalog = new_table(tmp_path)
    catalog.alter_table(NAME, [{"op": "set", "key": "snapshot.num-retained.max", "value": "99"}])
    assert compacted(catalog).files_copied == 3
    assert {file.schema_id for file in files(catalog)} == {1}
    check(catalog)


def resized(catalog: FilesystemCatalog, path: Path, size: int) -> None:
    """Bytes of the same number as before: the manifest knows the size."""
    assert path.stat().st_size == size


def test_a_flipped_bit_is_found_and_nothing_is_committed(tmp_path: Path) -> None:
    """The checksum of the page is wrong: the file is decoded, which finds the same."""
    catalog = new_table(tmp_path)
    flip_byte(
        paths(catalog)[1], pq.read_metadata(paths(catalog)[1]).row_group(0).column(0).data_page_offset + 500
    )
    before = catalog.load_table(NAME).latest_snapshot()
    with pytest.raises(CorruptDataError):
        compacted(catalog)
    assert catalog.load_table(NAME).latest_snapshot() == before


def test_statistics_that_do_not_fit_the_footer_are_not_copied(tmp_path: Path) -> None:
    """The footer of a file has another minimum than its manifest entry: what is written is worked out anew."""
    catalog = new_table(tmp_path)
    path = paths(catalog)[0]

    def change(meta: object) -> None:
        from typing import cast

        from lakecore.format.parquet.thrift_compact import Field, Struct, WireType

        chunk = cast("Struct", meta)[4].value.values[0][1].value.values[0]
        for field in (2, 6):
            chunk[3].value[12].value[field] = Field(WireType.BINARY, (7).to_bytes(8, "little"))

    size = path.stat().st_size
    edit_footer(path, change)
    resized(catalog, path, size)
    report = compacted(catalog, proof=compact.ProofMode.KEYS)
    assert report.files_copied == 2
    assert report.decoded_because == {SpliceReason.STATISTICS.value: 1}
    check(catalog)


def test_pages_that_java_reads_wrongly_let_all_be_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakecore.format.parquet.splice.reasons import SpliceRefusal

    catalog = new_table(tmp_path)
    expected = rows(catalog)
    seen: list[object] = []

    def examine(source: object, footer: object) -> None:
        seen.append(footer)
        if len(seen) == 2:
            raise SpliceRefusal(SpliceReason.PLAIN_FIRST, "page at 4")

    monkeypatch.setattr(spliced, "examine_pages", examine)
    report = compacted(catalog)
    assert (report.files_copied, report.decoded_because) == (0, {SpliceReason.PLAIN_FIRST.value: 3})
    assert rows(catalog).equals(expected)
    folder = paths(catalog)[0].parent
    assert len(list(folder.iterdir())) == 3 + 1, "the copy that was begun is gone"


def test_a_file_that_was_opened_ahead_is_closed_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = new_table(tmp_path)
    folder = paths(catalog)[0].parent
    footers = [read_splice_footer(BytesSource(path.read_bytes()), str(path)) for path in paths(catalog)]
    monkeypatch.setattr("lakecore.fs.whole_file._SMALL", 0)  # each stays open

    def open_files() -> list[str]:
        names = [os.readlink(one.path) for one in os.scandir("/proc/self/fd") if os.path.lexists(one.path)]
        return [name for name in names if name.startswith(str(folder))]

    small = spliced.copy_sources(LocalFileIO(), footers, threads=2)
    assert next(small).footer is footers[0]
    assert len(open_files()) == 1, "small files of a local disk are read one after the other"
    small.close()
    monkeypatch.setattr(spliced, "_LEAST_AHEAD", 0)
    ahead = spliced.copy_sources(LocalFileIO(), footers, threads=2)
    assert next(ahead).footer is footers[0]
    deadline = time.monotonic() + 60
    while len(open_files()) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(open_files()) == 2, "the next file is read while the first one is written"
    ahead.close()
    assert open_files() == []


def test_large_row_groups_are_copied_by_default(tmp_path: Path) -> None:
    catalog = new_table(tmp_path, count=2 * ROWS)
    catalog.load_table(NAME).append(rows_of(2_000, SMALL))
    report = compact.run(compact.Job(table=NAME, strategy=compact.Strategy.FULL), catalog)
    assert (report.files_copied, report.decoded_because) == (3, {SpliceReason.SMALL_GROUPS.value: 1})


def test_none_turns_copies_off(tmp_path: Path) -> None:
    report = compacted(new_table(tmp_path), CopyMode.NONE)
    assert (report.files_copied, report.decoded_because, report.files_in) == (0, {}, 3)


def test_footers_of_small_files_are_not_read(tmp_path: Path) -> None:
    catalog = new_table(tmp_path, count=SMALL)
    table = catalog.load_table(NAME)
    inputs = [CopyInput(StoredFile("/no/such/file.parquet", file), table.schema) for file in files(catalog)]
    spec = FileSpec(
        directory="", name_prefix="", schema=table.schema, keyed=False, source=FileSource.COMPACT,
        target_size=1, options=table.schema.options,
    )  # fmt: skip
    assert set(plan_copies(catalog.file_io, spec, inputs, CopyMode.LARGE).parts) == {
        SpliceReason.SMALL_GROUPS
    }
    with pytest.raises(NotFoundError):
        plan_copies(catalog.file_io, spec, inputs, CopyMode.ALL)


def test_files_of_another_field_id_do_not_mix_with_rows_that_are_encoded(tmp_path: Path) -> None:
    from typing import cast

    from lakecore.format.parquet.thrift_compact import Field, Struct, WireType

    many = 2 * ROWS
    catalog = new_table(tmp_path, files=2, count=many, options={"bucket": "1", "bucket-key": "id"})
    for path in paths(catalog):
        size = path.stat().st_size
        edit_footer(
            path, lambda meta: cast("Struct", meta)[2].value.values[1].update({9: Field(WireType.I32, 50)})
        )
        resized(catalog, path, size)
    catalog.load_table(NAME).append(rows_of(5_000, SMALL))
    expected = rows(catalog)
    report = compacted(catalog)
    reasons = {SpliceReason.OTHER_SCHEMA.value: 2, SpliceReason.SMALL_GROUPS.value: 1}
    assert (report.files_copied, report.decoded_because) == (0, reasons)
    assert rows(catalog).equals(expected)


def test_a_file_of_another_size_than_its_entry_says_is_not_copied(tmp_path: Path) -> None:
    catalog = new_table(tmp_path)
    table = catalog.load_table(NAME)
    inputs = []
    for at, file in enumerate(files(catalog)):
        path = str(paths(catalog)[at])
        other = (file, replace(file, row_count=ROWS + 1), replace(file, file_size=7))[at]
        inputs.append(CopyInput(StoredFile(path, other), table.schema))
    spec = FileSpec(
        directory="", name_prefix="", schema=table.schema, keyed=False, source=FileSource.COMPACT,
        target_size=1, options=table.schema.options,
    )  # fmt: skip
    plan = plan_copies(catalog.file_io, spec, inputs, CopyMode.LARGE)
    assert [part if isinstance(part, SpliceReason) else None for part in plan.parts].count(
        SpliceReason.DAMAGED
    ) == 2


def test_counts_of_several_commits_are_added() -> None:
    one = ProvenPick(
        WorkPick(name="a", place=Place(b"", 0, 1), bucket_dir="d", reason="", replaced=()), (), None,
        copied=CopyCount(files=1, rows=5, bytes=9, decoded={"why": 1}),
    )  # fmt: skip
    outcome = Outcome().committed((one, one), (1,)).committed((one,), (2,))
    assert outcome.copied == CopyCount(files=3, rows=15, bytes=27, decoded={"why": 3})


def test_bounds_that_one_part_lacks_are_not_those_of_the_whole() -> None:
    merged = MergedBounds()
    merged.add(5, {"a": ColumnBounds(1, 4, 0), "b": ColumnBounds(1, 4, 0), "c": ColumnBounds(1, 4, 2)})
    merged.add(
        3, {"a": ColumnBounds(None, None, 3), "b": ColumnBounds(None, None, 0), "c": ColumnBounds(-1, 9, 1)}
    )
    assert merged.finish() == {
        "a": ColumnBounds(1, 4, 3),
        "b": ColumnBounds(None, None, 0),
        "c": ColumnBounds(-1, 9, 3),
    }
