"""Windows of a sampled merge of which row groups were copied: most are of merged rows, one is of copied rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.compact.kinds.primary_key import copies
from lakecore.errors import ProofError
from lakecore.format.parquet import layout
from lakecore.format.parquet.splice.mode import CopyMode
from lakecore.jobs import compact
from lakecore.verify.sample import merge_sample
from lakecore.verify.sample.choice import KeyWindow, RowSpan, key_windows
from lakecore.verify.sample.key_marks import STRIDE, KeyMarks
from tests.support.parquet_edits import flip_byte

NAME = "d.k"
GROUP = 8 * STRIDE
GROUPS = 6


def marks(*counts: int) -> list[KeyMarks]:
    """Return the marks of files with so many rows, whose keys go on from one to the next."""
    files = []
    first = 0
    for count in counts:
        files.append(KeyMarks())
        files[-1].add([pa.array(range(first, first + count))])
        first += count
    return files


def windows(
    rows: int, *files: tuple[int, list[RowSpan]], ends_open: bool = False
) -> list[tuple[int | None, int | None, bool]]:
    """The windows with their keys in strides, and whether their rows were copied."""
    found = key_windows(
        list(zip(marks(*(count for count, _ in files)), (spans for _, spans in files), strict=True)),
        rows,
        ends_open=ends_open,
    )
    bounds = [(one.keys.low, one.keys.high, one.copied) for one in found]
    return [(low and low[0] // STRIDE, high and high[0] // STRIDE, copied) for low, high, copied in bounds]


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([], [(0, 10, False), (10, 20, False), (20, 23, False)]),
        # the rows at the end of a copy are of a window of merged rows, as are the last ones of the file
        ([(0, 12)], [(0, 1, False), (1, 5, True), (5, 9, True), (9, 11, True), (11, 21, False), (21, 23, False)]),
        ([(12, 24)], [(0, 10, False), (10, 12, False), (12, 16, True), (16, 20, True), (20, 23, True), (23, 23, False)]),
        # two copies between which the merge took rows out: the rows around the gap are compared
        ([(0, 6), (6, 24)], [(0, 1, False), (1, 5, True), (5, 6, False), (6, 10, True), (10, 14, True),
                             (14, 18, True), (18, 22, True), (22, 23, True), (23, 23, False)]),
    ],
)  # fmt: skip
def test_windows_of_copies_are_short_and_end_where_rows_were_merged(
    spans: list[RowSpan], expected: list[tuple[int, int, bool]]
) -> None:
    copied = [(start * STRIDE, stop * STRIDE) for start, stop in spans]
    assert windows(10 * STRIDE, (24 * STRIDE, copied)) == expected


def test_rows_between_two_files_count_as_merged() -> None:
    whole = [(0, 4 * STRIDE)]
    assert windows(10 * STRIDE, (4 * STRIDE, whole), (4 * STRIDE, whole), ends_open=True) == [
        (None, 1, False), (1, 3, True), (3, 4, False), (4, 7, True), (7, None, False),
    ]  # fmt: skip


def test_a_window_of_merged_rows_may_begin_inside_of_a_stride() -> None:
    assert windows(10 * STRIDE, (4 * STRIDE, [(1, 2 * STRIDE + 1)])) == [
        (0, 1, False), (1, 2, True), (2, 3, False),
    ]  # fmt: skip


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FilesystemCatalog:
    """A table of six row groups, of which the last one has late rows."""
    monkeypatch.setattr(layout, "_ROW_GROUP_ROWS", GROUP)
    catalog = load_catalog(str(tmp_path), **{"local.fsync": "false"})
    catalog.create_database("d")
    options = {"bucket": "1", "write-only": "true", "lakecore.commit.settle-time": "1 ms"}
    catalog.create_table(
        NAME, {"columns": ["k BIGINT NOT NULL", "s STRING"], "primaryKeys": ["k"], "options": options}
    )
    put(catalog, range(GROUPS * GROUP), "first")
    compacted(catalog)
    put(catalog, range((GROUPS - 1) * GROUP, GROUPS * GROUP, 3), "late")
    return catalog


def put(catalog: FilesystemCatalog, keys: range, text: str) -> None:
    rows = {"k": pa.array(keys, pa.int64()), "s": pa.array([f"{text} {key % 97}" for key in keys])}
    catalog.load_table(NAME).upsert(pa.table(rows))


def compacted(catalog: FilesystemCatalog, seed: str = "") -> compact.Report:
    job = compact.Job(table=NAME, copy=CopyMode.LARGE, strategy=compact.Strategy.FULL, proof_seed=seed)
    return compact.run(job, catalog)


@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_the_sample_has_merged_rows_and_one_window_of_copies(
    seed: str, lake: FilesystemCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: dict[bool, int] = {False: 0, True: 0}
    copied_windows: list[KeyWindow] = []
    check, choose = merge_sample._Sampler.check, merge_sample._Sampler.windows

    def counting(self: Any, keys: Any) -> Any:
        result = check(self, keys)
        copied = [window for window in chosen if window.keys is keys and window.copied]
        copied_windows.extend(copied)
        rows[bool(copied)] += result.rows
        return result

    chosen: list[KeyWindow] = []

    def choosing(self: Any) -> list[KeyWindow]:
        chosen[:] = choose(self)
        return chosen

    monkeypatch.setattr(merge_sample._Sampler, "check", counting)
    monkeypatch.setattr(merge_sample._Sampler, "windows", choosing)
    report = compacted(lake, seed)
    assert report.rows_copied > 4 * GROUP
    assert rows[False] * 16 >= report.rows_in - report.rows_copied
    assert len(copied_windows) == 1
    assert 0 < rows[True] <= 4 * STRIDE


def test_rows_that_a_merge_took_out_end_a_copy(
    lake: FilesystemCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All rows around one place are deleted, so that the next copy begins where the last one ended."""
    copied: dict[str, Any] = {}
    compare = copies.UnitWriter.compare

    def keeping(self: Any, files: Any) -> Any:
        result = compare(self, files)
        copied.update(result.rows)
        return result

    monkeypatch.setattr(copies.UnitWriter, "compare", keeping)
    group = pq.read_metadata(largest_file(lake)).row_group(0).num_rows
    rows = pa.table({"k": pa.array(range(group, 2 * group), pa.int64())})
    nothing = pa.nulls(group, pa.string())
    kinds = pa.array(["-D"] * group)
    lake.load_table(NAME).write(rows.append_column("s", nothing).append_column("_kind", kinds))
    compacted(lake)
    (spans,) = copied.values()
    assert spans[0] == (0, group)
    assert spans[1][0] == group
    assert len(spans) == 2


def largest_file(catalog: FilesystemCatalog) -> Path:
    directory = Path(catalog.load_table(NAME)._stores.paths.root)
    return max(directory.rglob("*.parquet"), key=lambda path: path.stat().st_size)


def test_copied_rows_must_decode(lake: FilesystemCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that change after they were compared are met by the window of copied rows: of each row group that
    was copied, all pages of a column are damaged here."""
    compare = copies.UnitWriter.compare

    def spoil(self: Any, files: Any) -> Any:
        copied = compare(self, files)
        for name in copied.rows:
            footer = pq.read_metadata(name)
            for number in range(GROUPS - 1):
                column = footer.row_group(number).column(1 + 2)  # after the key and the two of Paimon
                step = column.total_compressed_size // 64
                for part in range(64):
                    flip_byte(Path(name), column.data_page_offset + 40 + part * step)
        return copied

    monkeypatch.setattr(copies.UnitWriter, "compare", spoil)
    with pytest.raises(ProofError):
        compacted(lake)
