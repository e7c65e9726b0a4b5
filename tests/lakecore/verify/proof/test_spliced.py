"""Copies of row groups are proven, and whatever differs from what was copied is refused by what it is."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.compact.kinds.append import run as append_run
from lakecore.errors import ProofError
from lakecore.format.bounds import ColumnBounds
from lakecore.format.parquet.thrift_compact import Field, Struct, ThriftList, WireType
from lakecore.format.statistics import recorded_bounds, simple_stats, stats_modes
from lakecore.metadata.manifest.data_file import EMPTY_STATS, DataFile
from lakecore.verify.contents.footer_stats import splice_problems
from lakecore.verify.digest.columns import StoredFile
from lakecore.verify.digest.context import ProofContext
from lakecore.verify.mode import ProofMode
from lakecore.verify.proof.spliced import SpliceInput, SpliceOutput, check_splices
from tests.support.copied_table import ROWS, compacted, new_table, opened, rows_of
from tests.support.lake import live_files
from tests.support.parquet_edits import edit_footer, flip_byte

Change = Callable[[Path, SpliceOutput], SpliceOutput | None]


def number(value: int) -> Field:
    return Field(WireType.I64, value)


def chunk(meta: Struct, group: int = 1, leaf: int = 0) -> Struct:
    found: Struct = meta[4].value.values[group][1].value.values[leaf]
    return found


def inner(meta: Struct, group: int = 1, leaf: int = 0) -> Struct:
    found: Struct = chunk(meta, group, leaf)[3].value
    return found


def footer(change: Callable[[Struct], Any]) -> Change:
    """A change of the footer, after which the manifest has the new size of the file."""

    def changed(path: Path, output: SpliceOutput) -> SpliceOutput:
        edit_footer(path, lambda meta: change(meta) and None)
        return described(output, file_size=path.stat().st_size)

    return changed


def described(output: SpliceOutput, **facts: Any) -> SpliceOutput:
    file: DataFile = replace(output.stored.file, **facts)
    return SpliceOutput(StoredFile(output.stored.path, file), output.origins)


def at(place: Callable[[Any], int]) -> Change:
    """A flipped bit at a place that pyarrow's footer tells."""

    def changed(path: Path, output: SpliceOutput) -> None:
        flip_byte(path, place(pq.read_metadata(path)))

    return changed


def index_byte(field: int, length: int, back: int = 2) -> Change:
    def changed(path: Path, output: SpliceOutput) -> None:
        from tests.support.parquet_edits import footer_of

        found = chunk(footer_of(path), 1, 1)
        flip_byte(path, found[field].value + found[length].value - back)

    return changed


def statistics(meta: Struct, field: int, value: Field) -> None:
    inner(meta)[12].value[field] = value


def groups(meta: Struct) -> list[Struct]:
    found: list[Struct] = meta[4].value.values
    return found


def element(meta: Struct, column: int = 1) -> Struct:
    found: Struct = meta[2].value.values[column]
    return found


def swapped(meta: Struct) -> None:
    groups(meta)[0], groups(meta)[1] = groups(meta)[1], groups(meta)[0]


SPOILED: dict[str, tuple[Change, str]] = {
    "a byte of a page": (at(lambda m: m.row_group(1).column(0).data_page_offset + 200), "other bytes"),
    "a byte of the last chunk": (
        at(lambda m: m.row_group(2).column(4).data_page_offset + 60), "other bytes"
    ),
    "a byte of the dictionary": (
        at(lambda m: m.row_group(1).column(1).dictionary_page_offset + 40), "other bytes"
    ),
    "row groups in another order": (footer(swapped), "column id has another"),
    "number of values": (footer(lambda m: inner(m).update({5: number(ROWS - 1)})), "another kind"),
    "size of a chunk": (footer(lambda m: inner(m).update({6: number(7)})), "another kind"),
    "codec": (footer(lambda m: inner(m).update({4: Field(WireType.I32, 1)})), "another kind"),
    "encodings": (
        footer(lambda m: inner(m).update({2: Field(WireType.LIST, ThriftList(WireType.I32, [5]))})),
        "another kind",
    ),
    "first page": (footer(lambda m: inner(m).update({9: number(inner(m)[9].value + 1)})), "another places|another pages"),
    "no dictionary": (footer(lambda m: inner(m, 1, 1).pop(11)), "another kind|another places|bytes"),
    "smallest value": (
        footer(lambda m: statistics(m, 6, Field(WireType.BINARY, bytes(8)))), "another description"
    ),
    "nulls": (footer(lambda m: statistics(m, 3, number(3))), "another description"),
    "bounds of one row group left out": (
        footer(lambda m: [inner(m)[12].value.pop(key) for key in (1, 2, 5, 6)]), "another description"
    ),
    "nulls, and bounds of all row groups left out": (
        footer(lambda m: [inner(m, g)[12].value.pop(key, None) for g in range(3) for key in (1, 2, 3, 5, 6, 7, 8)]),
        "another description",
    ),
    "a note of a chunk": (footer(lambda m: inner(m).pop(13)), "another description"),
    "no offset index": (footer(lambda m: (chunk(m).pop(4), chunk(m).pop(5))), "another pages"),
    "no column index": (footer(lambda m: (chunk(m).pop(6), chunk(m).pop(7))), "another bounds"),
    "column index of another column": (
        footer(lambda m: chunk(m).update({key: chunk(m, 1, 3)[key] for key in (6, 7)})), "another bounds"
    ),
    "offset index of another group": (
        footer(lambda m: chunk(m).update({key: chunk(m, 0)[key] for key in (4, 5)})), "another pages"
    ),
    "a byte of the column index": (index_byte(6, 7), "another bounds|cannot be"),
    "a byte of the offset index": (index_byte(4, 5), "another page|cannot be"),
    "rows of a group": (footer(lambda m: groups(m)[1].update({3: number(5)})), "rows"),
    "rows of the footer": (footer(lambda m: m.update({3: number(3 * ROWS - 1)})), "its footer counts"),
    "a group is missing": (
        footer(lambda m: (groups(m).pop(), m.update({3: number(2 * ROWS)}))), f"{2 * ROWS} rows"
    ),
    "name of a column": (footer(lambda m: element(m).update({4: Field(WireType.BINARY, b"ID")})), "schema|cannot be"),
    "field id": (footer(lambda m: element(m).update({9: Field(WireType.I32, 77)})), "its schema"),
    "nullability": (footer(lambda m: element(m, 2).update({3: Field(WireType.I32, 0)})), "its schema|read back"),
    "column orders": (footer(lambda m: m.pop(7)), "column orders"),
    "notes": (
        footer(lambda m: m.update({5: Field(WireType.LIST, ThriftList(WireType.STRUCT, [
            {1: Field(WireType.BINARY, b"k"), 2: Field(WireType.BINARY, b"v")}]))})),
        "notes",
    ),
    "size in the manifest": (lambda _, output: described(output, file_size=7), "description says 7"),
    "rows in the manifest": (lambda _, output: described(output, row_count=7), "rows in 3 row groups"),
    "origins of another order": (
        lambda _, output: SpliceOutput(output.stored, (1, 0, 2)), "column id has another"
    ),
    "a group from an input twice": (
        lambda _, output: SpliceOutput(output.stored, (0, 0, 2)), "no further one"
    ),
    "an unknown origin": (lambda _, output: SpliceOutput(output.stored, (0, 1, 9)), "does not read"),
    "an origin less": (lambda _, output: SpliceOutput(output.stored, (0, 1)), "3 row groups"),
}  # fmt: skip


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("copied")
    new_table(folder)
    return folder


@pytest.fixture
def catalog(table: Path, tmp_path: Path) -> FilesystemCatalog:
    return opened(Path(shutil.copytree(table, tmp_path / "lake")))


@pytest.fixture
def spoil(monkeypatch: pytest.MonkeyPatch) -> Callable[[Change], None]:
    """Let outputs be changed between their writing and the proof."""

    def install(change: Change) -> None:
        def check(
            context: Any, unit: str, inputs: Sequence[SpliceInput], outputs: Sequence[SpliceOutput]
        ) -> Any:
            made = [change(Path(one.stored.path), one) or one for one in outputs]
            return check_splices(context, unit, inputs, made)

        monkeypatch.setattr(append_run, "check_splices", check)

    return install


@pytest.mark.parametrize("what", SPOILED)
def test_a_copy_that_differs_is_refused(
    what: str, catalog: FilesystemCatalog, spoil: Callable[[Change], None]
) -> None:
    change, message = SPOILED[what]
    before = catalog.load_table("d.t").latest_snapshot()
    spoil(change)
    with pytest.raises(ProofError, match=message):
        compacted(catalog, proof=ProofMode.KEYS)
    assert catalog.load_table("d.t").latest_snapshot() == before


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_each_block_of_a_copy_is_compared(
    part: float, threads: int, catalog: FilesystemCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Column chunks of many blocks differ in the first, a middle or the last one."""

    def check(context: ProofContext, unit: str, inputs: Any, outputs: Sequence[SpliceOutput]) -> Any:
        path = outputs[0].stored.path
        column = pq.read_metadata(path).row_group(2).column(4)
        start = column.dictionary_page_offset or column.data_page_offset
        flip_byte(Path(path), start + int(part * (column.total_compressed_size - 1)))
        return check_splices(replace(context, threads=threads), unit, inputs, outputs)

    monkeypatch.setattr(append_run, "check_splices", check)
    monkeypatch.setattr("lakecore.verify.digest.row_groups._BLOCK", 100)
    with pytest.raises(ProofError, match="other bytes"):
        compacted(catalog, proof=ProofMode.KEYS)


def test_bounds_may_be_left_out_of_all_row_groups(
    catalog: FilesystemCatalog, spoil: Callable[[Change], None]
) -> None:
    """The copy passes; that its size is no longer that of the writer is found later."""
    fields = (1, 2, 5, 6, 7, 8)
    spoil(footer(lambda m: [inner(m, g)[12].value.pop(key, None) for g in range(3) for key in fields]))
    with pytest.raises(ProofError, match="the commit differs from what was proven"):
        compacted(catalog, proof=ProofMode.KEYS)


@pytest.mark.parametrize("mode", ProofMode)
def test_copies_are_proven_in_every_mode(mode: ProofMode, catalog: FilesystemCatalog) -> None:
    rows = catalog.load_table("d.t").scan().to_arrow().sort_by("id")
    report = compacted(catalog, proof=mode)
    assert (report.files_copied, report.rows_copied, report.files_out) == (3, 3 * ROWS, 1)
    assert report.decoded_because == {}
    assert catalog.load_table("d.t").scan().to_arrow().sort_by("id").equals(rows)


RECORDED: dict[str, tuple[Callable[[ColumnBounds], ColumnBounds], str]] = {
    "a larger minimum": (lambda known: replace(known, minimum=known.minimum + 1), "give the range"),
    "a smaller maximum": (lambda known: replace(known, maximum=known.maximum - 1), "give the range"),
    "a smaller minimum": (lambda known: replace(known, minimum=known.minimum - 1), "give the range"),
    "a null more": (lambda known: replace(known, null_count=1), "count 1 nulls"),
}


@pytest.mark.parametrize("what", RECORDED)
@pytest.mark.parametrize("column", ["id", "amount"])
def test_statistics_of_the_manifest_that_differ_are_refused(
    what: str, column: str, catalog: FilesystemCatalog, spoil: Callable[[Change], None]
) -> None:
    change, message = RECORDED[what]
    kind = catalog.load_table("d.t").schema.row_type

    def changed(path: Path, output: SpliceOutput) -> SpliceOutput:
        file = output.stored.file
        known = recorded_bounds(file, kind)
        bounds = known | {column: change(known[column])}
        stats, names = simple_stats(bounds, kind, stats_modes(kind, {}, "full"))
        return described(output, value_stats=stats, value_stats_cols=names)

    spoil(changed)
    with pytest.raises(ProofError, match=message):
        compacted(catalog, proof=ProofMode.KEYS)


def test_statistics_that_leave_an_input_out_are_refused(
    catalog: FilesystemCatalog, spoil: Callable[[Change], None]
) -> None:
    """Footers do not tell where text ends that was cut, nor of NaN: the inputs' manifest entries do."""
    kind = catalog.load_table("d.t").schema.row_type
    problems = []

    def changed(path: Path, output: SpliceOutput) -> SpliceOutput:
        schema = catalog.load_table("d.t").schema
        file = output.stored.file
        known = recorded_bounds(file, kind)
        for column, bounds in (
            ("price", ColumnBounds(known["price"].minimum, float("nan"), 0)),
            ("name", replace(known["name"], maximum="zzz")),
        ):
            stats, names = simple_stats(known | {column: bounds}, kind, stats_modes(kind, {}, "full"))
            wide = replace(file, value_stats=stats, value_stats_cols=names)
            assert list(splice_problems(wide, schema, [(file, schema)])) == []
            problems.extend(splice_problems(file, schema, [(wide, schema)]))
        return output

    spoil(changed)
    compacted(catalog, proof=ProofMode.KEYS)
    assert [problem.partition(" of data")[0] for problem in problems] == [
        "statistics of column price do not enclose those",
        "statistics of column name do not enclose those",
    ]


def test_an_input_of_which_a_row_group_is_missing_is_refused(
    catalog: FilesystemCatalog, spoil: Callable[[Change], None]
) -> None:
    compacted(catalog)  # a file of three row groups
    catalog.load_table("d.t").append(rows_of(3))

    def without_last(path: Path, output: SpliceOutput) -> SpliceOutput:
        last = 2 if output.origins[0] == output.origins[1] else 3
        change = footer(lambda meta: (groups(meta).pop(last), meta.update({3: number(3 * ROWS)})))
        shorter = change(path, output)
        assert shorter is not None
        facts = {"row_count": 3 * ROWS, "value_stats": EMPTY_STATS, "value_stats_cols": ()}
        whole = described(shorter, **facts)
        return SpliceOutput(whole.stored, (*output.origins[:last], *output.origins[last + 1 :]))

    spoil(without_last)
    with pytest.raises(ProofError, match="not every row group of input"):
        compacted(catalog, proof=ProofMode.KEYS)


def test_a_copy_of_deleted_rows_is_refused(
    catalog: FilesystemCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(context: Any, unit: str, inputs: Sequence[SpliceInput], outputs: Sequence[SpliceOutput]) -> Any:
        deleted = [inputs[0], SpliceInput(inputs[1].stored, BitMap([3])), inputs[2]]
        return check_splices(context, unit, deleted, outputs)

    monkeypatch.setattr(append_run, "check_splices", check)
    with pytest.raises(ProofError, match="although rows of it are deleted"):
        compacted(catalog, proof=ProofMode.KEYS)


def test_files_in_another_order_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = new_table(tmp_path, options={"bucket": "1", "bucket-key": "id"})

    def check(context: Any, unit: str, inputs: Sequence[SpliceInput], outputs: Sequence[SpliceOutput]) -> Any:
        assert len(outputs) == 2
        return check_splices(context, unit, inputs, outputs[::-1])

    monkeypatch.setattr(append_run, "check_splices", check)
    options = {"target-file-size": "54 kb", "compaction.small-file-ratio": "1"}
    with pytest.raises(ProofError, match="its inputs hold"):
        compacted(catalog, proof=ProofMode.KEYS, options=options)


def test_bounds_that_no_input_has_are_refused(catalog: FilesystemCatalog) -> None:
    table = catalog.load_table("d.t")
    file = live_files(table)[0]
    without = replace(file, value_stats=EMPTY_STATS, value_stats_cols=())
    problems = list(splice_problems(file, table.schema, [(without, table.schema)]))
    assert any("have a smallest value" in problem for problem in problems)
    assert any("have a largest value" in problem for problem in problems)
