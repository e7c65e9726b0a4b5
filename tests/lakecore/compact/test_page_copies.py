"""Merges by key copy runs of pages of a large row group, where no other file of the merge has a key."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.compact.kinds.primary_key import copies
from lakecore.errors import ProofError
from lakecore.format.parquet.splice.mode import CopyMode
from lakecore.format.parquet.splice.rules import block_rows, divides_into_runs, is_large_run
from lakecore.format.parquet.thrift_compact import Field, Struct, ThriftList, WireType
from lakecore.verify.digest.row_groups import GroupPart
from lakecore.verify.mode import ProofMode
from lakecore.verify.proof.spliced import SpliceOutput, check_row_groups
from tests.lakecore.compact import test_group_copies as groups
from tests.support.lake import live_files
from tests.support.parquet_edits import edit_footer, flip_byte

NAME = groups.NAME
PAGE = 50
ROWS = groups.ROWS
ONE_GROUP: dict[str, Any] = {
    "row_group_size": ROWS, "max_rows_per_page": PAGE, "write_batch_size": PAGE, "write_page_checksum": True,
}  # fmt: skip


def with_pages(folder: Path, late: Any = range(720, 740, 3), **shape: Any) -> FilesystemCatalog:
    """A file of one row group of twenty pages, and one with updates of the fifteenth."""
    catalog = groups.new_table(folder)
    groups.put(catalog, range(ROWS), "old")
    groups.rewrite(catalog, **(ONE_GROUP | shape))
    groups.put(catalog, late, "late")
    return catalog


def file_path(catalog: FilesystemCatalog) -> Path:
    (file,) = live_files(catalog.load_table(NAME))
    return Path(catalog.load_table(NAME).path) / "bucket-0" / file.file_name


def group_rows(path: Path) -> list[int]:
    metadata = pq.read_metadata(path)
    return [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]


@pytest.mark.parametrize(
    ("mode", "version"), [(mode, "1.0") for mode in ProofMode] + [(ProofMode.FULL, "2.0")]
)
def test_runs_of_pages_without_late_rows_are_copied(mode: ProofMode, version: str, tmp_path: Path) -> None:
    catalog = with_pages(tmp_path, data_page_version=version)
    expected = groups.lines(catalog)
    report = groups.compacted(catalog, proof=mode)
    assert report.rows_copied == ROWS - PAGE
    assert report.files_copied == 1
    assert group_rows(file_path(catalog)) == [14 * PAGE, PAGE, 5 * PAGE]
    assert groups.lines(catalog) == expected
    groups.check(catalog)


@pytest.mark.parametrize(
    ("late", "rows"),
    [
        pytest.param([0], [PAGE, ROWS - PAGE], id="the first row"),
        pytest.param([ROWS - 1], [ROWS - PAGE, PAGE], id="the last row"),
        pytest.param([PAGE - 1, PAGE], [2 * PAGE, ROWS - 2 * PAGE], id="both sides of a page"),
        pytest.param([-1], [1, ROWS], id="before all"),
        pytest.param([100, 500], [100, 50, 350, 50, 450], id="two pages"),
    ],
)
def test_late_rows_in_any_page(late: list[int], rows: list[int], tmp_path: Path) -> None:
    catalog = with_pages(tmp_path, late)
    expected = groups.lines(catalog)
    groups.compacted(catalog)
    assert group_rows(file_path(catalog)) == rows
    assert groups.lines(catalog) == expected
    groups.check(catalog)


def test_statistics_of_a_run_are_those_of_its_values(tmp_path: Path) -> None:
    """Bounds of numbers are values of the run, text and floats have none; null counts are right, and page indexes too."""
    catalog = with_pages(tmp_path)
    groups.compacted(catalog)
    path = file_path(catalog)
    file = pq.ParquetFile(path)
    for number in range(file.metadata.num_row_groups):
        rows = file.read_row_group(number)
        group = file.metadata.row_group(number)
        for leaf in range(group.num_columns):
            column = group.column(leaf)
            if column.path_in_schema not in rows.column_names or number == 1:
                continue
            values = rows[column.path_in_schema]
            assert column.statistics.null_count == values.null_count
            assert column.statistics.has_min_max == pa.types.is_integer(values.type)
            if pa.types.is_integer(values.type):
                found = [value for value in values.to_pylist() if value is not None]
                assert (column.statistics.min, column.statistics.max) == (min(found), max(found))
            assert column.has_column_index
            assert column.has_offset_index
            assert column.num_values == len(values)
    assert file.read().num_rows == ROWS


TYPES: dict[str, tuple[str, pa.DataType, Callable[[int], Any]]] = {
    "flag": ("BOOLEAN", pa.bool_(), lambda n: n % 3 == 0),
    "small": ("TINYINT", pa.int8(), lambda n: n % 250 - 125),
    "day": ("DATE", pa.date32(), lambda n: date(1950, 1, 1) + timedelta(days=40 * n)),
    "at": (
        "TIMESTAMP(6)",
        pa.timestamp("us"),
        lambda n: datetime.fromisoformat("1960-01-01") + timedelta(hours=n * 900),
    ),
    "cents": ("DECIMAL(9, 2)", pa.decimal128(9, 2), lambda n: Decimal(n - 500) / 4),
    "units": ("DECIMAL(18, 2)", pa.decimal128(18, 2), lambda n: Decimal(n - 500) * 10**9),
    "huge": ("DECIMAL(30, 2)", pa.decimal128(30, 2), lambda n: Decimal(n - 500) * 10**20),
    "data": ("BYTES", pa.binary(), lambda n: bytes([n % 256, 255])),
}


def test_runs_of_every_type(tmp_path: Path) -> None:
    """Bounds of the new file enclose its values; columns have pages of nulls only."""
    columns = ["k BIGINT NOT NULL", *(f"{name} {kind}" for name, (kind, _, _) in TYPES.items())]
    catalog = groups.new_table(tmp_path, columns)
    keys = list(range(0, 2 * ROWS, 2))

    def put(numbers: list[int]) -> None:
        found = {
            name: pa.array([None if 300 <= n < 500 or n % 7 == 0 else make(n) for n in numbers], kind)
            for name, (_, kind, make) in TYPES.items()
        }
        catalog.load_table(NAME).write(pa.table({"k": pa.array(numbers, pa.int64()), **found}))

    put(keys)
    dictionaries = [name for name in TYPES if name != "huge"]  # of long decimals they are not copied
    groups.rewrite(catalog, **ONE_GROUP, store_decimal_as_integer=True, use_dictionary=dictionaries)
    put([1501, 1502])
    expected = groups.lines(catalog)
    assert groups.compacted(catalog, proof=ProofMode.FULL).rows_copied == ROWS - PAGE
    assert groups.lines(catalog) == expected
    groups.check(catalog)


DOUBTS: dict[str, dict[str, Any]] = {
    "no page index": {"write_page_index": False},
    "pages begin at other rows": {"max_rows_per_page": 20_000, "data_page_size": 3900},
    "no statistics of text": {"write_statistics": [name for name in groups.LEAVES if name != "s"]},
}


@pytest.mark.parametrize("doubt", DOUBTS)
def test_in_doubt_the_row_group_is_decoded(doubt: str, tmp_path: Path) -> None:
    catalog = with_pages(tmp_path, **DOUBTS[doubt])
    expected = groups.lines(catalog)
    assert groups.compacted(catalog).rows_copied == 0
    assert groups.lines(catalog) == expected
    groups.check(catalog)


def chunk_of(leaf: int, group: int = 0) -> Callable[[Struct], Struct]:
    def chunk(meta: Struct) -> Struct:
        found: Struct = meta[4].value.values[group]
        inner: Struct = found[1].value.values[leaf]
        return inner

    return chunk


FOOTERS: dict[str, Callable[[Struct], None]] = {
    "other nulls": lambda meta: chunk_of(5)(meta)[3].value[12].value.update({3: Field(WireType.I64, 1)}),
    "other bounds": lambda meta: (
        chunk_of(6)(meta)[3]
        .value[12]
        .value.update({6: Field(WireType.BINARY, (-9).to_bytes(4, "little", signed=True))})
    ),
    "bounds that are cut": lambda meta: (
        chunk_of(6)(meta)[3].value[12].value.update({8: Field(WireType.FALSE, False)})
    ),
    "notes of a chunk": lambda meta: chunk_of(4)(meta)[3].value.update(
        {8: Field(WireType.LIST, ThriftList(WireType.STRUCT, [{1: Field(WireType.BINARY, b"note")}]))}
    ),
    "another column index": lambda meta: chunk_of(0)(meta).update(
        {6: chunk_of(1)(meta)[6], 7: chunk_of(1)(meta)[7]}
    ),
    "another offset index": lambda meta: chunk_of(0)(meta).update(
        {4: chunk_of(1)(meta)[4], 5: chunk_of(1)(meta)[5]}
    ),
}


@pytest.mark.parametrize("edit", FOOTERS)
def test_indexes_that_do_not_fit_the_footer(edit: str, tmp_path: Path) -> None:
    catalog = groups.new_table(tmp_path)
    groups.put(catalog, range(ROWS), "old")
    groups.rewrite(catalog, **ONE_GROUP)
    (file,) = live_files(catalog.load_table(NAME))
    path = file_path(catalog)
    other = path.with_name(path.name.replace("data-", "data-1", 1))
    other.write_bytes(path.read_bytes())
    edit_footer(other, FOOTERS[edit])
    groups.replaced(catalog, file, other)
    groups.put(catalog, range(720, 740, 3), "late")
    assert groups.compacted(catalog, proof=ProofMode.KEYS).rows_copied == 0


def test_small_runs_are_not_worth_a_row_group(tmp_path: Path) -> None:
    assert groups.compacted(with_pages(tmp_path), copy=CopyMode.LARGE).rows_copied == 0
    assert is_large_run(40_000, 1, 0, small_groups=False)
    assert is_large_run(1, 16 << 20, 4 << 20, small_groups=False)
    assert not is_large_run(39_999, 16 << 20 - 1, 0, small_groups=False)
    assert not is_large_run(1, 16 << 20, (4 << 20) + 1, small_groups=False)
    assert is_large_run(1, 1, 1, small_groups=True)


def test_large_row_groups_are_divided_into_blocks() -> None:
    assert divides_into_runs(3_000_000, 100 << 20, 800 << 20, small_groups=False)
    assert not divides_into_runs(3_000_000, 100 << 20, 801 << 20, small_groups=False)
    assert not divides_into_runs(79_999, 1 << 20, 1 << 20, small_groups=False)
    assert block_rows(3_000_000, small_groups=False) == 11_718
    assert block_rows(640_000, small_groups=False) == 10_000
    assert block_rows(6_400, small_groups=False) == 100
    assert block_rows(6_400, small_groups=True) == block_rows(10, small_groups=False) == 1


def claims(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """Let the proof see other outputs, or another plan of what is copied."""

    def check(context: Any, unit: str, inputs: Any, outputs: list[SpliceOutput], copied: Any) -> Any:
        return check_row_groups(context, unit, inputs, *change(outputs, copied))

    monkeypatch.setattr(copies, "check_row_groups", check)


def plan(*parts: GroupPart) -> Callable[[Any, Any], Any]:
    return lambda outputs, copied: (outputs, dict.fromkeys(copied, parts))


OTHER_PLANS = {
    "other pages": (plan(GroupPart(0, (50, 750)), GroupPart(0, (750, 1000))), "offset index|other bytes"),
    "fewer rows": (plan(GroupPart(0, (0, 650)), GroupPart(0, (750, 1000))), "instead of"),
    "no pages": (plan(GroupPart(0, (1, 701)), GroupPart(0, (750, 1000))), "no pages that begin and end"),
    "rows that are not there": (plan(GroupPart(0, (0, 700)), GroupPart(0, (750, 1001))), "other row groups"),
    "one more": (
        plan(GroupPart(0, (0, 700)), GroupPart(0, (750, 1000)), GroupPart(0, (700, 750))),
        "not every row group",
    ),
    "a whole row group": (plan(GroupPart(0), GroupPart(0, (750, 1000))), "instead of"),
}


@pytest.mark.parametrize("claim", OTHER_PLANS)
def test_the_proof_refuses_other_pages_than_those_of_the_plan(
    claim: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change, problem = OTHER_PLANS[claim]
    claims(monkeypatch, change)
    with pytest.raises(ProofError, match=problem):
        groups.compacted(with_pages(tmp_path))


def inner(meta: Struct, leaf: int, group: int = 2) -> Struct:
    found: Struct = chunk_of(leaf, group)(meta)[3].value
    return found


FORGERIES: dict[str, Callable[[Struct], Any]] = {
    "a bound": lambda meta: inner(meta, 6)[12].value.update({6: Field(WireType.BINARY, b"\1\0\0\0")}),
    "a bound of text": lambda meta: inner(meta, 4)[12].value.update({6: Field(WireType.BINARY, b"a")}),
    "a null count": lambda meta: inner(meta, 4)[12].value.update({3: Field(WireType.I64, 0)}),
    "an old bound": lambda meta: inner(meta, 6)[12].value.update({2: Field(WireType.BINARY, b"\0\0\0\0")}),
    "values": lambda meta: inner(meta, 7).update({5: Field(WireType.I64, 5 * PAGE)}),
    "bytes before compression": lambda meta: inner(meta, 6).update({6: Field(WireType.I64, 7)}),
    "encodings": lambda meta: inner(meta, 6).update(
        {2: Field(WireType.LIST, ThriftList(WireType.I32, [0, 3]))}
    ),
    "a count of pages": lambda meta: inner(meta, 6)[13].value.values[0].update({3: Field(WireType.I32, 9)}),
    "another column index": lambda meta: chunk_of(3, 2)(meta).update(
        {6: chunk_of(6, 2)(meta)[6], 7: chunk_of(6, 2)(meta)[7]}
    ),
    "the column index of another run": lambda meta: chunk_of(6, 2)(meta).update(
        {6: chunk_of(6, 0)(meta)[6], 7: chunk_of(6, 0)(meta)[7]}
    ),
    "another offset index": lambda meta: chunk_of(3, 2)(meta).update(
        {4: chunk_of(6, 2)(meta)[4], 5: chunk_of(6, 2)(meta)[5]}
    ),
    "no offset index": lambda meta: (chunk_of(3, 2)(meta).pop(4), chunk_of(3, 2)(meta).pop(5)),
    "another codec": lambda meta: inner(meta, 6).update({4: Field(WireType.I32, 1)}),
    "a bloom filter": lambda meta: inner(meta, 6).update({14: Field(WireType.I64, 4)}),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_the_proof_compares_all_that_the_new_footer_says_of_a_run(
    forgery: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil(outputs: list[SpliceOutput], copied: Any) -> Any:
        path = Path(outputs[0].stored.path)
        size = path.stat().st_size
        edit_footer(path, FORGERIES[forgery])
        monkeypatch.setattr("lakecore.verify.proof.spliced.check_size", lambda *_: None)
        assert path.stat().st_size - size < 1000
        return outputs, copied

    claims(monkeypatch, spoil)
    with pytest.raises(
        ProofError, match=r"than the pages of it that were copied|no pages that begin|cannot be"
    ):
        groups.compacted(with_pages(tmp_path), proof=ProofMode.KEYS)


def test_the_proof_compares_the_bytes_of_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(outputs: list[SpliceOutput], copied: Any) -> Any:
        path = Path(outputs[0].stored.path)
        flip_byte(path, pq.read_metadata(path).row_group(2).column(4).data_page_offset + 40)
        return outputs, copied

    claims(monkeypatch, spoil)
    with pytest.raises(ProofError, match="other bytes"):
        groups.compacted(with_pages(tmp_path), proof=ProofMode.KEYS)


def test_runs_of_coded_and_of_plain_pages(tmp_path: Path) -> None:
    """The dictionary of a column becomes too large within the row group: runs behind that have no dictionary."""
    catalog = with_pages(tmp_path, range(300, 310), dictionary_pagesize_limit=600, use_dictionary=["k", "n"])
    expected = groups.lines(catalog)
    report = groups.compacted(catalog, proof=ProofMode.FULL)
    assert report.rows_copied == ROWS - PAGE
    metadata = pq.read_metadata(file_path(catalog))
    columns = [metadata.row_group(number).column(3) for number in range(3)]
    assert [column.has_dictionary_page for column in columns] == [True, False, False]
    assert columns[0].encodings != columns[2].encodings
    assert groups.lines(catalog) == expected
    groups.check(catalog)
