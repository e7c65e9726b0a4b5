"""Merges by key copy files whose keys no other file of the merge has, and decode what must be merged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.commit.request import CommitRequest
from lakecore.compact.engine.work import UnitResult
from lakecore.compact.kinds.primary_key import copies, run
from lakecore.compact.kinds.primary_key.unit import MergeUnit
from lakecore.errors import CorruptDataError, ProofError
from lakecore.format.parquet.splice.mode import CopyMode
from lakecore.format.parquet.splice.reasons import SpliceReason, SpliceRefusal
from lakecore.jobs import compact
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.schema_change import SetOption
from lakecore.metadata.snapshot import BATCH_IDENTIFIER
from lakecore.row.binary_row import EMPTY_ROW
from lakecore.verify.digest.columns import read_covered
from lakecore.verify.fsck.check import fsck
from lakecore.verify.mode import ProofMode
from lakecore.verify.proof import outputs, pick_proof
from lakecore.verify.proof.spliced import SpliceOutput, check_row_groups
from lakecore.write.files import spliced
from tests.support.lake import live_files
from tests.support.parquet_edits import flip_byte

NAME = "d.k"
ROWS = 700


def new_table(folder: Path, **options: str) -> FilesystemCatalog:
    folder.mkdir(exist_ok=True)
    catalog = load_catalog(str(folder), **{"local.fsync": "false"})
    catalog.create_database("d")
    chosen = {"bucket": "1", "write-only": "true"} | {
        key.replace("_", "-"): value for key, value in options.items()
    }
    columns = ["k BIGINT NOT NULL", "s STRING", "x DOUBLE"]
    catalog.create_table(NAME, {"columns": columns, "primaryKeys": ["k"], "options": chosen})
    return catalog


def put(
    catalog: FilesystemCatalog, keys: Iterable[int], text: str, kinds: dict[int, str] | None = None
) -> None:
    numbers = list(keys)
    rows = pa.table(
        {
            "k": pa.array(numbers, pa.int64()),
            "s": pa.array([None if key % 9 == 0 else f"{text} {key % 30}" for key in numbers]),
            "x": pa.array([key / 8 for key in numbers], pa.float64()),
        }
    )
    if kinds is not None:
        rows = rows.append_column("_kind", pa.array([kinds.get(key, "+I") for key in numbers]))
    catalog.load_table(NAME).write(rows)


def disjoint(catalog: FilesystemCatalog, numbers: Iterable[int] = range(3)) -> None:
    for number in numbers:
        put(catalog, range(number * ROWS, (number + 1) * ROWS), f"file {number}")


def rows(catalog: FilesystemCatalog) -> pa.Table:
    return catalog.load_table(NAME).scan().to_arrow().sort_by("k")


def compacted(catalog: FilesystemCatalog, copy: CopyMode = CopyMode.ALL, **job: Any) -> compact.Report:
    return compact.run(
        compact.Job(table=NAME, copy=copy, **{"strategy": compact.Strategy.FULL, **job}), catalog
    )


def check(catalog: FilesystemCatalog) -> None:
    table = catalog.load_table(NAME)
    report = fsck(
        table._stores.file_io, table._stores.paths, now_ms=catalog.clock.now_ms(), read_data=True, deep=True
    )
    assert report.damage == ()


@pytest.mark.parametrize("mode", ProofMode)
def test_files_of_disjoint_keys_are_copied_and_described_as_merged_ones(
    mode: ProofMode, tmp_path: Path
) -> None:
    copied, merged = new_table(tmp_path / "a"), new_table(tmp_path / "b")
    for catalog in (copied, merged):
        disjoint(catalog)
    expected = rows(copied)
    report = compacted(copied, proof=mode)
    assert (report.files_copied, report.rows_copied, report.files_out) == (3, 3 * ROWS, 1)
    compacted(merged, CopyMode.NONE, proof=mode)
    (one,), (other,) = live_files(copied.load_table(NAME)), live_files(merged.load_table(NAME))
    for name in ("row_count", "min_key", "max_key", "key_stats", "value_stats", "value_stats_cols", "level",
                 "min_sequence_number", "max_sequence_number", "delete_row_count", "schema_id", "file_source"):  # fmt: skip
        assert getattr(one, name) == getattr(other, name), name
    assert rows(copied).equals(expected)
    check(copied)
    assert proven(copied) == proven(merged)


def proven(catalog: FilesystemCatalog) -> dict[str, str]:
    """What the latest snapshot says of the rows that were read and written: counts and digests."""
    latest = catalog.load_table(NAME).latest_snapshot()
    assert latest is not None
    found = {
        key: text for key, text in (latest.properties or {}).items() if key.startswith("lakecore.proof.")
    }
    assert len(found) == 5
    return found


def decoded_files(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of files whose columns the proof decodes as a whole, from now on."""
    names: list[str] = []
    for module in (pick_proof, outputs):

        def reading(file_io: Any, path: str, *rest: Any, **named: Any) -> Any:
            names.append(Path(path).name)
            return read_covered(file_io, path, *rest, **named)

        monkeypatch.setattr(module, "read_covered", reading)
    return names


@pytest.mark.parametrize("mode", ProofMode)
def test_rows_that_were_copied_are_decoded_once(
    mode: ProofMode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mode `full` decodes inputs and outputs; so do others where a part of a file was copied."""
    catalog = new_table(tmp_path)
    disjoint(catalog, range(3))
    put(catalog, range(ROWS + 5, 2 * ROWS - 5, 100), "late")
    inputs = sorted(live_files(catalog.load_table(NAME)), key=lambda one: one.min_sequence_number)
    names = decoded_files(monkeypatch)
    assert compacted(catalog, proof=mode).files_copied == 2
    (output,) = live_files(catalog.load_table(NAME))
    first, second, third, late = (file.file_name for file in inputs)
    both = [first, third] if mode is ProofMode.FULL else []
    assert sorted(names) == sorted([second, late, output.file_name, *both])


def test_files_of_an_older_schema_are_decoded_where_they_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their columns are found by their own schema."""
    catalog = new_table(tmp_path)
    disjoint(catalog, range(2))
    catalog.alter_table(NAME, [SetOption("snapshot.num-retained.min", "2")])
    disjoint(catalog, [2])
    inputs = sorted(live_files(catalog.load_table(NAME)), key=lambda one: one.min_sequence_number)
    names = decoded_files(monkeypatch)
    assert compacted(catalog).files_copied == 3
    (output,) = live_files(catalog.load_table(NAME))
    assert sorted(names) == sorted([file.file_name for file in inputs[:2]] + [output.file_name])


def test_a_damaged_input_is_named_and_not_its_copy(tmp_path: Path) -> None:
    """Without checksums of pages, only decoding shows that a key is damaged."""
    catalog = new_table(tmp_path)
    disjoint(catalog)
    table = catalog.load_table(NAME)
    file = min(live_files(table), key=lambda one: one.min_sequence_number)
    folder = Path(table.path) / "bucket-0"
    path = folder / file.file_name.replace("data-", "data-0", 1)
    rows = pq.read_table(folder / file.file_name, partitioning=None)
    pq.write_table(
        rows, path, compression="zstd", store_schema=False, write_page_index=True, use_dictionary=False
    )
    column = pq.read_metadata(path).row_group(0).column(0)
    assert column.path_in_schema == "_KEY_k"
    for back in range(20, 200):
        flip_byte(path, column.data_page_offset + column.total_compressed_size - back)
    message = CommitMessage(
        partition=EMPTY_ROW,
        bucket=0,
        total_buckets=1,
        compact_before=(file,),
        compact_after=(replace(file, file_name=path.name, file_size=path.stat().st_size),),
    )
    table._committer().commit([message], CommitRequest(user="forger", identifier=BATCH_IDENTIFIER))
    before = set(folder.iterdir())
    with pytest.raises(CorruptDataError) as caught:
        compacted(catalog, proof=ProofMode.KEYS)
    assert caught.value.path == str(path)
    assert set(folder.iterdir()) == before


def test_what_overlaps_is_merged_between_the_copies(tmp_path: Path) -> None:
    catalog = new_table(tmp_path)
    disjoint(catalog, range(4))
    put(catalog, range(ROWS + 5, 2 * ROWS - 5, 100), "late")
    put(catalog, [ROWS + 7], "gone", {ROWS + 7: "-D"})
    expected = rows(catalog)
    report = compacted(catalog)
    assert report.files_copied == 3
    assert report.decoded_because == {SpliceReason.OVERLAPS.value: 3}
    assert report.files_out == 1
    assert rows(catalog).equals(expected)
    assert expected.num_rows == 4 * ROWS - 1
    check(catalog)
    merged = new_table(tmp_path / "merged")
    disjoint(merged, range(4))
    put(merged, range(ROWS + 5, 2 * ROWS - 5, 100), "late")
    put(merged, [ROWS + 7], "gone", {ROWS + 7: "-D"})
    compacted(merged, CopyMode.NONE)
    assert proven(catalog) == proven(merged)


def test_deletes_are_dropped_and_files_that_are_decoded_lie_side_by_side(tmp_path: Path) -> None:
    catalog = new_table(tmp_path)
    disjoint(catalog, range(2))
    put(catalog, range(2 * ROWS, 3 * ROWS), "some gone", {2 * ROWS + 5: "-D"})
    disjoint(catalog, range(3, 4))
    put(catalog, range(3 * ROWS + 5, 4 * ROWS, 100), "late")
    expected = rows(catalog)
    report = compacted(catalog)
    assert report.files_copied == 2
    assert report.decoded_because == {SpliceReason.DELETES.value: 1, SpliceReason.OVERLAPS.value: 2}
    assert rows(catalog).equals(expected)
    (file,) = live_files(catalog.load_table(NAME))
    assert (file.row_count, file.delete_row_count) == (4 * ROWS - 1, 0)
    check(catalog)


def test_a_universal_compaction_copies_deletes_that_older_levels_need(tmp_path: Path) -> None:
    catalog = new_table(tmp_path, num_sorted_run_compaction_trigger="3")
    put(catalog, range(8 * ROWS), "old")
    compacted(catalog, CopyMode.NONE)
    for number in range(3):
        keys = range(number * ROWS, (number + 1) * ROWS)
        put(catalog, keys, "new", {number * ROWS + 1: "-D"})
    put(catalog, [2 * ROWS + 3], "gone", {2 * ROWS + 3: "-D"})
    expected = rows(catalog)
    report = compacted(
        catalog, strategy=compact.Strategy.UNIVERSAL,
        options={"num-sorted-run.compaction-trigger": "3", "compaction.max-size-amplification-percent": "10000"},
    )  # fmt: skip
    assert report.files_copied == 2
    assert sum(file.delete_row_count or 0 for file in live_files(catalog.load_table(NAME))) == 4
    assert rows(catalog).equals(expected)
    assert compacted(catalog).files_copied == 0
    assert rows(catalog).equals(expected)
    check(catalog)


MERGING = {
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {"merge-engine": "aggregation"},
    "first-row": {"merge-engine": "first-row"},
    "ignored deletes": {"ignore-delete": "true"},
    "changelog": {"changelog-producer": "full-compaction"},
    "deletion vectors": {"deletion-vectors.enabled": "true"},
    "record expiry": {"record-level.expire-time": "1000 d", "record-level.time-field": "k"},
}


@pytest.mark.parametrize("what", MERGING)
def test_tables_whose_rows_are_merged_or_looked_up_decode_all(what: str, tmp_path: Path) -> None:
    catalog = new_table(tmp_path, **MERGING[what])
    for number in range(2):
        put(catalog, range(number * 100, (number + 1) * 100), "x")
    assert compacted(catalog).files_copied == 0
    assert rows(catalog).num_rows == (0 if what == "record expiry" else 200)


def test_a_merge_of_which_little_could_be_copied_is_an_ordinary_one(tmp_path: Path) -> None:
    catalog = new_table(tmp_path)
    disjoint(catalog)
    put(catalog, range(0, 2 * ROWS, 2), "half")
    report = compacted(catalog)
    assert (report.files_copied, report.decoded_because) == (0, {})


def test_pages_that_are_not_as_they_should_let_all_be_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = new_table(tmp_path)
    disjoint(catalog)
    expected = rows(catalog)

    def examine(source: object, footer: object) -> None:
        raise SpliceRefusal(SpliceReason.PLAIN_FIRST)

    monkeypatch.setattr(spliced, "examine_pages", examine)
    report = compacted(catalog)
    assert (report.files_copied, report.decoded_because) == (0, {SpliceReason.PLAIN_FIRST.value: 3})
    assert rows(catalog).equals(expected)


@pytest.mark.parametrize(
    "wrong", [{"max_sequence_number": 5}, {"min_sequence_number": -1}, {"delete_row_count": 0}], ids=repr
)
def test_files_whose_entries_say_other_than_their_footers_are_decoded(
    wrong: dict[str, int], tmp_path: Path
) -> None:
    catalog = new_table(tmp_path)
    put(catalog, range(ROWS), "first", {ROWS - 1: "-D"} if "delete_row_count" in wrong else None)
    disjoint(catalog, range(1, 3))
    expected = rows(catalog)
    redescribe(catalog, **wrong)
    report = compacted(catalog)
    assert report.decoded_because == {SpliceReason.STATISTICS.value: 1}
    assert rows(catalog).equals(expected)
    (file,) = live_files(catalog.load_table(NAME))
    assert (file.min_sequence_number, file.max_sequence_number, file.delete_row_count) == (0, 3 * ROWS - 1, 0)


def redescribe(catalog: FilesystemCatalog, **wrong: int) -> None:
    """Commit the first file again, under another name, as something that it is not."""
    table = catalog.load_table(NAME)
    file = min(live_files(table), key=lambda one: one.min_sequence_number)
    folder = Path(table.path) / "bucket-0"
    other = replace(file, file_name=file.file_name.replace("data-", "data-0", 1), **wrong)
    (folder / other.file_name).write_bytes((folder / file.file_name).read_bytes())
    message = CommitMessage(
        partition=EMPTY_ROW, bucket=0, total_buckets=1, compact_before=(file,), compact_after=(other,)
    )
    table._committer().commit([message], CommitRequest(user="forger", identifier=BATCH_IDENTIFIER))


def test_a_writer_that_hides_what_it_copied_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row groups of unknown origin would be compared by keys and by the sample only."""
    catalog = new_table(tmp_path)
    disjoint(catalog)

    def check_groups(
        context: Any, unit: str, inputs: Any, outputs: list[SpliceOutput], copied: set[int]
    ) -> None:
        hidden = [SpliceOutput(one.stored, (None,) * len(one.origins)) for one in outputs]
        check_row_groups(context, unit, inputs, hidden, copied)

    monkeypatch.setattr(copies, "check_row_groups", check_groups)
    with pytest.raises(ProofError, match="other files than those to be copied"):
        compacted(catalog)


def test_bytes_that_differ_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value outside of the sample, in a column that the proof of keys does not read."""
    catalog = new_table(tmp_path)
    disjoint(catalog)

    def check_groups(
        context: Any, unit: str, inputs: Any, outputs: list[SpliceOutput], copied: set[int]
    ) -> None:
        path = Path(outputs[0].stored.path)
        flip_byte(path, pq.read_metadata(path).row_group(1).column(4).data_page_offset + 60)
        check_row_groups(context, unit, inputs, outputs, copied)

    monkeypatch.setattr(copies, "check_row_groups", check_groups)
    folder = Path(catalog.load_table(NAME).path) / "bucket-0"
    inputs, run_unit = set(folder.iterdir()), run.run_unit

    def watched(unit: MergeUnit) -> UnitResult:
        try:
            return run_unit(unit)
        finally:
            assert set(folder.iterdir()) == inputs, "the unit itself removes its files"

    monkeypatch.setattr(run, "run_unit", watched)
    with pytest.raises(ProofError, match="other bytes"):
        compacted(catalog, proof=ProofMode.KEYS)
