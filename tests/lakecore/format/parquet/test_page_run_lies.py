"""Page indexes that do not say what the footer says make no runs of pages, and the proof notices whatever a copy of a run says
otherwise than its pages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakecore.format.parquet.splice import chunk_pages
from lakecore.format.parquet.splice import fields as f
from lakecore.format.parquet.splice.chunk_pages import PageIndexes, group_pages, read_indexes
from lakecore.format.parquet.splice.footer import Chunk, Footer, read_splice_footer
from lakecore.format.parquet.thrift_compact import Field, ThriftList, WireType, decode_struct, encode_struct
from lakecore.verify.digest import page_runs
from lakecore.verify.digest.page_runs import RunDifference, compare_run
from lakecore.verify.digest.row_groups import ColumnFacts, GroupPart, StoredGroups, open_groups
from tests.lakecore.format.parquet.test_page_runs import PAGE, ROWS, USUAL, copied, runs_of
from tests.lakecore.format.parquet.test_splice import STORAGE, table

NULL_PAGES, LOWS, HIGHS, ORDER, NULL_COUNTS = 1, 2, 3, 4, 5
OFFSETS, BOUNDS = f.CHUNK_OFFSET_INDEX, f.CHUNK_COLUMN_INDEX
ID, NAME = 0, 1
"""The leaves of the table: one of numbers, whose bounds are values, and one of text."""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of one row group with pages of 100 rows."""
    path = tmp_path_factory.mktemp("runs") / "source"
    pq.write_table(table(rows=ROWS), path, **USUAL)
    return path


def indexes_of(path: Path) -> tuple[Footer, PageIndexes]:
    with STORAGE.open_ranges(str(path)) as ranges:
        footer = read_splice_footer(ranges, str(path))
        indexes = read_indexes(ranges, footer)
    assert indexes is not None
    return footer, indexes


class ChangedIndexes:
    """The page indexes of a file, of which one index of one column is changed."""

    def __init__(self, indexes: PageIndexes, chunk: Chunk, field: int, change: Callable[[Any], None]) -> None:
        self.indexes, self.chunk, self.field, self.change = indexes, chunk, field, change

    def read(self, chunk: Chunk, offset: int, length: int) -> bytes | None:
        data = self.indexes.read(chunk, offset, length)
        if chunk is not self.chunk or offset != self.field or data is None:
            return data
        index = decode_struct(data)
        self.change(index)
        return encode_struct(index)


def set_to(field: int, *values: Any) -> Callable[[Any], None]:
    """Change the first elements of a list."""

    def change(index: Any) -> None:
        part = index[field].value
        index[field] = Field(WireType.LIST, ThriftList(part.type, [*values, *part.values[len(values) :]]))

    return change


def first_page(field: int, value: int) -> Callable[[Any], None]:
    """Change a number of the first page of an offset index."""

    def change(index: Any) -> None:
        page = index[1].value.values[0]
        page[field] = (
            Field(page[field].type, page[field].value + value)
            if field in page
            else Field(WireType.I64, value)
        )

    return change


def without_one(field: int) -> Callable[[Any], None]:
    def change(index: Any) -> None:
        part = index[field].value
        index[field] = Field(WireType.LIST, ThriftList(part.type, part.values[1:]))

    return change


LIES: dict[str, tuple[int, int, Callable[[Any], None]]] = {
    "another number of nulls": (ID, BOUNDS, set_to(NULL_COUNTS, 1)),
    "impossible numbers of nulls": (ID, BOUNDS, set_to(NULL_COUNTS, 1, -1)),
    "another bound": (ID, BOUNDS, set_to(LOWS, (-7).to_bytes(8, "little", signed=True))),
    "bounds of fewer pages": (NAME, BOUNDS, without_one(LOWS)),
    "pages that do not begin with the rows": (ID, OFFSETS, first_page(3, 5)),
    "pages that begin elsewhere": (ID, OFFSETS, first_page(1, 1)),
}


def test_indexes_that_say_the_truth(source: Path) -> None:
    footer, indexes = indexes_of(source)
    chunk = footer.groups[0].chunks[ID]
    changed: Any = ChangedIndexes(indexes, chunk, BOUNDS, lambda index: None)
    assert group_pages(changed, footer, 0) is not None


@pytest.mark.parametrize("lie", LIES)
def test_indexes_that_contradict_the_footer_or_each_other(source: Path, lie: str) -> None:
    footer, indexes = indexes_of(source)
    leaf, field, change = LIES[lie]
    changed: Any = ChangedIndexes(indexes, footer.groups[0].chunks[leaf], field, change)
    assert group_pages(changed, footer, 0) is None


def test_what_a_footer_says_of_a_whole_chunk_only(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    footer, indexes = indexes_of(source)
    group = footer.groups[0]
    first = group.chunks[ID]
    for meta in (f.META_BLOOM_FILTER, f.META_NOTES):
        chunk = replace(first, meta={**first.meta, meta: first.meta[f.META_DATA_PAGE]})
        other = replace(footer, groups=(replace(group, chunks=(chunk, *group.chunks[1:])),))
        assert group_pages(indexes, other, 0) is None
    monkeypatch.setattr(chunk_pages, "has_exact_bounds", lambda stated: False)
    assert group_pages(indexes, footer, 0) is None


def test_page_indexes_that_are_too_large_or_outside_of_the_data(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    footer, _ = indexes_of(source)
    with STORAGE.open_ranges(str(source)) as ranges:
        assert read_indexes(ranges, replace(footer, data_end=10)) is None
        monkeypatch.setattr(chunk_pages, "_MOST_BYTES", 10)
        assert read_indexes(ranges, footer) is None


class ChangedGroups:
    """The row groups of a file, of which one column, or the number of rows, is changed."""

    def __init__(
        self, groups: StoredGroups, change: Callable[[ColumnFacts], ColumnFacts], rows: int = 0
    ) -> None:
        self.groups, self.change, self.rows, self.flipped = groups, change, rows, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.groups, name)

    def group(self, number: int) -> Any:
        facts = self.groups.group(number)
        columns = (self.change(facts.columns[0]), *facts.columns[1:])
        return facts._replace(rows=facts.rows + self.rows, columns=columns)

    def read(self, start: int, size: int) -> bytes:
        data = self.groups.read(start, size)
        return data[:-1] + bytes([data[-1] ^ 1]) if self.flipped else data


def in_bounds(field: int, *values: Any) -> Callable[[ColumnFacts], ColumnFacts]:
    def change(facts: ColumnFacts) -> ColumnFacts:
        index = decode_struct(facts.bounds or b"")
        if field == ORDER:
            index[ORDER] = Field(index[ORDER].type, index[ORDER].value + 1)
        else:
            set_to(field, *values)(index)
        return facts._replace(bounds=encode_struct(index))

    return change


def in_kind(place: int) -> Callable[[ColumnFacts], ColumnFacts]:
    def change(facts: ColumnFacts) -> ColumnFacts:
        kind = list(facts.kind)
        kind[place] += 1
        return facts._replace(kind=tuple(kind))

    return change


def described(field: int, change: Callable[[list[Any]], None]) -> Callable[[ColumnFacts], ColumnFacts]:
    """Change a list of the description of the chunk."""

    def changed(facts: ColumnFacts) -> ColumnFacts:
        whole = decode_struct(b"\x19" + facts.description[field] + b"\0")
        part = whole[1].value
        values = list(part.values)
        change(values)
        data = encode_struct({1: Field(WireType.LIST, ThriftList(part.type, values))})[1:-1]
        return facts._replace(description={**facts.description, field: data})

    return changed


def other_nulls(facts: ColumnFacts) -> ColumnFacts:
    stated = {**decode_struct(facts.description[12]), 3: Field(WireType.I64, 5)}
    return facts._replace(description={**facts.description, 12: encode_struct(stated)})


def shift_pages(facts: ColumnFacts) -> ColumnFacts:
    pages = list(facts.pages or ())
    pages[1] = (*pages[1][:2], pages[1][2] + 10)
    return facts._replace(pages=tuple(pages))


def count_more(values: list[Any]) -> None:
    values[0] = {**values[0], 3: Field(values[0][3].type, values[0][3].value + 1)}


FALSE_COPIES: dict[str, Callable[[ColumnFacts], ColumnFacts]] = {
    "offset index": shift_pages,
    "column index of bounds": in_bounds(HIGHS, (1).to_bytes(8, "little")),
    "column index of the order": in_bounds(ORDER),
    "type, codec or size": in_kind(3),
    "number of values": in_kind(2),
    "size before compression": in_kind(4),
    "null count or bounds": other_nulls,
    "list of encodings": described(2, lambda values: values.append(7)),
    "count of pages by encoding": described(13, count_more),
}


@pytest.mark.parametrize("lie", FALSE_COPIES)
def test_the_proof_notices_what_a_copy_says_otherwise(source: Path, lie: str, tmp_path: Path) -> None:
    written: Any = None
    out = copied(tmp_path / "out", runs_of(source, (0, 3 * PAGE)))
    with open_groups(STORAGE, str(source)) as before, open_groups(STORAGE, str(out)) as after:
        part = GroupPart(0, (0, 3 * PAGE))
        written = ChangedGroups(after, lambda facts: facts)
        compare_run(before, part, written, 0)
        written = ChangedGroups(after, FALSE_COPIES[lie])
        with pytest.raises(
            RunDifference, match=lie.split(" of ")[0] if lie.startswith("column index") else lie
        ):
            compare_run(before, part, written, 0)


def test_the_proof_notices_other_bytes_and_rows(source: Path, tmp_path: Path) -> None:
    out = copied(tmp_path / "out", runs_of(source, (0, 3 * PAGE)))
    with open_groups(STORAGE, str(source)) as before, open_groups(STORAGE, str(out)) as after:
        part = GroupPart(0, (0, 3 * PAGE))
        written: Any = ChangedGroups(after, lambda facts: facts, rows=1)
        with pytest.raises(RunDifference, match="rows instead of"):
            compare_run(before, part, written, 0)
        written = ChangedGroups(after, lambda facts: facts)
        written.flipped = True
        with pytest.raises(RunDifference, match="other bytes"):
            compare_run(before, part, written, 0)
        both: Any = ChangedGroups(before, shift_pages), ChangedGroups(after, shift_pages)
        with pytest.raises(RunDifference, match="number of rows of a page"):
            compare_run(both[0], part, both[1], 0)


def test_bounds_of_pages_with_nulls_only_do_not_count(tmp_path: Path) -> None:
    rows = pa.table({"n": pa.array([None] * PAGE + [*range(5, 5 + PAGE)], pa.int64())})
    path = tmp_path / "nulls"
    pq.write_table(rows, path, **USUAL)
    out = copied(tmp_path / "out", runs_of(path, (0, 2 * PAGE)))
    stated = pq.read_metadata(out).row_group(0).column(0).statistics
    assert (stated.min, stated.max, stated.null_count) == (5, 4 + PAGE, PAGE)


def header(kind: int, encoding: int) -> page_runs._Header:
    """The header of a page of 100 values in 20 bytes: a dictionary (7) or a page of data (5)."""
    inner = {1: Field(WireType.I32, PAGE), 2: Field(WireType.I32, encoding)}
    numbers = {1: {7: 2, 5: 0}[kind], 2: 30, 3: 10}
    fields = {number: Field(WireType.I32, value) for number, value in numbers.items()}
    return page_runs._Header({**fields, kind: Field(WireType.STRUCT, inner)}, 10)


@pytest.mark.parametrize(
    ("encodings", "problem"),
    [((8, 0), None), ((0, 8), "order of plain pages"), ((0, 0), "dictionary")],
    ids=["plain pages follow", "plain pages come first", "a dictionary that no page needs"],
)
def test_the_proof_notices_pages_in_an_order_that_java_reads_wrongly(
    encodings: tuple[int, ...], problem: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_runs, "_compare_totals", lambda *_: None)
    pages = ((20, 20, 0), (40, 20, PAGE))
    facts = ColumnFacts("x", (), (20, None), None, pages, b"\0", b"", {})
    column = page_runs._Column(facts, facts, (0, 2), (0, 2 * PAGE))
    headers = [header(7, 0), *(header(5, encoding) for encoding in encodings)]
    if problem is None:
        page_runs._compare_headers(column, headers, repeated=False)
        return
    with pytest.raises(RunDifference, match=problem):
        page_runs._compare_headers(column, headers, repeated=False)
