"""Tables made by the steps of a text, in a process whose time and ids are fixed, and the digest of all their files.

The verbs are the functions at the end. `python -m tests.support.recorded TEXT CASE FOLDER` stores the files of one case
of `tests/lakecore/testdata/recorded_bytes`, so that those of two versions of lakecore can be compared with `diff -r`.
"""

from __future__ import annotations

import hashlib
import importlib
import itertools
import json
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.fs.memory import MemoryFileIO
from lakecore.row.variant import parse_variant
from lakecore.table import Commit, Table
from lakecore.types.arrow import arrow_schema

__all__ = ["digest", "files_after"]

NAME = "d.t"
MINUTE = 60_000
JOBS = {
    "analyze": ("analyze", "Job"),
    "compact": ("compact", "Job"),
    "compact-manifest": ("repair.metadata", "CompactManifest"),
    "create-branch": ("versions.branches", "CreateBranch"),
    "create-tag": ("versions.tags", "CreateTag"),
    "delete-tag": ("versions.tags", "DeleteTag"),
    "drop-partition": ("partitions", "DropPartition"),
    "expire-changelogs": ("expire_changelogs", "Job"),
    "expire-partitions": ("partitions", "ExpirePartitions"),
    "expire-snapshots": ("expire_snapshots", "Job"),
    "fast-forward": ("versions.branches", "FastForward"),
    "mark-partition-done": ("partitions", "MarkPartitionDone"),
    "merge-branch": ("versions.merge_branch", "Job"),
    "remove-orphan-files": ("remove_orphan_files", "Job"),
    "rescale": ("rescale", "Job"),
    "rewrite-file-index": ("rewrite_file_index", "Job"),
    "rollback": ("versions.rollback", "RollbackTo"),
    "rollback-as-latest": ("versions.rollback", "RollbackToAsLatest"),
}
"""Module below lakecore.jobs, and class, of each job that a text may name."""


class StepClock:
    """Shows the same time during a whole step, however often and long anybody waits; ids are numbers in order."""

    def __init__(self) -> None:
        self.time_ms = 1_700_000_000_000
        self._slept = 0.0
        self._ids = itertools.count(1)

    def now_ms(self) -> int:
        return self.time_ms

    def monotonic(self) -> float:
        self._slept += 0.001
        return self._slept

    def sleep(self, seconds: float) -> None:
        self._slept += seconds

    def fresh_id(self) -> str:
        return str(uuid.UUID(int=next(self._ids) << 64))


@dataclass
class Making:
    """A table that is being made. `branch`: where the next writes go. `number`: of the step, from 1."""

    lake: FilesystemCatalog
    clock: StepClock
    columns: list[str]
    keys: list[str]
    partitions: list[str]
    options: dict[str, str]
    branch: str = ""
    number: int = 0

    @property
    def table(self) -> Table:
        """The table as it is now; made when it is first asked for."""
        if not self.lake.file_io.list(f"{self.lake.warehouse}/d.db/t"):
            definition = {
                "columns": self.columns,
                "primaryKeys": self.keys,
                "partitionKeys": self.partitions,
                "options": self.options,
            }
            self.lake.create_table(NAME, definition)
        table = self.lake.load_table(NAME)
        return table.at_branch(self.branch) if self.branch else table

    @property
    def commit(self) -> Commit:
        return Commit(user="recorder", identifier=self.number)


def files_after(name: str, steps: Sequence[str]) -> dict[str, bytes]:
    """The files of the table `d.t` after the steps, by their path in the table, in order. Leases and ledgers are not part of it."""
    with _universal_time():
        return _files_after(name, steps)


@contextmanager
def _universal_time() -> Iterator[None]:
    """Times of files are stored as clocks on the wall show them."""
    before = os.environ.get("TZ")
    try:
        _set_zone("UTC")
        yield
    finally:
        _set_zone(before)


def _set_zone(zone: str | None) -> None:
    if zone is None:
        os.environ.pop("TZ", None)
    else:
        os.environ["TZ"] = zone
    time.tzset()


def _files_after(name: str, steps: Sequence[str]) -> dict[str, bytes]:
    clock = StepClock()
    storage = MemoryFileIO(f"recorded-{name}", clock)
    storage.clear()
    lake = replace(load_catalog(f"memory://recorded-{name}/wh"), file_io=storage, clock=clock)
    making = Making(lake, clock, [], [], [], {})
    for number, step in enumerate(steps, 1):
        verb, _, rest = step.partition(" ")
        making.number = number
        clock.time_ms += MINUTE
        _VERBS[verb](making, rest) if verb in _VERBS else _job(making, verb, rest)
    root = f"{lake.warehouse}/d.db/t/"
    found = {path.removeprefix(root): storage.read(path) for path in sorted(_paths(storage, root))}
    storage.clear()
    return found


def digest(files: dict[str, bytes]) -> str:
    """One text for the names and bytes of all files."""
    total = hashlib.sha256()
    for path, data in sorted(files.items()):
        total.update(f"{path}\n{hashlib.sha256(data).hexdigest()}\n".encode())
    size = sum(map(len, files.values()))
    return f"sha256 {total.hexdigest()}, {len(files)} files, {size} bytes"


def _paths(storage: MemoryFileIO, folder: str) -> Iterator[str]:
    for status in storage.list(folder):
        if status.is_dir:
            yield from _paths(storage, status.path)
        else:
            yield status.path


def _values(making: Making, schema: pa.Schema, rows: Sequence[int]) -> list[dict[str, Any]]:
    """Rows by their number: keys and partitions depend on it alone, other columns on the step, too."""
    fixed = {*making.table.schema.primary_keys, *making.table.schema.partition_keys}
    fixed |= {name.strip() for name in making.table.schema.options.get("bucket-key", "").split(",")}
    found = []
    for row in rows:
        values = {}
        for place, field in enumerate(schema):
            salt = row * 31 + making.number * 17 + place * 7
            if field.name in making.partitions:
                values[field.name] = _value(field.type, row % 2)
            elif field.name in fixed:
                values[field.name] = _value(field.type, row)
            else:
                values[field.name] = None if salt % 7 == 0 and field.nullable else _value(field.type, salt)
        found.append(values)
    return found


def _value(kind: pa.DataType, n: int) -> Any:
    """A value of the type for a number."""
    if pa.types.is_struct(kind):
        if [field.name for field in kind] == ["value", "metadata"]:
            text = json.dumps({"l": [n, None], "n": n, "s": f"s{n % 5}"} if n % 4 else {"n": f"text {n}"})
            return dict(zip(("value", "metadata"), parse_variant(text), strict=True))
        return {field.name: _value(field.type, n + at) for at, field in enumerate(kind)}
    if pa.types.is_fixed_size_list(kind):
        return [_value(kind.value_type, n + at) for at in range(kind.list_size)]
    if pa.types.is_list(kind):
        return [_value(kind.value_type, n + at) for at in range(n % 4)]
    if pa.types.is_map(kind):
        return [(_value(kind.key_type, n + at), _value(kind.item_type, n * at)) for at in range(n % 3)]
    return _atom(kind, n)


def _atom(kind: pa.DataType, n: int) -> Any:
    makers: dict[Any, Callable[[], Any]] = {
        pa.bool_(): lambda: n % 3 == 0,
        pa.int8(): lambda: n % 100,
        pa.float32(): lambda: n / 4,
        pa.float64(): lambda: n / 3,
        pa.string(): lambda: f"v{n:04}",
        pa.binary(): lambda: b"%d" % n * (n % 4),
        pa.date32(): lambda: date(2020, 1, 1) + timedelta(days=n),
        pa.time32("ms"): lambda: time_of_day(n % 24, n % 60),
    }
    if pa.types.is_decimal(kind):
        return Decimal(n) / 10**kind.scale
    if pa.types.is_timestamp(kind):
        return datetime(2020, 1, 1, tzinfo=UTC if kind.tz else None) + timedelta(hours=n)
    return makers[kind]() if kind in makers else n


def _rows(text: str) -> list[int]:
    """`0-4,9`: 0, 1, 2, 3, 4 and 9."""
    parts = [part.split("-") for part in text.split(",")]
    return [row for part in parts for row in range(int(part[0]), int(part[-1]) + 1)]


def _write(making: Making, rest: str) -> None:
    """`write ROWS [KIND]`: rows in an order that is not that of their numbers."""
    making.table.write(_data(making, rest), making.commit)


def _data(making: Making, rest: str) -> pa.Table:
    numbers, _, kind = rest.partition(" ")
    schema = arrow_schema(making.table.schema.row_type)
    rows = sorted(_rows(numbers), key=lambda row: (row * 13 % 17, row))
    data = pa.Table.from_pylist(_values(making, schema, rows), schema)
    return data.append_column("_kind", pa.array([kind] * len(rows))) if kind else data


def _overwrite(making: Making, rest: str) -> None:
    """`overwrite ROWS`: as the table's options say."""
    making.table.overwrite(_data(making, rest), commit=making.commit)


def _delete(making: Making, rest: str) -> None:
    """`delete CONDITION`"""
    making.table.delete(rest, making.commit)


def _update(making: Making, rest: str) -> None:
    """`update COLUMN IDS`: the column gets new values in the rows with these ids."""
    column, _, numbers = rest.partition(" ")
    ids, field = _rows(numbers), arrow_schema(making.table.schema.row_type).field(column)
    values = pa.array([_value(field.type, number + making.number) for number in ids], field.type)
    making.table.update_columns(pa.table({"_ROW_ID": pa.array(ids), column: values}), making.commit)


def _alter(making: Making, rest: str) -> None:
    """`alter CHANGE`: as JSON."""
    making.lake.alter_table(NAME, json.loads(rest))


def _session(making: Making, rest: str) -> None:
    """`with OPTIONS write ROWS`: options for this write only."""
    options, _, rows = rest.partition(" write ")
    making.table.with_options(_pairs(options)).write(_data(making, rows), making.commit)


def _job(making: Making, verb: str, rest: str) -> None:
    """`JOB PARAMETER=VALUE; …`: a job of lakecore with a fixed user, identifier and seed. Digits are a number unless quoted."""
    place, kind = JOBS[verb]
    module = importlib.import_module(f"lakecore.jobs.{place}")
    job = getattr(module, kind)
    fixed = {
        "commit_user": "recorder",
        "commit_identifier": making.number * 1000,
        "proof_seed": "recorded",
        "owner": "recorder",
        "safety": {"owner": "recorder", "quarantine": False},
    }
    given = {one.name: fixed[one.name] for one in fields(job) if one.name in fixed}
    given |= {key: _parameter(value) for key, value in _pairs(rest).items() if "options." not in key}
    options = {k.removeprefix("options."): v for k, v in _pairs(rest).items() if k.startswith("options.")}
    module.run(
        job.from_json({"table": making.table.name, **given, "options": options}),
        making.lake,
        clock=making.clock,
    )


def _pairs(text: str) -> dict[str, str]:
    pairs = (one.partition("=") for one in text.split("; ") if one)
    return {key.strip(): value.strip() for key, _, value in pairs}


def _parameter(text: str) -> Any:
    if text.startswith("["):
        return tuple(text.strip("[]").split(","))
    return int(text) if text.isdigit() else text.strip('"')


def _columns(making: Making, rest: str) -> None:
    """`columns NAME TYPE, …`"""
    depth, making.columns = 0, [""]
    for char in rest:
        depth += (char in "<(") - (char in ">)")
        if char == "," and depth == 0:
            making.columns.append("")
        else:
            making.columns[-1] += char


def _key(making: Making, rest: str) -> None:
    making.keys = rest.split(", ")


def _partition(making: Making, rest: str) -> None:
    making.partitions = rest.split(", ")


def _options(making: Making, rest: str) -> None:
    """`options KEY=VALUE; …`"""
    making.options |= _pairs(rest)


def _branch(making: Making, rest: str) -> None:
    """`branch NAME`: further steps are on this branch; `branch main` ends that."""
    making.branch = "" if rest == "main" else rest


def _wait(making: Making, rest: str) -> None:
    """`wait DAYS`"""
    making.clock.time_ms += int(rest) * 24 * 60 * MINUTE


_VERBS: dict[str, Callable[[Making, str], None]] = {
    "alter": _alter,
    "branch": _branch,
    "columns": _columns,
    "delete": _delete,
    "key": _key,
    "options": _options,
    "overwrite": _overwrite,
    "partition": _partition,
    "update": _update,
    "wait": _wait,
    "with": _session,
    "write": _write,
}


def _store(text: Path, name: str, folder: Path) -> None:
    blocks = text.read_text().split("\n\n")
    block = next(block for block in blocks if f"record name={name}\n" in block)
    steps = block.partition("\n----\n")[0].partition(f"record name={name}\n")[2].splitlines()
    for path, data in files_after(name, steps).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)


if __name__ == "__main__":
    _store(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
