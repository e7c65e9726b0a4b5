"""Which scans Spark's own reader of Parquet may read, decided without Spark. Each refusal says why."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakecore
from lakecore.errors import UnsupportedError
from lakecore.predicate.parse import parse_where
from lakecore.read.source.scan import Scan
from lakecore.scan.filters import EVERYTHING
from lakecore.spark.data_source.parquet.files import parquet_files
from lakecore.spark.data_source.partitions import plan_parts
from tests.support.golden import golden_table

COLUMNS = ["k INT", "v BIGINT"]


@pytest.fixture
def catalog(tmp_path: Path) -> lakecore.FilesystemCatalog:
    return lakecore.load_catalog(tmp_path, create_warehouse=True, **{"local.fsync": "false"})


def written(catalog: lakecore.FilesystemCatalog, **definition: Any) -> lakecore.Table:
    """`d.t` with one file of three rows."""
    table = catalog.create_table("d.t", {"columns": COLUMNS, **definition})
    table.write(rows(0))
    return table


def rows(first: int) -> pa.Table:
    return pa.table({"k": pa.array(range(first, first + 3), pa.int32()), "v": [1, 2, 3]})


def paths(scan: Scan) -> tuple[str, ...]:
    return parquet_files(scan, plan_parts(scan), alone=True).paths


def only_file(table: lakecore.Table) -> Path:
    (path,) = Path(table.path).glob("**/bucket-*/*.parquet")
    return path


def test_files_of_append_tables(catalog: lakecore.FilesystemCatalog) -> None:
    table = written(catalog)
    assert paths(table.scan()) == (str(only_file(table)),)
    assert paths(table.scan(columns=["v"])) == (str(only_file(table)),)


def test_conditions_on_partitions_select_files(catalog: lakecore.FilesystemCatalog) -> None:
    table = catalog.create_table("d.p", {"columns": [*COLUMNS, "day DATE"], "partitionKeys": ["day"]})
    days = [datetime.date(2024, 1, day) for day in (1, 2, 3)]
    table.append(rows(0).append_column("day", pa.array(days)))
    (path,) = paths(table.scan(where="day = '2024-01-02'"))
    assert "/day=19724/" in path or "/day=2024-01-02/" in path
    scan = table.scan(where="day = '2024-01-02' and k = 1", columns=["v"])
    plan = parquet_files(scan, plan_parts(scan))
    assert (plan.paths, plan.others) == ((path,), ())
    assert plan.row_type.names == ("v", "k"), "Spark needs the columns of the condition, too"
    assert plan.where == parse_where("k = 1", table.schema.row_type), "the plan decides about partitions"


def test_conditions_that_file_indexes_answer(catalog: lakecore.FilesystemCatalog) -> None:
    table = written(catalog, options={"file-index.bitmap.columns": "v"})
    scan = table.scan(where="v = 2")
    with pytest.raises(UnsupportedError, match="the file indexes of column v are read by lakecore only"):
        parquet_files(scan, plan_parts(scan))
    assert len(paths(scan)) == 1, "Spark reads them where it is asked to"
    scan = table.with_options({"file-index.read.enabled": "false"}).scan(where="v = 2")
    assert len(parquet_files(scan, plan_parts(scan)).paths) == 1


def test_splits_that_need_a_merge_are_read_by_lakecore(catalog: lakecore.FilesystemCatalog) -> None:
    definition = {"columns": [*COLUMNS, "p INT"], "primaryKeys": ["p", "k"], "partitionKeys": ["p"]}
    options = {"bucket": "1", "write-only": "true", "source.split.target-size": "1 b"}
    table = catalog.create_table("d.m", {**definition, "options": options})
    for parts in ([0, 1, 2], [1]):
        for part in parts:
            table.write(rows(0).append_column("p", pa.array([part] * 3, pa.int32())))
    scan = table.scan()
    plan = parquet_files(scan, plan_parts(scan))
    assert sorted("/p=0/" in path or "/p=2/" in path for path in plan.paths) == [True, True]
    assert [(len(split.files), split.raw_convertible) for split in plan.others] == [(2, False)]
    assert plan.reason == "rows of 1 of 3 splits are merged; compact the table"
    with pytest.raises(UnsupportedError, match="rows of 1 of 3 splits are merged"):
        paths(scan)
    damaged = Path(plan.paths[0])
    damaged.write_bytes(b"PAR1")
    assert len(parquet_files(scan, plan_parts(scan)).paths) == 1


def test_files_whose_keys_no_other_file_has_are_read_by_spark(catalog: lakecore.FilesystemCatalog) -> None:
    """Spark reads two of the six files of a split, and lakecore reads the others as one split."""
    options = {"bucket": "1", "write-only": "true"}
    table = catalog.create_table("d.m", {"columns": COLUMNS, "primaryKeys": ["k"], "options": options})
    for first in (0, 10, 11, 20, 30):
        table.write(rows(first))
    table.delete("k = 30")
    scan = table.scan()
    assert len(scan.plan()) == 1
    plan = parquet_files(scan, plan_parts(scan))
    files = [pq.read_table(path, columns=["k"]).column("k")[0].as_py() for path in plan.paths]
    assert files == [0, 20]
    assert [(len(split.files), split.raw_convertible) for split in plan.others] == [(4, False)]
    assert plan.reason == "rows of 1 of 1 splits are merged; compact the table"
    with pytest.raises(UnsupportedError, match="rows of 1 of 1 splits are merged"):
        paths(scan)
    Path(plan.paths[0]).write_bytes(b"PAR1")
    narrower = parquet_files(scan, plan_parts(scan))
    assert narrower.paths == plan.paths[1:]
    assert [len(split.files) for split in narrower.others] == [5]


def test_a_keyed_table_is_read_after_its_compaction(catalog: lakecore.FilesystemCatalog) -> None:
    keyed = {"primaryKeys": ["k"], "options": {"bucket": "1", "write-only": "true"}}
    table = written(catalog, **keyed)
    assert len(paths(table.scan())) == 1  # one run
    table.write(rows(2))
    with pytest.raises(UnsupportedError, match="rows of 1 of 1 splits are merged; compact the table"):
        paths(table.scan())
    golden = golden_table("g1.a_pk_dedup_b1")  # Java has compacted it
    scan = lakecore.load_catalog(str(golden.warehouse)).load_table(golden.name).scan()
    assert len(paths(scan)) == 1


@pytest.mark.parametrize(
    ("name", "columns", "message"),
    [
        ("g1.a_dv_append", None, "the table has deletion vectors"),
        ("g1.a_append_row_tracking", None, "the table tracks its rows"),
        ("g1.a_append_data_evolution", None, "row tracking"),
        ("g1.a_types_append_orc", ["id"], r"\.orc is no Parquet file"),
        ("g1.a_types_append_parquet", None, r"column f_time0 has the type TIME\(0\)"),
        ("g1.a_types_extreme", None, r"column t9 has the type TIMESTAMP\(9\)"),
        ("g1.a_types_multiset_parquet", None, "column f_multi has the type MULTISET"),
        ("g1.a_types_variant", None, "column v has the type VARIANT"),
        ("g1.a_evo_append_parquet", ["a"], "was written before column a was altered"),
        ("g1.a_evo_nested", None, "was written before column r was altered"),
        ("g1.a_fmt_mixed_append", None, "with compression UNKNOWN"),
    ],
)
def test_tables_that_lakecore_reads(name: str, columns: list[str] | None, message: str) -> None:
    table = lakecore.load_catalog(str(golden_table(name).warehouse)).load_table(name)
    with pytest.raises(UnsupportedError, match=message):
        paths(table.scan(columns=columns))


def test_a_column_that_was_not_altered(catalog: lakecore.FilesystemCatalog) -> None:
    """Files of two schemas, read with a column that both have alike."""
    golden = golden_table("g1.a_evo_append_parquet")
    table = lakecore.load_catalog(str(golden.warehouse)).load_table(golden.name)
    assert len(paths(table.scan(columns=["k"]))) > 1


def test_limits_system_tables_and_names(catalog: lakecore.FilesystemCatalog) -> None:
    table = written(catalog)
    with pytest.raises(
        UnsupportedError, match=r"a scan with a limit is read by lakecore; use DataFrame\.limit"
    ):
        paths(table.scan(limit=1))
    with pytest.raises(UnsupportedError, match="system tables"):
        paths(catalog.load_table("d.t$files").scan())
    for number, name in enumerate(("data-[a]", "_data")):
        hidden = catalog.create_table(
            f"d.h{number}", {"columns": COLUMNS, "options": {"data-file.prefix": name}}
        )
        hidden.append(rows(0))
        with pytest.raises(UnsupportedError, match="is hidden from Spark, or is a pattern"):
            paths(hidden.scan())
    cased = catalog.create_table("d.c", {"columns": ["k INT", "K INT"]})
    cased.append(pa.table({"k": pa.array([1], pa.int32()), "K": pa.array([2], pa.int32())}))
    with pytest.raises(UnsupportedError, match="the table has names that differ only in case"):
        paths(cased.scan())
    with pytest.raises(UnsupportedError, match="has columns whose names differ only in case"):
        paths(cased.scan(columns=["k"]))


def test_a_table_in_memory() -> None:
    catalog = lakecore.load_catalog("memory://parquet-files/w", create_warehouse=True)
    table = catalog.create_table("d.t", {"columns": COLUMNS})
    table.append(rows(0))
    with pytest.raises(UnsupportedError, match="is neither on a local disk nor on HDFS"):
        paths(table.scan())


def test_too_many_files(catalog: lakecore.FilesystemCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakecore.spark.data_source.parquet.files._MOST_FILES", 0)
    with pytest.raises(UnsupportedError, match="the scan has 1 files, more than 0"):
        paths(written(catalog).scan())
    with pytest.raises(UnsupportedError, match="so many files that tasks plan them"):
        parquet_files(catalog.load_table("d.t").scan(), (EVERYTHING,))


def _foreign(**options: Any) -> Callable[[Path], None]:
    """Write the rows of a file again, as something else may have written them."""

    def write(path: Path) -> None:
        pq.write_table(options.pop("table", pq.read_table(path)), path, **options)

    return write


def _by_spark() -> pa.Table:
    return rows(0).replace_schema_metadata({"org.apache.spark.version": "2.4.8"})


def _damages() -> Iterator[Any]:
    plain = rows(0)
    yield pytest.param(Path.unlink, "does not exist", id="gone")
    yield pytest.param(lambda path: path.write_bytes(b"PAR1"), "a file cannot be read", id="no footer")
    yield pytest.param(_foreign(table=plain.slice(1)), "has 2 rows, but the manifest says 3", id="rows")
    yield pytest.param(_foreign(table=plain.select(["v"])), "stores column k not exactly once", id="column")
    yield pytest.param(
        _foreign(table=plain.set_column(1, "v", pa.array([1, 2, 3], pa.int32()))),
        "stores column v as int32",
        id="type",
    )
    yield pytest.param(_foreign(table=_by_spark()), "was written by Spark itself", id="calendar")
    yield pytest.param(_foreign(compression="brotli"), "with compression BROTLI", id="codec")
    yield pytest.param(
        _foreign(use_dictionary=False, column_encoding={"v": "BYTE_STREAM_SPLIT"}),
        "encodings .*BYTE_STREAM_SPLIT",
        id="encoding",
    )


@pytest.mark.parametrize(("damage", "message"), list(_damages()))
def test_files_that_differ_from_the_metadata(
    catalog: lakecore.FilesystemCatalog, damage: Callable[[Path], None], message: str
) -> None:
    table = written(catalog)
    damage(only_file(table))
    with pytest.raises(UnsupportedError, match=message):
        paths(table.scan())


def test_times_that_are_stored_as_int96(catalog: lakecore.FilesystemCatalog) -> None:
    table = catalog.create_table("d.t", {"columns": ["ts TIMESTAMP(6)"]})
    times = pa.table({"ts": pa.array([0], pa.timestamp("us"))})
    table.append(times)
    pq.write_table(times, only_file(table), use_deprecated_int96_timestamps=True)
    with pytest.raises(UnsupportedError, match=r"stores column ts as timestamp\[ns\]|stores times as INT96"):
        paths(table.scan())
