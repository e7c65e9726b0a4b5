"""Tables with each kind of copied parquet file, and the rows that they must have.

Java Paimon writes the large files, lakecore the late rows. The compaction of each table copies: whole files of an append table,
whole files of a table with a key, single row groups of a merge by key, and runs of pages of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.format.parquet.splice.mode import CopyMode
from lakecore.jobs import compact
from tests.fuzz.parquet_shapes import counted_runs
from tests.support.lake import live_files
from tests.support.oracle import Oracle

__all__ = ["COPIES", "Copied", "copied_table"]

Row = Mapping[str, Any]
COLUMNS = ["id BIGINT NOT NULL", "s STRING", "n INT", "x DOUBLE", "d DECIMAL(12, 2)", "day DATE"]
_OPTIONS = {
    "write-only": "true",
    "compaction.min.file-num": "2",
    "lakecore.commit.settle-time": "1 ms",
    "parquet.page.row.count.limit": "100",
}
_GROUPS, _PAGES = {"file.block-size": "1 kb"}, {"file.block-size": "128 mb"}
COPIES: Mapping[str, Mapping[str, str]] = {
    "append": _GROUPS,
    "files": _GROUPS,
    "groups": _GROUPS,
    "pages": _PAGES,
}
"""It says what is copied, and which options have this effect."""
_ROWS = 4000
_LATE = range(2010, 2030)


@dataclass(frozen=True)
class Copied:
    """A table that has been compacted by copies. `rows` are those that it must have."""

    path: str
    files: tuple[str, ...]
    rows: tuple[Row, ...]


def copied_table(kind: str, catalog: FilesystemCatalog, java: Oracle) -> Copied:
    """Make `d.<kind>` and compact it. Raises AssertionError if not what `kind` says is copied."""
    name, lake, is_keyed = f"d.{kind}", Path(catalog.warehouse), kind != "append"
    options = {**_OPTIONS, **COPIES[kind], "bucket": "1" if is_keyed else "-1"}
    definition = {"columns": COLUMNS, "primaryKeys": ["id"] if is_keyed else [], "options": options}
    java.create(lake, name, definition)
    parts = 1 if kind in ("groups", "pages") else 3
    rows = {number: _row(number, "") for number in range(_ROWS)}
    for part in range(parts):
        java.write(lake, name, [rows[k] for k in range(part * _ROWS // parts, (part + 1) * _ROWS // parts)])
    table = catalog.load_table(name)
    if parts == 1:
        late = {number: _row(number, "late ") for number in _LATE}
        table.write(_arrow(late.values()))
        rows |= late
    job = compact.Job(table=name, strategy=compact.Strategy.FULL, copy=CopyMode.ALL)
    with counted_runs() as runs:
        report = compact.run(job, catalog)
    assert report.files_copied == parts, (kind, report.decoded_because)
    assert bool(runs) == (kind == "pages"), (kind, runs)
    folder = Path(table.path.removeprefix("file://")) / "bucket-0"
    files = tuple(str(folder / file.file_name) for file in live_files(table))
    return Copied(table.path, files, tuple(rows.values()))


def _row(number: int, prefix: str) -> Row:
    return {
        "id": number,
        "s": None if number % 11 == 0 else f"{prefix}text {number % 50:02d}",
        "n": number // 10 if number % 7 else None,
        "x": number * 0.25,
        "d": f"{number // 4}.{number % 100:02d}",
        "day": f"2026-{number // 400 + 1:02d}-{number % 28 + 1:02d}",
    }


def _arrow(rows: Iterable[Row]) -> pa.Table:
    table = pa.Table.from_pylist(list(rows))
    kinds = {"id": pa.int64(), "n": pa.int32(), "d": pa.decimal128(12, 2), "day": pa.date32()}
    for name, kind in kinds.items():
        table = table.set_column(table.column_names.index(name), name, table[name].cast(kind))
    return table
