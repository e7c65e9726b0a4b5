"""Merges by key copy row groups of a large file, where no other file of the merge has a key, and merge the rest."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.commit.request import CommitRequest
from lakecore.compact.kinds.primary_key import copies, run
from lakecore.errors import ProofError
from lakecore.format.parquet import layout
from lakecore.format.parquet.splice.mode import CopyMode
from lakecore.format.parquet.splice.reasons import SpliceReason
from lakecore.jobs import compact
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.manifest.data_file import EMPTY_STATS, DataFile
from lakecore.metadata.snapshot import BATCH_IDENTIFIER
from lakecore.read.file.key_blocks import KeyBlock, KeyBlocks, in_key_order
from lakecore.read.file.key_range import KeyRange
from lakecore.row.binary_row import EMPTY_ROW
from lakecore.types.datatypes import DataField, RowType
from lakecore.verify.contents.footer_stats import float_problems
from lakecore.verify.digest.row_groups import GroupPart
from lakecore.verify.fsck.check import fsck
from lakecore.verify.mode import ProofMode
from lakecore.verify.proof.spliced import SpliceOutput, check_row_groups
from lakecore.write.files import copied_groups
from tests.support.lake import live_files
from tests.support.parquet_edits import flip_byte

NAME = "d.k"
GROUP = 100
ROWS = 10 * GROUP
COLUMNS = ("k BIGINT NOT NULL", "s STRING", "x DOUBLE", "n INT", "tags ARRAY<INT>")


@pytest.fixture(autouse=True)
def _small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "_ROW_GROUP_ROWS", GROUP)


def new_table(folder: Path, columns: Iterable[str] = COLUMNS, **options: str) -> FilesystemCatalog:
    folder.mkdir(exist_ok=True)
    catalog = load_catalog(str(folder), **{"local.fsync": "false"})
    catalog.create_database("d")
    chosen = {"bucket": "1", "write-only": "true", "lakecore.commit.settle-time": "1 ms"}
    chosen |= {key.replace("_", "-"): value for key, value in options.items()}
    catalog.create_table(NAME, {"columns": list(columns), "primaryKeys": ["k"], "options": chosen})
    return catalog


def batch(keys: Iterable[int], text: str) -> pa.Table:
    """Rows of these keys, which are doubled: there is room between them."""
    numbers = [2 * key for key in keys]
    floats = [math.nan if key % 1000 == 40 else -0.0 if key % 300 == 0 else key / 8 for key in numbers]
    return pa.table(
        {
            "k": pa.array(numbers, pa.int64()),
            "s": pa.array([None if key % 9 == 0 else f"{text} {key % 30}" for key in numbers]),
            "x": pa.array(floats, pa.float64()),
            "n": pa.array([None if key % 7 == 0 else key % 400 for key in numbers], pa.int32()),
            "tags": pa.array([[key % 3] * (key % 3) for key in numbers], pa.list_(pa.int32())),
        }
    )


def put(
    catalog: FilesystemCatalog, keys: Iterable[int], text: str, kinds: Mapping[int, str] | None = None
) -> None:
    rows = batch(keys, text)
    if kinds is not None:
        found = [kinds.get(key, "+I") for key in rows.column("k").to_pylist()]
        rows = rows.append_column("_kind", pa.array(found))
    catalog.load_table(NAME).write(rows)


def with_late_rows(
    folder: Path, late: Iterable[int] = range(720, 760, 3), **options: str
) -> FilesystemCatalog:
    """A file of ten row groups, and one with updates of the eighth."""
    catalog = new_table(folder, **options)
    put(catalog, range(ROWS), "old")
    put(catalog, late, "late")
    return catalog


def lines(catalog: FilesystemCatalog) -> list[str]:
    return sorted(map(repr, catalog.load_table(NAME).scan().to_arrow().to_pylist()))


def compacted(catalog: FilesystemCatalog, copy: CopyMode = CopyMode.ALL, **job: Any) -> compact.Report:
    return compact.run(
        compact.Job(table=NAME, copy=copy, **{"strategy": compact.Strategy.FULL, **job}), catalog
    )


def check(catalog: FilesystemCatalog) -> None:
    stores = catalog.load_table(NAME)._stores
    report = fsck(stores.file_io, stores.paths, now_ms=catalog.clock.now_ms(), read_data=True, deep=True)
    assert report.damage == ()


@pytest.mark.parametrize("mode", ProofMode)
def test_row_groups_without_late_rows_are_copied(mode: ProofMode, tmp_path: Path) -> None:
    catalog = with_late_rows(tmp_path)
    expected = lines(catalog)
    report = compacted(catalog, proof=mode)
    assert (report.files_copied, report.rows_copied, report.files_out) == (1, 9 * GROUP, 1)
    assert report.rows_in == ROWS + 14
    assert report.decoded_because == {SpliceReason.OVERLAPS.value: 1}
    assert lines(catalog) == expected
    check(catalog)


def test_the_new_file_is_described_as_a_merged_one_is(tmp_path: Path) -> None:
    copied, merged = with_late_rows(tmp_path / "a"), with_late_rows(tmp_path / "b")
    compacted(copied)
    compacted(merged, CopyMode.NONE)
    (one,), (other,) = live_files(copied.load_table(NAME)), live_files(merged.load_table(NAME))
    for name in ("row_count", "min_key", "max_key", "key_stats", "value_stats", "value_stats_cols", "level",
                 "min_sequence_number", "max_sequence_number", "delete_row_count", "schema_id", "file_source"):  # fmt: skip
        assert getattr(one, name) == getattr(other, name), name


PLACES = {
    "first": (range(0, 40, 3), 9),
    "last": (range(960, 1000, 3), 9),
    "last and behind all": (range(ROWS - 5, ROWS + 50), 9),
    "first row of a group": ([300], 9),
    "last row of a group": ([299], 9),
    "two apart": ([150, 850], 8),
    "before and within": ([-5, 550], 9),
}


@pytest.mark.parametrize("where", PLACES)
def test_late_rows_in_any_place(where: str, tmp_path: Path) -> None:
    late, groups = PLACES[where]
    catalog = with_late_rows(tmp_path, late)
    expected = lines(catalog)
    assert compacted(catalog).rows_copied == groups * GROUP
    assert lines(catalog) == expected
    check(catalog)


def test_a_key_between_two_row_groups_counts_for_the_one_before(tmp_path: Path) -> None:
    catalog = with_late_rows(tmp_path)
    catalog.load_table(NAME).write(pa.table({"k": pa.array([2 * 499 + 1], pa.int64()), "s": ["between"]}))
    expected = lines(catalog)
    assert compacted(catalog).rows_copied == 8 * GROUP
    assert lines(catalog) == expected


def test_deletes_take_their_rows_away(tmp_path: Path) -> None:
    catalog = with_late_rows(tmp_path)
    put(catalog, [730, 333], "gone", {2 * 730: "-D", 2 * 333: "-D"})
    expected = lines(catalog)
    report = compacted(catalog)
    assert report.rows_copied == 8 * GROUP
    assert len(expected) == ROWS - 2
    assert lines(catalog) == expected
    (file,) = live_files(catalog.load_table(NAME))
    assert (file.row_count, file.delete_row_count) == (ROWS - 2, 0)
    check(catalog)


@pytest.mark.parametrize(
    "strategy", [compact.Strategy.FULL, compact.Strategy.UNIVERSAL], ids=lambda one: one.value
)
def test_row_groups_of_a_file_with_deletes_are_decoded(strategy: compact.Strategy, tmp_path: Path) -> None:
    """Which row group has the delete is not known: with it in a copy it would come to the last level, or be counted
    nowhere."""
    catalog = new_table(tmp_path, num_sorted_run_compaction_trigger="2")
    put(catalog, range(8 * ROWS), "oldest")
    compacted(catalog, CopyMode.NONE)
    put(catalog, range(ROWS), "old", {2 * 5: "-D"})
    put(catalog, range(720, 760), "late")
    expected = lines(catalog)
    size = {"compaction.max-size-amplification-percent": "10000", "num-sorted-run.compaction-trigger": "2"}
    report = compacted(catalog, strategy=strategy, options=size)
    kept = 0 if strategy is compact.Strategy.FULL else 1
    assert sum(file.delete_row_count or 0 for file in live_files(catalog.load_table(NAME))) == kept
    assert report.rows_copied in (0, 7 * ROWS)  # of the oldest file
    assert lines(catalog) == expected
    check(catalog)


def test_uniform_updates_decode_all(tmp_path: Path) -> None:
    catalog = with_late_rows(tmp_path, range(0, ROWS, 50))
    expected = lines(catalog)
    report = compacted(catalog)
    assert (report.files_copied, report.rows_copied, report.decoded_because) == (0, 0, {})
    assert lines(catalog) == expected


def test_where_half_of_the_row_groups_have_late_rows_the_rest_is_not_copied(tmp_path: Path) -> None:
    catalog = with_late_rows(tmp_path, range(0, 6 * GROUP, GROUP // 2))
    assert compacted(catalog).rows_copied == 0


def test_small_row_groups_are_copied_only_if_all_are(tmp_path: Path) -> None:
    assert compacted(with_late_rows(tmp_path), CopyMode.LARGE).rows_copied == 0


def test_a_merge_that_is_cut_copies_the_row_groups_of_each_share(tmp_path: Path) -> None:
    from tests.lakecore.compact.test_cut import Cores

    catalog = with_late_rows(tmp_path, target_file_size="2 kb")
    expected = lines(catalog)
    engine = Cores(2)
    report = compact.run(
        compact.Job(table=NAME, copy=CopyMode.ALL, strategy=compact.Strategy.FULL), catalog, engine
    )
    assert len(engine.units) > 1
    assert report.rows_copied >= 6 * GROUP
    assert report.rows_in == ROWS + 14
    assert lines(catalog) == expected
    check(catalog)


def test_several_files_of_the_largest_run(tmp_path: Path) -> None:
    """A file with deletes between the two others is decoded, and a late row behind it belongs to it."""
    catalog = new_table(tmp_path)
    put(catalog, range(ROWS), "first")
    put(catalog, range(ROWS, ROWS + GROUP), "second", {2 * (ROWS + 5): "-D"})
    put(catalog, range(ROWS + 2 * GROUP, 2 * ROWS), "third")
    put(catalog, [50, ROWS + 50, ROWS + GROUP + 50, 2 * ROWS - 5], "late")
    expected = lines(catalog)
    report = compacted(catalog)
    assert report.rows_copied == 9 * GROUP + 7 * GROUP
    assert lines(catalog) == expected
    check(catalog)


def test_keys_of_several_columns(tmp_path: Path) -> None:
    catalog = load_catalog(str(tmp_path), **{"local.fsync": "false"})
    catalog.create_database("d")
    columns = ["a INT NOT NULL", "b STRING NOT NULL", "v INT"]
    options = {"bucket": "1", "write-only": "true", "lakecore.commit.settle-time": "1 ms"}
    catalog.create_table(NAME, {"columns": columns, "primaryKeys": ["a", "b"], "options": options})
    for keys, value in ((range(ROWS), 1), ([*range(0, ROWS, ROWS - 1), 444], 2)):
        rows = {
            "a": pa.array([key // 250 for key in keys], pa.int32()),
            "b": [f"ключ {key:05}" for key in keys],
        }
        catalog.load_table(NAME).write(pa.table(rows | {"v": pa.array([value] * len(keys), pa.int32())}))
    expected = lines(catalog)
    assert compacted(catalog).rows_copied == 7 * GROUP
    assert lines(catalog) == expected
    check(catalog)


def rewrite(catalog: FilesystemCatalog, *, late: bool = False, **options: Any) -> None:
    """Write the large file anew with pyarrow, or the one with late rows, and commit it in its place."""
    table = catalog.load_table(NAME)
    file = sorted(live_files(table), key=lambda one: one.row_count)[0 if late else -1]
    folder = Path(table.path) / "bucket-0"
    rows = pq.read_table(folder / file.file_name, partitioning=None)
    name = file.file_name.replace("data-", "data-0", 1)
    chosen = {"compression": "zstd", "row_group_size": GROUP, "store_schema": False, "write_page_index": True}
    pq.write_table(rows, folder / name, **(chosen | options))
    replaced(catalog, file, folder / name)


def replaced(catalog: FilesystemCatalog, file: DataFile, path: Path) -> None:
    other = replace(file, file_name=path.name, file_size=path.stat().st_size)
    message = CommitMessage(
        partition=EMPTY_ROW, bucket=0, total_buckets=1, compact_before=(file,), compact_after=(other,)
    )
    table = catalog.load_table(NAME)
    table._committer().commit([message], CommitRequest(user="forger", identifier=BATCH_IDENTIFIER))


LEAVES = ["_KEY_k", "_SEQUENCE_NUMBER", "_VALUE_KIND", "k", "s", "x", "n", "tags.list.element"]
DOUBTS: dict[str, dict[str, Any]] = {
    "no statistics": {"write_statistics": False},
    "no sequence numbers": {"write_statistics": [name for name in LEAVES if name != "_SEQUENCE_NUMBER"]},
    "no bounds of a number": {"write_statistics": [name for name in LEAVES if name != "n"]},
    "no page index": {"write_page_index": False},
    "no page index of the late rows": {"late": True, "write_page_index": False},
}


@pytest.mark.parametrize("doubt", DOUBTS)
def test_in_doubt_row_groups_are_decoded(doubt: str, tmp_path: Path) -> None:
    catalog = with_late_rows(tmp_path)
    expected = lines(catalog)
    rewrite(catalog, **DOUBTS[doubt])
    assert compacted(catalog).rows_copied == 0
    assert lines(catalog) == expected
    check(catalog)


def test_bounds_of_text_and_floats_are_those_of_the_whole_file_where_footers_lack_them(
    tmp_path: Path,
) -> None:
    catalog = with_late_rows(tmp_path)
    rewrite(catalog, write_statistics=[name for name in LEAVES if name not in ("s", "x")])
    before = max(live_files(catalog.load_table(NAME)), key=lambda one: one.row_count)
    assert compacted(catalog).rows_copied == 9 * GROUP
    (after,) = live_files(catalog.load_table(NAME))
    assert after.value_stats.max_values[-40:] == before.value_stats.max_values[-40:]
    check(catalog)


def test_statistics_that_lie_do_not_decide(tmp_path: Path) -> None:
    """The eighth row group, which has late rows, claims keys that none of them has."""
    catalog = with_late_rows(tmp_path)
    expected = lines(catalog)
    table = catalog.load_table(NAME)
    file = max(live_files(table), key=lambda one: one.row_count)
    folder = Path(table.path) / "bucket-0"
    data = (folder / file.file_name).read_bytes()
    begin = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    footer = data[begin:]
    for key, lie in ((2 * 700, 2 * 600), (2 * 799, 2 * 699)):
        assert footer.count(key.to_bytes(8, "little")) >= 2
        footer = footer.replace(key.to_bytes(8, "little"), lie.to_bytes(8, "little"))
    other = folder / file.file_name.replace("data-", "data-0", 1)
    other.write_bytes(data[:begin] + footer)
    replaced(catalog, file, other)
    assert compacted(catalog, proof=ProofMode.FULL).rows_copied == 9 * GROUP
    assert lines(catalog) == expected
    check(catalog)


def test_a_damaged_page_index_lets_all_be_merged(tmp_path: Path) -> None:
    catalog = with_late_rows(tmp_path)
    expected = lines(catalog)
    table = catalog.load_table(NAME)
    file = max(live_files(table), key=lambda one: one.row_count)
    path = Path(table.path) / "bucket-0" / file.file_name
    data = path.read_bytes()
    index = data.rindex(b"\x19", 0, len(data) - 8 - int.from_bytes(data[-8:-4], "little"))
    path.write_bytes(data[:index] + b"\x1a" + data[index + 1 :])
    assert compacted(catalog, proof=ProofMode.KEYS).rows_copied in (0, 9 * GROUP)
    assert lines(catalog) == expected


KEY_TYPE = RowType((DataField.from_json({"id": 0, "name": "k", "type": "BIGINT NOT NULL"}),))


def free_ranges(
    low: int | None, high: int | None, *batches: list[int], copied: int = 4
) -> list[tuple[int, int]]:
    """The free blocks of a run that begin at 0, 10, 20, …, where others have these keys; [] where that does not pay."""
    blocks = [KeyBlock(0, number if number < copied else None, (10 * number,), 1) for number in range(4)]
    bounds = KeyRange(None if low is None else (low,), None if high is None else (high,))
    free = KeyBlocks(blocks, bounds, KEY_TYPE)
    for keys in batches:
        free.mark(pa.record_batch({"k": pa.array(keys, pa.int64())}))
    return [(part.start, part.stop) for part in free.ranges()] if free.has_half else []


@pytest.mark.parametrize(
    ("low", "high", "batches", "expected"),
    [
        pytest.param(None, None, [], [(0, 4)], id="nobody else"),
        pytest.param(None, None, [[-1, 10, 19]], [(0, 1), (2, 4)], id="first and last key of a block"),
        pytest.param(None, None, [[9], [30]], [(1, 3)], id="between blocks, and in the last"),
        pytest.param(None, None, [[100]], [(0, 3)], id="behind the last"),
        pytest.param(None, None, [[0, 11, 25]], [], id="too few are left"),
        pytest.param(10, 30, [], [(1, 3)], id="bounds where blocks begin"),
        pytest.param(5, 30, [], [(1, 3)], id="a lower bound within a block"),
        pytest.param(5, 31, [], [(1, 3)], id="an upper bound within a block"),
        pytest.param(5, None, [], [(1, 4)], id="no upper bound"),
        pytest.param(35, None, [], [], id="no block within"),
    ],
)
def test_free_blocks(
    low: int | None, high: int | None, batches: list[list[int]], expected: list[tuple[int, int]]
) -> None:
    assert free_ranges(low, high, *batches) == expected


def test_files_that_are_decoded_are_no_free_blocks() -> None:
    assert free_ranges(None, None, copied=2) == [(0, 2)]
    assert free_ranges(None, None, copied=1) == []


def test_a_bound_of_fewer_columns_ends_before_blocks_that_it_may_cut() -> None:
    """A share that ends before all keys of (1, …) does not have the block that begins before (1, 5)."""
    two = RowType((*KEY_TYPE.fields, DataField.from_json({"id": 1, "name": "l", "type": "BIGINT NOT NULL"})))
    blocks = [KeyBlock(0, number, key, 1) for number, key in enumerate([(0, 0), (0, 5), (1, 5)])]
    assert KeyBlocks(blocks, KeyRange(None, (1,)), two).ranges() == (range(1),)
    assert KeyBlocks(blocks, KeyRange(None, (1, 5)), two).ranges() == (range(2),)
    assert KeyBlocks(blocks, KeyRange((0,), None), two).ranges() == (range(3),)


def test_blocks_must_be_in_key_order() -> None:
    blocks = [KeyBlock(0, number, (key,), 1) for number, key in enumerate([0, 10, 10])]
    assert in_key_order(blocks[:2])
    assert not in_key_order(blocks)


def claims(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """Let the proof see other claims: `change` makes them of the outputs and of the row groups to be copied."""

    def check_groups(
        context: Any,
        unit: str,
        inputs: Any,
        outputs: list[SpliceOutput],
        copied: dict[int, tuple[GroupPart, ...]],
    ) -> None:
        check_row_groups(context, unit, inputs, *change(outputs, copied))

    monkeypatch.setattr(copies, "check_row_groups", check_groups)


WRONG_CLAIMS: dict[str, tuple[Any, str]] = {
    "another row group": (lambda out, to: (out, {n: (*g[:3], GroupPart(7), *g[4:]) for n, g in to.items()}), "another"),
    "one more": (lambda out, to: (out, {n: (*g, GroupPart(7)) for n, g in to.items()}), "not every row group"),
    "one that is not there": (lambda out, to: (out, {n: (*g[:-1], GroupPart(10)) for n, g in to.items()}), "other row groups"),
    "one less": (lambda out, to: (out, {n: g[:-1] for n, g in to.items()}), "no further one"),
    "a hidden one": (
        lambda out, to: ([SpliceOutput(one.stored, (None, *one.origins[1:])) for one in out], to),
        "another|not every row group",
    ),
}  # fmt: skip


@pytest.mark.parametrize("claim", WRONG_CLAIMS)
def test_the_proof_refuses_other_row_groups_than_those_of_the_plan(
    claim: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change, problem = WRONG_CLAIMS[claim]
    claims(monkeypatch, change)
    with pytest.raises(ProofError, match=problem):
        compacted(with_late_rows(tmp_path))


def test_the_proof_compares_the_bytes_of_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(outputs: list[SpliceOutput], copied: Any) -> Any:
        path = Path(outputs[0].stored.path)
        flip_byte(path, pq.read_metadata(path).row_group(8).column(4).data_page_offset + 40)
        return outputs, copied

    claims(monkeypatch, spoil)
    with pytest.raises(ProofError, match="other bytes"):
        compacted(with_late_rows(tmp_path), proof=ProofMode.KEYS)


def test_steps_out_of_order_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys of copied row groups are read for the proof, and compared with those of the merges around them."""
    plan = run.planned_copies

    def wrong(unit: Any) -> Any:
        found = plan(unit)
        return replace(found, steps=tuple(reversed(found.steps)))

    monkeypatch.setattr(run, "planned_copies", wrong)
    with pytest.raises(ProofError):
        compacted(with_late_rows(tmp_path))


def test_the_proof_refuses_bounds_of_floats_that_leave_nan_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copied_groups, "_with_recorded", lambda stated, whole, rows: stated)
    with pytest.raises(ProofError, match="statistics of column x do not enclose"):
        compacted(with_late_rows(tmp_path), proof=ProofMode.KEYS)


def test_bounds_of_floats_need_bounds_of_the_whole_file(tmp_path: Path) -> None:
    table = with_late_rows(tmp_path).load_table(NAME)
    file = max(live_files(table), key=lambda one: one.row_count)
    without = replace(file, value_stats=EMPTY_STATS, value_stats_cols=())
    assert list(float_problems(file, table.schema, [(file, table.schema)])) == []
    assert len(list(float_problems(file, table.schema, [(without, table.schema)]))) == 1
