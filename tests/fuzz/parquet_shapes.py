"""Parquet files of many shapes in one table, joined by copies of their row groups: Java reads what it read before.

    python -m tests.fuzz.parquet_shapes --seed 1 --cases 2000 [--minutes 20] [--runs] [--spark] [--figures docs/figures]

A case has a table of random columns, and files by several writers: Java, lakecore, pyarrow and arrow-rs (arro3-io), with
random encodings, dictionaries, versions of pages, sizes of pages and row groups, indexes, checksums, statistics. Java 1.4.2
and 2.0.0 in turns are asked for all rows and for two conditions before and after the compaction, and what their `fsck`
finds. Where all was copied, pyarrow, DuckDB, Polars, arrow-rs, DataFusion and Spark read what they read
before, with a condition on each column (`tests/support/parquet_readers.py`). A third of the tables have a key, and most of
their files other keys than the others; a small file may have some of these again, so that row groups of a file are copied
without the others, and runs of pages of a row group; with `--runs` all tables have one large row group, most of them with
pages that begin at the same rows, and late rows. Where runs were copied, the other readers read what they read of a compaction without copies, if both have the same types. Files that Java reads otherwise than lakecore, or not at all, tell nothing of copies: they are counted.
The seed of a case that fails is printed.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.commit.request import CommitRequest
from lakecore.format.parquet.splice.mode import CopyMode
from lakecore.jobs import compact
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.snapshot import BATCH_IDENTIFIER
from lakecore.row.json_rows import batch_to_json
from lakecore.table import Table
from lakecore.verify.proof import spliced
from tests.bench.figures import conditions, write_figures
from tests.fuzz.parquet_values import KINDS, some_batch
from tests.fuzz.row_lines import read_lines
from tests.support.golden import canonical
from tests.support.lake import live_files
from tests.support.oracle import Oracle, OracleError, findings
from tests.support.parquet_readers import (
    ReadFiles,
    conditions_of,
    local_readers,
    rows_of_readers,
    spark_readers,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "d.t"
JOB = compact.Job(table=NAME, strategy=compact.Strategy.FULL, copy=CopyMode.ALL)
VERSIONS = ("1.4.2", "2.0.0")
MOST_ROWS = 700
FIXED_OPTIONS = {
    "write-only": "true",
    "compaction.min.file-num": "2",
    "file.format": "parquet",
    "lakecore.commit.settle-time": "1 ms",  # nobody else writes
}
ENCODINGS = {
    "BIGINT": ("DELTA_BINARY_PACKED", "PLAIN"),
    "INT": ("DELTA_BINARY_PACKED", "PLAIN"),
    "STRING": ("DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "PLAIN"),
}
JAVA_OPTIONS: Mapping[str, Sequence[str]] = {
    "parquet.enable.dictionary": ("true", "false"),
    "parquet.page.size": ("200", "5000", "1048576"),
    "parquet.dictionary.page.size": ("100", "1048576"),
    "parquet.writer.version": ("PARQUET_1_0", "PARQUET_2_0"),
    "parquet.page.row.count.limit": ("7", "100", "20000"),
    "file.block-size": ("1 kb", "128 mb"),
    "file.compression": ("zstd", "zstd", "zstd", "snappy", "lz4"),
    "metadata.stats-mode": ("truncate(16)", "full", "counts", "none"),
}


@dataclass(frozen=True)
class Verdict:
    """What became of a case: files that were copied, reasons of the others, and who wrote the files."""

    copied: int
    decoded: Mapping[str, int]
    writers: tuple[str, ...]
    problem: str = ""
    reads: Mapping[str, int] = field(default_factory=dict)
    """Conditions with which other readers read the same before and after, where all files were copied, or the same as
    without copies.
    """
    runs: int = 0
    """Runs of pages that were copied, each as a row group."""


class Dice(random.Random):
    """The numbers of a case. With `page_rows` it has a large file with pages of so many rows, and late rows."""

    def __init__(self, seed: int, *, runs: bool = False) -> None:
        super().__init__(seed)
        self.page_rows = self.choice((3, 7, 20, 50, 50, 100)) if runs else None


def run_case(dice: Dice, folder: Path, java: Oracle, readers: Mapping[str, ReadFiles]) -> Verdict:
    """Make the table, compact it, and compare what its readers say."""
    catalog, writers = new_table(dice, folder, java)
    return judge_copies(dice, catalog, (writers, java), readers)


def new_table(dice: Dice, folder: Path, java: Oracle) -> tuple[FilesystemCatalog, tuple[str, ...]]:
    """A table of random columns and files, and who wrote them."""
    catalog = load_catalog(str(folder), **{"local.fsync": "false"})
    catalog.create_database("d")
    late = dice.page_rows is not None or dice.random() < 0.2  # one large file, and some of its keys again
    keyed = late or dice.random() < 0.35
    columns = [
        "id BIGINT NOT NULL" if keyed else "id BIGINT",
        *(f"c{n} {kind}" for n, kind in enumerate(dice.choices(KINDS, k=dice.randrange(1, 6)))),
    ]
    options = {key: dice.choice(values) for key, values in JAVA_OPTIONS.items() if dice.random() < 0.5}
    if dice.page_rows is not None:
        options |= {"file.block-size": "128 mb", "parquet.page.row.count.limit": str(dice.page_rows)}
        options |= {"parquet.page.size": dice.choice(("5000", "1048576", "1048576"))}
    bucket = {"bucket": "1", "bucket-key": "id"} if keyed or dice.random() < 0.4 else {"bucket": "-1"}
    definition = {
        "columns": columns,
        "primaryKeys": ["id"] if keyed else [],
        "options": FIXED_OPTIONS | bucket | options,
    }
    java.create(folder, NAME, definition)
    writers = tuple(
        dice.choice(("java", "lakecore", "pyarrow", "pyarrow", "arrow-rs"))
        for _ in range(1 if late else dice.randrange(2, 6))
    )
    for number, writer in enumerate(writers):
        place = 0 if keyed and dice.random() < 0.15 else number  # there are keys of the first file, too
        add_file(dice, catalog, place, writer, (folder, java), MOST_ROWS if late else None)
    for _ in range(dice.randrange(1, 3) if late else keyed and dice.random() < 0.3):
        add_late_rows(dice, catalog, dice.randrange(len(writers)))
    return catalog, writers


def add_late_rows(dice: Dice, catalog: FilesystemCatalog, number: int) -> None:
    """Write some keys of one file again, or keys near them, so that row groups of it may be copied."""
    table = catalog.load_table(NAME)
    rows = some_batch(dice, table.schema.row_type, MOST_ROWS, number)
    late = rows.slice(dice.randrange(len(rows)), dice.choice((1, 5, 40)))
    table.write(pa.Table.from_batches([late]))


def judge_copies(
    dice: Dice,
    catalog: FilesystemCatalog,
    judge: tuple[tuple[str, ...], Oracle],
    readers: Mapping[str, ReadFiles],
) -> Verdict:
    """Compact the table by copies, and compare what Java and other readers read before and after. `judge`: who wrote
    the files, and Java.
    """
    (writers, java), folder = judge, Path(catalog.warehouse)
    asked = [None, *some_conditions(dice)]
    try:
        before = [read(java, folder, where) for where in asked]
    except OracleError:
        return Verdict(0, {"Java does not read its files": 1}, writers)
    rows = read_lines(catalog.load_table(NAME).scan())
    if before[0] != rows:
        return Verdict(0, {"Java reads its files otherwise": 1}, writers)
    clauses = tuple(conditions_of(catalog.load_table(NAME).scan().to_arrow()))
    stored = rows_of_readers(readers, file_paths(catalog), clauses)
    decoded = folder.with_name(f"{folder.name}-decoded")
    with removed(decoded), counted_runs() as runs:
        shutil.copytree(folder, decoded)
        report = compact.run(JOB, catalog)
        others = runs_problem((catalog, decoded), readers, clauses, stored) if runs else ("", Counter[str]())
    after = [read(java, folder, where) for where in asked]
    problem = compare(before, after) or damage(java, folder) or unreadable(catalog) or others[0]
    if not problem and read_lines(catalog.load_table(NAME).scan()) != rows:
        problem = "lakecore reads other rows than before"
    asked_others = bool(report.files_copied) and not report.decoded_because
    if not problem and asked_others:  # rows that are encoded anew may have other types there
        problem = compare_readers(stored, rows_of_readers(readers, file_paths(catalog), clauses))
    reads = Counter(name for (name, _), found in stored.items() if found is not None and asked_others)
    reads += others[1]
    return Verdict(report.files_copied, report.decoded_because, writers, problem, reads, len(runs))


@contextmanager
def removed(folder: Path) -> Iterator[None]:
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def counted_runs() -> Iterator[list[int]]:
    """The rows of each run of pages that a proof compares meanwhile."""
    runs: list[int] = []
    real = spliced.compare_run

    def counted(source: Any, part: Any, *written: Any) -> int:
        runs.append(part.rows[1] - part.rows[0])
        return real(source, part, *written)

    spliced.compare_run = counted  # type: ignore[assignment]
    try:
        yield runs
    finally:
        spliced.compare_run = real


def runs_problem(
    tables: tuple[FilesystemCatalog, Path],
    readers: Mapping[str, ReadFiles],
    clauses: Sequence[str],
    stored: Mapping[tuple[str, str], Counter[str] | None],
) -> tuple[str, Counter[str]]:
    """Compact a copy of the table before without copies, and compare what others read of both. `stored` is what they read
    before. It returns a problem, and with how many conditions each reader read the same.
    """
    catalog, decoded = tables
    other = load_catalog(str(decoded), **{"local.fsync": "false"})
    compact.run(replace(JOB, copy=CopyMode.NONE), other)
    copied, plain = file_paths(catalog), file_paths(other)
    schemas = {repr(pq.read_schema(path).remove_metadata()) for path in (*copied, *plain)}
    if len(schemas) > 1:
        return "", Counter()
    expected, found = (rows_of_readers(readers, paths, clauses) for paths in (plain, copied))
    expected = {asked: rows for asked, rows in expected.items() if stored[asked] is not None}
    counts = Counter(name for (name, _), rows in expected.items() if rows is not None)
    return compare_readers(expected, found), counts


def add_file(
    dice: Dice,
    catalog: FilesystemCatalog,
    number: int,
    writer: str,
    judge: tuple[Path, Oracle],
    rows: int | None = None,
) -> None:
    """Append one file. lakecore writes it for pyarrow and arrow-rs, which write it anew in other shapes."""
    table = catalog.load_table(NAME)
    count = dice.choice((1, 30, dice.randrange(1, MOST_ROWS))) if rows is None else rows
    batch = some_batch(dice, table.schema.row_type, count, number)
    if writer == "java":
        folder, java = judge
        java.write(folder, NAME, map(json.loads, batch_to_json(batch, table.schema.row_type)))
        return
    known = {file.file_name for file in live_files(table)}
    table.write(pa.Table.from_batches([batch]))
    if writer == "lakecore":
        return
    (file,) = (file for file in live_files(table) if file.file_name not in known)
    rewritten(dice, table, file, writer)


def rewritten(dice: Dice, table: Table, file: DataFile, writer: str) -> None:
    """Write a file anew in another shape, and commit it in its place."""
    folder = Path(table.path.removeprefix("file://")) / "bucket-0"
    rows = pq.read_table(folder / file.file_name, partitioning=None)
    name = file.file_name.replace("data-", "data-0", 1)
    nanos = any(pa.types.is_timestamp(kind) and kind.unit == "ns" for kind in rows.schema.types)
    # arrow-rs writes nanoseconds as INT64, which Java misreads
    write = by_pyarrow if writer == "pyarrow" or nanos else by_arrow_rs
    kinds = {field.name: str(field.type).split("(")[0] for field in table.schema.fields}
    write(dice, rows, folder / name, kinds, table.schema.options.get("file.compression", "zstd"))
    found = replace(file, file_name=name, file_size=(folder / name).stat().st_size)
    total = table.options.bucket
    message = CommitMessage(
        partition=b"\x00" * 12, bucket=0, total_buckets=total, compact_before=(file,), compact_after=(found,)
    )
    table._committer().commit([message], CommitRequest(user="shapes", identifier=BATCH_IDENTIFIER))


def by_pyarrow(dice: Dice, rows: pa.Table, path: Path, kinds: Mapping[str, str], codec: str) -> None:
    chosen = {name: dice.choice(ENCODINGS[kind]) for name, kind in kinds.items() if kind in ENCODINGS}
    encoded = dice.random() < 0.3
    shape: dict[str, Any] = {
        "compression": codec if dice.random() < 0.9 else dice.choice(("none", "gzip")),
        "use_dictionary": False if encoded else dice.choice((True, True, False)),
        "column_encoding": chosen if encoded else None,
        "data_page_version": dice.choice(("1.0", "2.0")),
        "version": dice.choice(("2.4", "2.6")),
        "write_statistics": dice.choice((True, True, True, False, ["id"])),
        "write_page_index": dice.choice((True, True, False)),
        "write_page_checksum": dice.choice((True, False)),
        "row_group_size": dice.choice((13, 200, 1 << 20)),
        "data_page_size": dice.choice((64, 4096, 1 << 20)),
        "write_batch_size": dice.choice((1, 50, 1024)),
        "max_rows_per_page": dice.choice((3, 100, 20_000)),
        "dictionary_pagesize_limit": dice.choice((32, 500, 1 << 20)),
        "store_schema": dice.random() < 0.03,
        "store_decimal_as_integer": True,
        "use_deprecated_int96_timestamps": any(
            pa.types.is_timestamp(f.type) and f.type.unit == "ns" for f in rows.schema
        ),
    }
    if dice.page_rows is not None:
        shape |= {
            "row_group_size": 1 << 20,
            "write_batch_size": dice.page_rows,
            "max_rows_per_page": dice.page_rows,
        }
        shape |= {
            "write_statistics": True,
            "write_page_index": True,
            "data_page_size": dice.choice((4096, 1 << 20)),
        }
    pq.write_table(rows, path, **shape)


def by_arrow_rs(dice: Dice, rows: pa.Table, path: Path, kinds: Mapping[str, str], codec: str) -> None:
    from arro3.io import write_parquet

    shape: dict[str, Any] = {
        "compression": {"zstd": "zstd(3)", "lz4": "lz4_raw"}.get(codec, codec)
        if dice.random() < 0.9
        else "snappy",
        "dictionary_enabled": dice.random() < 0.6,
        "dictionary_page_size_limit": dice.choice((64, 1 << 20)),
        "data_page_row_count_limit": dice.choice((5, 20_000)),
        "data_page_size_limit": dice.choice((100, 1 << 20)),
        "write_batch_size": dice.choice((5, 1024)),
        "max_row_group_size": dice.choice((40, 1 << 20)),
        "skip_arrow_metadata": dice.random() < 0.97,
        "max_statistics_size": dice.choice((4, 64, None)),
        "writer_version": dice.choice(("parquet_1_0", "parquet_2_0")),
        "bloom_filter_enabled": dice.random() < 0.1,
    }
    if dice.page_rows is not None:
        shape |= {"max_row_group_size": 1 << 20, "write_batch_size": dice.page_rows}
        shape |= {"data_page_row_count_limit": dice.page_rows, "data_page_size_limit": 1 << 20}
    write_parquet(rows.replace_schema_metadata(None), path, **shape)


def some_conditions(dice: Dice) -> Iterator[list[Any]]:
    """Conditions on the column that every row group has bounds of."""
    for _ in range(2):
        yield [dice.choice(("=", ">", "<", ">=")), "id", dice.randrange(-5, 5 * MOST_ROWS)]


def read(java: Oracle, folder: Path, where: list[Any] | None) -> list[str]:
    flags = [] if where is None else ["--where", json.dumps(where)]
    return canonical(java.call("read", folder, NAME, *flags))


def compare(before: Sequence[list[str]], after: Sequence[list[str]]) -> str:
    for number, (old, new) in enumerate(zip(before, after, strict=True)):
        if old != new:
            odd = sorted((Counter(new) - Counter(old)).keys())[:3]
            return f"read {number}: Java reads {len(new)} rows instead of {len(old)}, such as {odd}"
    return ""


def damage(java: Oracle, folder: Path) -> str:
    errors = {one for one in findings(java.fsck(folder, NAME, deep=False)) if one.startswith("error")}
    return "; ".join(sorted(errors))


def unreadable(catalog: FilesystemCatalog) -> str:
    """What pyarrow says of the new files, page by page."""
    for path, file in data_files(catalog):
        found = pq.ParquetFile(path, page_checksum_verification=True).read().num_rows
        if found != file.row_count:
            return f"{file.file_name} has {found} rows instead of {file.row_count}"
    return ""


def compare_readers(
    before: Mapping[tuple[str, str], Counter[str] | None],
    after: Mapping[tuple[str, str], Counter[str] | None],
) -> str:
    """Return what another reader reads otherwise of the new files, with the same condition. One that reads what
    pyarrow reads of them was wrong before (DataFusion reads NaN as the only bound of a column).
    """
    for (name, condition), rows in before.items():
        found = after[name, condition]
        if rows is not None and found not in (rows, after.get(("pyarrow", condition))):
            odd = "nothing" if found is None else sorted((found - rows).keys())[:3]
            return f"{name} reads other rows where {condition}: {odd}"
    return ""


def file_paths(catalog: FilesystemCatalog) -> list[Path]:
    return [path for path, _ in data_files(catalog)]


def data_files(catalog: FilesystemCatalog) -> list[tuple[Path, DataFile]]:
    table = catalog.load_table(NAME)
    folder = Path(table.path.removeprefix("file://")) / "bucket-0"
    return [(folder / file.file_name, file) for file in live_files(table)]


def run_cases(
    seeds: Iterable[int], until: float, readers: Mapping[str, ReadFiles], *, runs: bool
) -> Iterator[Verdict]:
    """Run cases until a time of the monotonic clock. The folder of a case with a problem stays."""
    with ExitStack() as stack:
        judges = [stack.enter_context(Oracle(version)) for version in VERSIONS]
        for seed in seeds:
            if time.monotonic() > until:
                return
            folder = Path(tempfile.mkdtemp(prefix="shapes-"))
            verdict = run_case(Dice(seed, runs=runs), folder, judges[seed % len(judges)], readers)
            yield verdict
            if verdict.problem:
                print(f"seed {seed}: {verdict.problem}; the table is in {folder}")
            else:
                shutil.rmtree(folder)


def count_verdicts(verdicts: Iterable[Verdict]) -> dict[str, Any]:
    """What became of all cases, for the figures."""
    cases = copies = files = runs = cases_with_runs = 0
    problems, writers, reasons, reads = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for verdict in verdicts:
        cases += 1
        copies += bool(verdict.copied)
        files += verdict.copied
        runs += verdict.runs
        cases_with_runs += bool(verdict.runs)
        problems.update([verdict.problem] if verdict.problem else [])
        writers.update(verdict.writers)
        reasons.update(verdict.decoded)
        reads.update(verdict.reads)
    return {
        "cases": cases,
        "cases_with_copies": copies,
        "files_copied": files,
        "cases_with_runs_of_pages": cases_with_runs,
        "runs_of_pages": runs,
        "problems": dict(problems),
        "files_by_writer": dict(writers.most_common()),
        "reads_by_reader": dict(reads.most_common()),
        "not_copied": dict(reasons.most_common()),
    }


@contextmanager
def spark_session() -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--runs", action="store_true", help="tables of one large row group and late rows")
    parser.add_argument("--minutes", type=float, default=600, help="begin no other case after so long")
    parser.add_argument("--figures", type=Path, help="directory of the figures")
    parser.add_argument("--spark", action="store_true", help="Spark's own readers of parquet judge, too")
    options = parser.parse_args()
    measured, started = conditions(VERSIONS), time.monotonic()
    seeds = range(options.seed, options.seed + options.cases)
    with ExitStack() as stack:
        readers = local_readers()
        if options.spark:
            readers |= spark_readers(stack.enter_context(spark_session()))
        cases = run_cases(seeds, started + 60 * options.minutes, readers, runs=options.runs)
        figures = {"seed": options.seed, "runs": options.runs, **count_verdicts(cases)}
    figures["seconds"] = round(time.monotonic() - started)
    print(json.dumps(figures, indent=2))
    if options.figures:
        print(
            write_figures(
                "parquet_runs" if options.runs else "parquet_shapes", measured, figures, options.figures
            )
        )
    sys.exit(bool(figures["problems"]))


if __name__ == "__main__":
    main()
