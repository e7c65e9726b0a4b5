"""Row groups that are copied read as before, and what must not be copied is refused by its reason."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakecore.format.parquet.splice.footer import read_splice_footer
from lakecore.format.parquet.splice.pages import examine_pages
from lakecore.format.parquet.splice.reasons import SpliceReason, SpliceRefusal
from lakecore.format.parquet.splice.rules import SpliceTarget, mixing_refusal, own_refusal
from lakecore.format.parquet.splice.writer import SpliceWriter
from lakecore.format.parquet.thrift_compact import Field, Struct, ThriftList, WireType
from lakecore.fs.local import LocalFileIO
from tests.support.parquet_edits import edit_footer, flip_byte, plain_before_dictionary

ROWS = 10_000
STORAGE = LocalFileIO(sync=False)
USUAL: dict[str, Any] = {"compression": "zstd", "write_page_index": True, "write_page_checksum": True}


def table(seed: int = 1, rows: int = ROWS) -> pa.Table:
    numbers = [(number * 7919 + seed) % 10_007 for number in range(rows)]
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "name": pa.array([None if number % 11 == 0 else f"name {number % 50}" for number in numbers]),
            "tags": pa.array([[number, None] * (number % 3) for number in numbers], pa.list_(pa.int32())),
            "place": pa.array([{"x": number / 2, "y": str(number % 5)} for number in numbers]),
        }
    )


def written(path: Path, rows: pa.Table | None = None, **options: Any) -> Path:
    pq.write_table(table() if rows is None else rows, path, **(USUAL | options))
    return path


def names(rows: pa.Table) -> tuple[str, ...]:
    return tuple(rows.schema.names)


def spliced(out: Path, paths: list[Path], codec: str = "zstd") -> Path:
    """The files in one, by the rules. Raises SpliceRefusal."""
    writer = SpliceWriter(STORAGE.open_output(str(out)))
    target = SpliceTarget(names(table()), codec)
    first = None
    try:
        for path in paths:
            with STORAGE.open_ranges(str(path)) as source:
                footer = read_splice_footer(source, str(path))
                first = first or footer
                reason = own_refusal(footer, target) or mixing_refusal(footer, first)
                if reason is not None:
                    raise SpliceRefusal(reason)
                examine_pages(source, footer)
                writer.add(source, footer)
        size = writer.close()
    except BaseException:
        writer.abort()
        raise
    assert size == out.stat().st_size
    return out


def refusal(tmp_path: Path, *paths: Path) -> SpliceReason | None:
    try:
        spliced(tmp_path / "out.parquet", list(paths))
    except SpliceRefusal as err:
        assert not (tmp_path / "out.parquet").exists()
        return err.reason
    return None


SHAPES: dict[str, dict[str, Any]] = {
    "usual": {},
    "plain": {"use_dictionary": False},
    "pages of version 2": {"data_page_version": "2.0"},
    "no page index": {"write_page_index": False},
    "no checksums": {"write_page_checksum": False},
    "no statistics": {"write_statistics": False},
    "small pages": {"max_rows_per_page": 333},
    "deltas": {"use_dictionary": False, "column_encoding": {"id": "DELTA_BINARY_PACKED"}},
}


@pytest.mark.parametrize("other", SHAPES)
@pytest.mark.parametrize("shape", ["usual", "pages of version 2"])
def test_copied_row_groups_read_as_before(tmp_path: Path, shape: str, other: str) -> None:
    paths = [
        written(tmp_path / "a", table(1), **SHAPES[shape]),
        written(tmp_path / "b", table(2), **SHAPES[other]),
    ]
    out = spliced(tmp_path / "out.parquet", paths)
    file = pq.ParquetFile(out, page_checksum_verification=True)
    assert file.read().equals(pa.concat_tables([table(1), table(2)]))
    assert file.metadata.num_row_groups == 2


def test_files_of_several_row_groups_keep_their_order(tmp_path: Path) -> None:
    rows = table(3, 40_000)
    paths = [written(tmp_path / "a", rows, row_group_size=20_000), written(tmp_path / "b")]
    assert pq.read_table(spliced(tmp_path / "out", paths)).equals(pa.concat_tables([rows, table()]))


def test_row_groups_of_several_writers_have_the_name_of_none(tmp_path: Path) -> None:
    paths = [written(tmp_path / "a"), written(tmp_path / "b")]
    names = [pq.read_metadata(spliced(tmp_path / "same", paths)).created_by]
    edit_footer(
        paths[1],
        lambda meta: meta.update({6: Field(WireType.BINARY, b"parquet-mr version 1.16.0 (build x)")}),
    )
    names.append(pq.read_metadata(spliced(tmp_path / "mixed", paths)).created_by)
    assert names[0].startswith("parquet-cpp-arrow")
    assert names[1].startswith("lakecore version")


def test_bounds_of_a_column_are_those_of_all_row_groups_or_left_out(tmp_path: Path) -> None:
    """Some readers take the bounds that a few row groups have for those of the file."""
    others = ["id", "tags.list.element", "place.x", "place.y"]
    paths = [
        written(tmp_path / "a"),
        written(tmp_path / "b", write_statistics=others),
        written(tmp_path / "c", table().set_column(0, "id", pa.nulls(ROWS, pa.int64()))),
    ]
    copied = pq.read_metadata(spliced(tmp_path / "out", paths))
    stored = [pq.read_metadata(path).row_group(0) for path in paths]
    for number, group in enumerate(stored):
        for leaf in range(group.num_columns):
            before, after = (one.column(leaf).statistics for one in (group, copied.row_group(number)))
            if group.column(leaf).path_in_schema != "name":
                assert after == before
            elif before is not None:
                assert (after.has_min_max, after.null_count) == (False, before.null_count)
                assert before.has_min_max
    assert not copied.row_group(2).column(0).statistics.has_min_max  # which has no values
    assert copied.row_group(0).column(0).statistics.has_min_max


def test_a_copy_can_be_copied_again(tmp_path: Path) -> None:
    once = spliced(tmp_path / "once", [written(tmp_path / "a"), written(tmp_path / "b")])
    twice = spliced(tmp_path / "twice", [once, once])
    assert pq.read_table(twice).equals(pa.concat_tables([table()] * 4))


def _first(meta: Struct) -> Struct:
    group: Struct = meta[4].value.values[0]
    return group


def _chunk(meta: Struct) -> Struct:
    chunk: Struct = _first(meta)[1].value.values[0]
    return chunk


def _inner(meta: Struct) -> Struct:
    inner: Struct = _chunk(meta)[3].value
    return inner


def number(value: int) -> Field:
    return Field(WireType.I64, value)


def _change(struct: Callable[[Struct], Struct], field: int, value: Field) -> Callable[[Struct], None]:
    return lambda meta: struct(meta).update({field: value})


def _whole(meta: Struct) -> Struct:
    return meta


EDITS: dict[str, tuple[Callable[[Struct], None], SpliceReason]] = {
    "encryption": (_change(_whole, 8, Field(WireType.STRUCT, {})), SpliceReason.ENCRYPTED),
    "signing key": (_change(_whole, 9, Field(WireType.BINARY, b"key")), SpliceReason.ENCRYPTED),
    "encrypted column": (_change(_chunk, 8, Field(WireType.STRUCT, {})), SpliceReason.ENCRYPTED),
    "unknown field of the file": (_change(_whole, 10, number(1)), SpliceReason.UNKNOWN_FIELDS),
    "unknown field of a group": (_change(_first, 8, number(1)), SpliceReason.UNKNOWN_FIELDS),
    "unknown field of a chunk": (_change(_chunk, 10, number(1)), SpliceReason.UNKNOWN_FIELDS),
    "unknown field of a column": (_change(_inner, 18, number(1)), SpliceReason.UNKNOWN_FIELDS),
    "another file": (_change(_chunk, 1, Field(WireType.BINARY, b"other")), SpliceReason.OTHER_FILE),
    "no rows": (_change(_first, 3, number(0)), SpliceReason.EMPTY_GROUPS),
    "no groups": (
        lambda meta: meta.update({3: number(0), 4: Field(WireType.LIST, ThriftList(WireType.STRUCT, []))}),
        SpliceReason.EMPTY_GROUPS,
    ),
    "other rows": (_change(_whole, 3, number(ROWS + 1)), SpliceReason.DAMAGED),
    "outside of the file": (_change(_inner, 7, number(1 << 30)), SpliceReason.DAMAGED),
    "bloom filter": (_change(_inner, 14, number(4)), SpliceReason.BLOOM_FILTERS),
    "old writer": (
        _change(_whole, 6, Field(WireType.BINARY, b"parquet-mr version 1.8.1 (build x)")),
        SpliceReason.OLD_WRITER,
    ),
    "no writer": (lambda meta: meta.pop(6) and None, SpliceReason.OLD_WRITER),
    "other values": (_change(_inner, 5, number(ROWS + 1)), SpliceReason.PAGES),
    "elsewhere": (
        lambda meta: _inner(meta).update({9: number(_inner(meta)[9].value + 1)}),
        SpliceReason.PAGES,
    ),
    "chunk of another column": (
        lambda meta: _inner(meta).update({3: _first(meta)[1].value.values[1][3].value[3]}),
        SpliceReason.DAMAGED,
    ),
    "index of another column": (
        lambda meta: _chunk(meta).update({key: _first(meta)[1].value.values[1][key] for key in (4, 5)}),
        SpliceReason.PAGES,
    ),
    "index elsewhere": (_change(_chunk, 4, number(4)), SpliceReason.PAGES),
}


@pytest.mark.parametrize("edit", EDITS)
def test_footers_that_are_refused(tmp_path: Path, edit: str) -> None:
    change, reason = EDITS[edit]
    path = written(tmp_path / "a")
    edit_footer(path, change)
    assert refusal(tmp_path, written(tmp_path / "b"), path) is reason


MIXED: dict[str, tuple[Callable[[pa.Table], pa.Table], SpliceReason]] = {
    "another type": (lambda t: t.set_column(0, "id", t["id"].cast(pa.int32())), SpliceReason.OTHER_SCHEMA),
    "another case": (lambda t: t.rename_columns(["ID", *t.column_names[1:]]), SpliceReason.OTHER_COLUMNS),
    "another order": (lambda t: t.select(t.column_names[::-1]), SpliceReason.OTHER_COLUMNS),
    "another field id": (
        lambda t: t.cast(t.schema.set(0, t.schema.field(0).with_metadata({"PARQUET:field_id": "9"}))),
        SpliceReason.OTHER_SCHEMA,
    ),
    "not null": (
        lambda t: t.cast(t.schema.set(0, t.schema.field(0).with_nullable(False))), SpliceReason.OTHER_SCHEMA,
    ),
    "a column less": (lambda t: t.drop_columns(["place"]), SpliceReason.OTHER_COLUMNS),
    "another field of a row": (
        lambda t: t.set_column(3, "place", pa.array([{"x": 1.0, "Y": "1"}] * t.num_rows)), SpliceReason.OTHER_SCHEMA,
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", MIXED)
def test_files_that_do_not_mix(tmp_path: Path, kind: str) -> None:
    change, reason = MIXED[kind]
    first, other = written(tmp_path / "a", store_schema=False), tmp_path / "b"
    written(other, change(table()), store_schema=False)
    assert refusal(tmp_path, first, other) is reason


def test_another_codec_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, written(tmp_path / "a", compression="snappy")) is SpliceReason.OTHER_CODEC
    mixed = written(tmp_path / "b", compression={"id": "zstd", "name": "gzip"})
    assert refusal(tmp_path, mixed) is SpliceReason.OTHER_CODEC


@pytest.mark.parametrize(("digits", "dictionary"), [(19, True), (19, False), (9, True)])
def test_dictionaries_of_decimals_that_are_stored_as_bytes_are_refused(
    tmp_path: Path, digits: int, dictionary: bool
) -> None:
    kind = pa.decimal128(digits, 2)
    rows = table().set_column(0, "id", pa.array([Decimal("2.56"), None] * (ROWS // 2), kind))
    path = written(
        tmp_path / "a", rows, use_dictionary=["id"] if dictionary else False, store_decimal_as_integer=True
    )
    expected = SpliceReason.FIXED_DICTIONARIES if (digits, dictionary) == (19, True) else None
    assert refusal(tmp_path, path) is expected


def test_small_row_groups_are_refused_unless_they_have_many_bytes(tmp_path: Path) -> None:
    assert refusal(tmp_path, written(tmp_path / "a", table(rows=ROWS - 1))) is SpliceReason.SMALL_GROUPS
    assert refusal(tmp_path, written(tmp_path / "b", row_group_size=ROWS // 2)) is SpliceReason.SMALL_GROUPS


def test_other_notes_are_refused(tmp_path: Path) -> None:
    noted = table().replace_schema_metadata({"paimon.map.layout": "1"})
    assert (
        refusal(tmp_path, written(tmp_path / "a"), written(tmp_path / "b", noted))
        is SpliceReason.OTHER_METADATA
    )


def test_int96_of_another_writer_is_refused(tmp_path: Path) -> None:
    times = pa.array(range(ROWS), pa.timestamp("ns"))
    rows = table().set_column(0, "id", times)
    options = {"use_deprecated_int96_timestamps": True}
    paths = [written(tmp_path / name, rows, **options) for name in ("a", "b")]
    assert refusal(tmp_path, *paths) is None
    edit_footer(
        paths[1],
        lambda meta: meta.update({6: Field(WireType.BINARY, b"parquet-mr version 1.16.0 (build x)")}),
    )
    (tmp_path / "out.parquet").unlink()
    assert refusal(tmp_path, *paths) is SpliceReason.OTHER_INT96


def test_other_column_orders_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a")
    edit_footer(path, lambda meta: meta.pop(7) and None)
    assert refusal(tmp_path, written(tmp_path / "b"), path) is SpliceReason.OTHER_ORDERS


def test_no_parquet_file_is_refused(tmp_path: Path) -> None:
    for data, reason in (
        (b"", SpliceReason.NOT_PARQUET),
        (b"PAR1" + bytes(20), SpliceReason.NOT_PARQUET),
        (b"ORC" + bytes(20) + b"PAR1", SpliceReason.NOT_PARQUET),
        (b"PAR1" + bytes(20) + b"PARE", SpliceReason.ENCRYPTED),
        (b"PAR1" + bytes(20) + b"\xff\xff\0\0PAR1", SpliceReason.DAMAGED),
        (b"PAR1" + b"\xff" * 20 + b"\x10\0\0\0PAR1", SpliceReason.DAMAGED),
    ):
        (tmp_path / "x").write_bytes(data)
        assert refusal(tmp_path, tmp_path / "x") is reason


@pytest.mark.parametrize("options", [{}, {"data_page_version": "2.0"}])
def test_a_flipped_bit_is_found_where_pages_have_checksums(tmp_path: Path, options: dict[str, Any]) -> None:
    path = written(tmp_path / "a", **options)
    with STORAGE.open_ranges(str(path)) as source:
        chunk = read_splice_footer(source, str(path)).groups[0].chunks[-1]
    flip_byte(path, chunk.stop - 1)
    assert refusal(tmp_path, path) is SpliceReason.CHECKSUM


def test_plain_pages_before_coded_ones_are_refused(tmp_path: Path) -> None:
    """pyarrow reads such a chunk as it should; Java takes the plain values for codes."""
    path = tmp_path / "mixed"
    rows = plain_before_dictionary(path, ROWS)
    assert pq.read_table(path).equals(rows)
    with STORAGE.open_ranges(str(path)) as source:
        footer = read_splice_footer(source, str(path))
        with pytest.raises(SpliceRefusal) as caught:
            examine_pages(source, footer)
    assert caught.value.reason is SpliceReason.PLAIN_FIRST


def test_coded_pages_before_plain_ones_are_copied(tmp_path: Path) -> None:
    """A dictionary that became too large: what every writer does."""
    rows = pa.table({"id": pa.array(range(60_000), pa.int64())})
    path = written(tmp_path / "a", rows, dictionary_pagesize_limit=1000, data_page_size=2000)
    with STORAGE.open_ranges(str(path)) as source:
        examine_pages(source, read_splice_footer(source, str(path)))
    kinds = pq.ParquetFile(path).metadata.row_group(0).column(0).encodings
    assert {"PLAIN", "RLE_DICTIONARY"} <= set(kinds)
