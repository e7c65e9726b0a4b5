"""Runs of pages that become row groups read as the rows that they had, and in doubt there are none."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakecore.format.parquet.footer_bytes import metadata_of
from lakecore.format.parquet.splice.chunk_pages import GroupPages, group_pages, read_indexes
from lakecore.format.parquet.splice.footer import Footer, PageRun, read_splice_footer
from lakecore.format.parquet.splice.groups_footer import groups_footer
from lakecore.format.parquet.splice.pages import examine_pages
from lakecore.format.parquet.splice.reasons import SpliceReason, SpliceRefusal
from lakecore.format.parquet.splice.schema import ValueOrder
from lakecore.format.parquet.splice.writer import SpliceWriter
from lakecore.verify.digest.page_runs import RunDifference, compare_run
from lakecore.verify.digest.row_groups import GroupPart, open_groups
from tests.lakecore.format.parquet.test_splice import STORAGE, table
from tests.support.parquet_edits import flip_byte, plain_before_dictionary

PAGE = 100
ROWS = 1000
USUAL: dict[str, Any] = {
    "compression": "zstd", "write_page_index": True, "write_page_checksum": True, "max_rows_per_page": PAGE,
    "write_batch_size": PAGE, "store_schema": False,
}  # fmt: skip


def pages_of(path: Path) -> tuple[Footer, GroupPages]:
    """The footer of a file of one row group, and its pages."""
    with STORAGE.open_ranges(str(path)) as source:
        footer = read_splice_footer(source, str(path))
        indexes = read_indexes(source, footer)
        assert indexes is not None
        pages = group_pages(indexes, footer, 0)
    assert pages is not None
    return footer, pages


def runs_of(path: Path, *spans: tuple[int, int]) -> Footer:
    """The footer, with these rows of the row group as row groups."""
    footer, pages = pages_of(path)
    return footer.with_groups(pages.run(*span) for span in spans)


def copied(out: Path, footer: Footer) -> Path:
    writer = SpliceWriter(STORAGE.open_output(str(out)))
    with STORAGE.open_ranges(footer.path) as source:
        writer.add(source, footer, examine_pages(source, footer))
    writer.close()
    return out


SHAPES: dict[str, dict[str, Any]] = {
    "dictionaries": {},
    "plain": {"use_dictionary": False},
    "version 2": {"data_page_version": "2.0"},
    "no compression": {"compression": "none"},
    "no checksums": {"write_page_checksum": False},
    "a dictionary that becomes too large": {"dictionary_pagesize_limit": 1500},
    "differences": {
        "use_dictionary": False,
        "column_encoding": {"id": "DELTA_BINARY_PACKED", "name": "DELTA_BYTE_ARRAY"},
    },
}


@pytest.mark.parametrize("shape", SHAPES)
def test_runs_read_as_their_rows(shape: str, tmp_path: Path) -> None:
    """The proof, which knows nothing of the writer, agrees; so do pyarrow's footer and its checks of pages."""
    path, rows = tmp_path / "source", table(rows=ROWS)
    pq.write_table(rows, path, **(USUAL | SHAPES[shape]))
    starts = pages_of(path)[1].starts
    spans = [(0, starts[3]), (starts[3], starts[4]), (starts[-3], ROWS)]
    footer = runs_of(path, *spans)
    out = copied(tmp_path / "out", footer)
    file = pq.ParquetFile(out, page_checksum_verification=True)
    for number, (start, stop) in enumerate(spans):
        assert file.read_row_group(number).equals(rows.slice(start, stop - start))
    with open_groups(STORAGE, str(path)) as source, open_groups(STORAGE, str(out)) as written:
        for number, span in enumerate(spans):
            assert compare_run(source, GroupPart(0, span), written, number) != zlib.crc32(b"")
        with pytest.raises(RunDifference):
            compare_run(source, GroupPart(0, (starts[4], starts[5])), written, 1)
    stated = metadata_of(groups_footer(footer))
    assert stated.num_rows == footer.rows == file.metadata.num_rows
    for number, (start, stop) in enumerate(spans):
        assert stated.row_group(number).num_rows == stop - start
        assert stated.row_group(number).column(0).num_values == stop - start
        before, after = (one.row_group(number).column(0).statistics for one in (stated, file.metadata))
        assert (before.min, before.max, before.null_count) == (after.min, after.max, after.null_count)


def test_a_copy_of_runs_can_be_copied_again(tmp_path: Path) -> None:
    path, rows = tmp_path / "source", table(rows=ROWS)
    pq.write_table(rows, path, **USUAL)
    once = copied(tmp_path / "once", runs_of(path, (200, 800)))
    twice = copied(tmp_path / "twice", runs_of(once, (100, 300)))
    assert pq.read_table(twice).equals(rows.slice(300, 200))


def test_a_run_begins_where_pages_of_all_columns_do(tmp_path: Path) -> None:
    path = tmp_path / "source"
    pq.write_table(table(rows=ROWS), path, **USUAL)
    _, pages = pages_of(path)
    assert pages.starts == list(range(0, ROWS, PAGE))
    for span in ((50, 200), (0, 150), (0, ROWS + 1)):
        with pytest.raises(ValueError, match="not in tuple"):
            pages.run(*span)


def test_a_flipped_bit_of_a_page_is_found_if_the_run_has_it(tmp_path: Path) -> None:
    path = tmp_path / "source"
    pq.write_table(table(rows=ROWS), path, **USUAL)
    run = runs_of(path, (0, 500)).groups[0].runs[0]
    flip_byte(path, run.places[4][0] + run.places[4][1] - 9)
    with pytest.raises(SpliceRefusal) as refused:
        copied(tmp_path / "out", runs_of(path, (0, 500)))
    assert refused.value.reason is SpliceReason.CHECKSUM
    copied(tmp_path / "other", runs_of(path, (500, 1000)))


def test_plain_pages_before_coded_ones_are_refused(tmp_path: Path) -> None:
    """Java reads other values of them, without an error. Each half of such a chunk is a good run."""
    path = tmp_path / "mixed"
    rows = plain_before_dictionary(path, PAGE)
    with STORAGE.open_ranges(str(path)) as source:
        footer = read_splice_footer(source, str(path))
        pages = _places(path, footer)
        group = footer.groups[0]
        for places, reason in ((pages, SpliceReason.PLAIN_FIRST), (pages[1:], None), (pages[:1], None)):
            first = places[0][2]
            moved = tuple((offset, size, row - first) for offset, size, row in places)
            run = PageRun(moved, EMPTY_INDEX, b"\0")
            part = group.__class__(group.fields, PAGE * len(places), group.chunks, (run,))
            if reason is None:
                out = copied(tmp_path / f"out-{first}-{len(places)}", footer.with_groups([part]))
                assert pq.read_table(out).equals(rows.slice(first, PAGE * len(places)))
                continue
            with pytest.raises(SpliceRefusal) as refused:
                examine_pages(source, footer.with_groups([part]))
            assert refused.value.reason is reason


EMPTY_INDEX = b"\0"


def _places(path: Path, footer: Footer) -> tuple[tuple[int, int, int], ...]:
    """The two data pages of the file, one of each encoding."""
    chunk = footer.groups[0].chunks[0]
    body = path.read_bytes()[chunk.data_page : chunk.stop]
    half = next(size for size in range(1, len(body)) if _is_page(body[:size]) and _is_page(body[size:]))
    return (chunk.data_page, half, 0), (chunk.data_page + half, len(body) - half, PAGE)


def _is_page(data: bytes) -> bool:
    from lakecore.format.parquet.thrift_compact import decode_leading_struct

    try:
        header, size = decode_leading_struct(data)
    except ValueError:
        return False
    return 3 in header and size + header[3].value == len(data)


def test_bounds_compare_as_their_values() -> None:
    assert ValueOrder.INTEGER.rank(b"\xff\xff") == -1
    assert ValueOrder.INTEGER.rank(b"\x00\x01") == 256
    assert ValueOrder.DECIMAL.rank(b"\xff\x00") == -256
    assert ValueOrder.BOOLEAN.rank(b"\xff") == 255


def test_bounds_of_text_and_floats_are_not_those_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "source"
    rows = pa.table(
        {"x": [1.5] * ROWS, "s": ["text"] * ROWS, "u": pa.array([1] * ROWS, pa.uint32()), "n": [1] * ROWS}
    )
    pq.write_table(rows, path, **USUAL)
    out = copied(tmp_path / "out", runs_of(path, (0, 500)))
    group = pq.read_metadata(out).row_group(0)
    assert [group.column(leaf).statistics.has_min_max for leaf in range(4)] == [False, False, False, True]
    assert [group.column(leaf).statistics.null_count for leaf in range(4)] == [0] * 4
