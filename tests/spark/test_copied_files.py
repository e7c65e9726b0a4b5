"""Files whose row groups were copied, as Spark's own readers of parquet, DuckDB, Polars and others read them: with a
condition on each column they read what they read of the files that were there before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from lakecore.catalog.definition import TableDefinition
from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.format.parquet.splice import writer as splice_writer
from lakecore.format.parquet.splice.mode import CopyMode
from lakecore.jobs import compact
from lakecore.verify.digest.row_groups import GroupFacts
from tests.fuzz.parquet_shapes import FIXED_OPTIONS, NAME, Dice, add_file, file_paths, judge_copies, run_case
from tests.fuzz.parquet_values import KINDS
from tests.spark_versions.copied import CONDITIONS, read_copies
from tests.support.copied_tables import COPIES, copied_table
from tests.support.oracle import Oracle
from tests.support.parquet_readers import (
    ReadFiles,
    conditions_of,
    local_readers,
    rows_of_readers,
    spark_readers,
)

pytestmark = pytest.mark.slow

PARTS = ("column index", "offset index", "dictionary", "statistics")
CHUNKS = {f"{has} {part}" for has in ("with", "without") for part in PARTS}
WRITERS = ("lakecore", "pyarrow", "java", "arrow-rs", "pyarrow")


@dataclass(frozen=True)
class Shape:
    """A table of these columns, and who writes its files. `seed` chooses values, encodings, pages and indexes."""

    columns: tuple[str, ...]
    writers: tuple[str, ...] = WRITERS
    keyed: bool = False
    seed: int = 1
    unread: tuple[str, ...] = ()
    """Readers that do not have one of the types."""


SHAPES = {
    "numbers": Shape(KINDS[:9], seed=11),
    "texts": Shape(("STRING", "VARCHAR(20)", "BYTES", "DECIMAL(30, 5)", "STRING"), seed=49),
    "times": Shape(("DATE", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(6) WITH LOCAL TIME ZONE"), seed=25),
    "nested": Shape(("ARRAY<INT>", "ARRAY<STRING>", "ROW<a INT, b ARRAY<STRING>>")),
    "keys": Shape(("BIGINT", "STRING", "DECIMAL(18, 4)"), keyed=True, seed=7),
    # Java's and arrow-rs's maps, and Java's nanoseconds, are not copied into one file with those of others
    "maps and nanoseconds": Shape(
        ("MAP<STRING, INT>", "TIMESTAMP(9)"), ("lakecore", "pyarrow", "pyarrow"), seed=2
    ),
    "times of day": Shape(
        ("TIME(3)", "INT"), ("lakecore", "java", "lakecore"), unread=("spark", "spark, row by row")
    ),
}


@pytest.fixture(scope="module")
def readers(session: SparkSession) -> Mapping[str, ReadFiles]:
    return local_readers() | spark_readers(session)


@pytest.fixture(scope="module")
def java() -> Iterator[Oracle]:
    with Oracle("1.4.2") as oracle:
        yield oracle


@pytest.mark.parametrize("name", SHAPES)
def test_every_reader_reads_copies_as_it_reads_their_sources(
    name: str, readers: Mapping[str, ReadFiles], java: Oracle, tmp_path: Path
) -> None:
    shape, catalog = SHAPES[name], new_table(tmp_path, SHAPES[name], java)
    verdict = judge_copies(Dice(1), catalog, (shape.writers, java), readers)
    assert (verdict.problem, verdict.copied, verdict.decoded) == ("", len(shape.writers), {})
    if shape.writers == WRITERS:
        assert found_in(catalog) == CHUNKS
    clauses = len(list(conditions_of(catalog.load_table(NAME).scan().to_arrow())))
    assert verdict.reads == {one: clauses for one in readers if one not in shape.unread}


@pytest.mark.parametrize("seed", [50007, 50008], ids=["java", "pyarrow"])
def test_every_reader_reads_runs_of_pages_as_rows_without_copies(
    seed: int, readers: Mapping[str, ReadFiles], java: Oracle, tmp_path: Path
) -> None:
    """A merge by key copies pages of a large row group around late rows."""
    verdict = run_case(Dice(seed, runs=True), tmp_path, java, readers)
    assert verdict.problem == ""
    assert verdict.runs > 0
    assert set(verdict.reads) == set(readers)


@pytest.mark.parametrize("kind", COPIES)
def test_spark_reads_each_kind_of_copies_with_conditions(
    kind: str, session: SparkSession, java: Oracle, tmp_path: Path
) -> None:
    """Single row groups of a merge by key are among them. `make spark-versions` asks Spark 3.5 and Paimon's connector."""
    catalog = load_catalog(str(tmp_path), **{"local.fsync": "false"})
    catalog.create_database("d")
    tables = {kind: asdict(copied_table(kind, catalog, java))}
    found = read_copies(session, tables, ("spark", "spark, row by row"))
    assert found["problems"] == []
    assert set(found["counts"][kind].values()) == {len(CONDITIONS)}


def test_readers_of_spark_notice_wrong_places_of_pages(
    session: SparkSession, java: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They skip pages, so that what they say above is said of page indexes, too. The proof would be the first to notice."""
    monkeypatch.setattr(splice_writer, "_moved_index", lambda index, moved: index)
    monkeypatch.setattr(GroupFacts, "difference", lambda before, after: None)
    catalog = new_table(tmp_path, SHAPES["texts"], java)
    clauses = list(conditions_of(catalog.load_table(NAME).scan().to_arrow()))
    before = rows_of_readers(spark_readers(session), file_paths(catalog), clauses)
    compact.run(compact.Job(table=NAME, strategy=compact.Strategy.FULL, copy=CopyMode.ALL), catalog)
    after = rows_of_readers(spark_readers(session), file_paths(catalog), clauses)
    for name in spark_readers(session):
        assert any(before[name, clause] != after[name, clause] for clause in clauses), name


def new_table(folder: Path, shape: Shape, java: Oracle) -> FilesystemCatalog:
    """A table of this shape, with a file of each writer."""
    catalog = load_catalog(str(folder), **{"local.fsync": "false"})
    catalog.create_database("d")
    columns = ["id BIGINT NOT NULL", *(f"c{n} {kind}" for n, kind in enumerate(shape.columns))]
    definition = {
        "columns": columns,
        "primaryKeys": ["id"] if shape.keyed else [],
        "options": FIXED_OPTIONS | {"bucket": "1", "bucket-key": "id"},
    }
    catalog.create_table(NAME, TableDefinition.from_json(definition))
    dice = Dice(shape.seed)
    for number, writer in enumerate(shape.writers):
        add_file(dice, catalog, number, writer, (folder, java))
    return catalog


def found_in(catalog: FilesystemCatalog) -> set[str]:
    """The kinds of column chunks that the files have."""
    found = set[str]()
    for path in file_paths(catalog):
        footer: Any = pq.read_metadata(path)
        for group in range(footer.num_row_groups):
            for column in range(footer.num_columns):
                chunk = footer.row_group(group).column(column)
                has = (
                    chunk.has_column_index,
                    chunk.has_offset_index,
                    chunk.has_dictionary_page,
                    chunk.is_stats_set,
                )
                found |= {
                    f"{'with' if one else 'without'} {part}" for one, part in zip(has, PARTS, strict=True)
                }
    return found
