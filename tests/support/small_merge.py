"""A compaction in miniature, made for tests of the proof: files in memory, a merge of a few lines, hooks to break it.

Shares no code with lakecore's merge and writers: parquet by pyarrow, descriptions by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakecore.fs.memory import MemoryFileIO
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.options import TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.row.binary_row import encode_row
from lakecore.types.datatypes import DataField, RowType, parse_type
from lakecore.verify.digest.columns import StoredFile
from lakecore.verify.digest.shape import ProofMode, RowShape, shape_of
from lakecore.verify.proof.certificate import Certifier, UnitEvidence
from lakecore.verify.proof.pick_proof import PickProof, ProofContext, check_outputs, prove_unit
from lakecore.verify.rules.merge_rules import read_merge_rules
from lakecore.verify.sample.choice import RowSample
from lakecore.verify.sample.lookups import LookupFile
from lakecore.verify.sample.merge_sample import MergeSample, sample_merge
from lakecore.verify.sample.row_sample import sample_rows

__all__ = ["Columns", "Hooks", "SmallTable", "Window"]

Columns = dict[str, np.ndarray]
_SYSTEM = ("_SEQUENCE_NUMBER", "_VALUE_KIND")


@dataclass
class Window:
    """One window on its way to the output: all rows in merge order, and verdicts. Hooks may change any of it."""

    number: int
    rows: Columns
    lost: np.ndarray
    dropped: np.ndarray
    view: Columns | None = None
    """What the certificate is shown, when that is not `rows`."""


@dataclass(frozen=True)
class Hooks:
    """Where faults go in: into what the merge reads, decides, writes, or says about its files."""

    read: Callable[[int, Columns], Columns] = lambda run, rows: rows
    window: Callable[[Window], Window] = lambda window: window
    written: Callable[[int, Columns], Columns] = lambda number, rows: rows
    described: Callable[[DataFile], DataFile] = lambda file: file
    stored: Callable[[MemoryFileIO, str], None] = lambda file_io, path: None


@dataclass
class SmallTable:
    """A primary-key table of one bucket (`key` columns), or an append table (no key)."""

    columns: Mapping[str, str]
    key: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    schema_id: int = 0
    file_io: MemoryFileIO = field(default_factory=lambda: _fresh())
    files: int = 0

    @property
    def schema(self) -> TableSchema:
        fields = tuple(DataField(i, name, parse_type(t)) for i, (name, t) in enumerate(self.columns.items()))
        return TableSchema(
            id=self.schema_id,
            fields=fields,
            highest_field_id=len(fields),
            primary_keys=self.key,
            options={"bucket": "1" if self.key else "-1", **self.options},
        )

    def shape(self, mode: ProofMode = ProofMode.KEYS) -> RowShape:
        return shape_of(self.schema, TableOptions.from_schema(self.schema), mode)

    def context(self, mode: ProofMode = ProofMode.KEYS) -> ProofContext:
        return ProofContext(
            file_io=self.file_io, shape=self.shape(mode), schemas={self.schema_id: self.schema}
        )

    def write(self, rows: Columns, hooks: Hooks = Hooks(), level: int = 0) -> StoredFile:
        """One file. Rows of a key table must be in key order, without `_KEY_` columns."""
        number, self.files = self.files, self.files + 1
        path = f"memory://proof/file-{number}.parquet"
        file = self._describe(path, rows, level)
        stored = _table(hooks.written(number, dict(rows)), self.key)
        with self.file_io.open_output(path) as out:
            pq.write_table(stored, out, row_group_size=1000, use_dictionary=False, compression="NONE")
        file = replace(file, file_size=self._size(path))
        hooks.stored(self.file_io, path)
        return StoredFile(path, hooks.described(file))

    def _size(self, path: str) -> int:
        status = self.file_io.stat(path)
        assert status is not None
        return status.size

    def _describe(self, path: str, rows: Columns, level: int) -> DataFile:
        count = len(next(iter(rows.values())))
        facts: dict[str, Any] = {
            "min_sequence_number": 0,
            "max_sequence_number": count - 1,
            "delete_row_count": 0,
        }
        if self.key:
            kinds, numbers = rows["_VALUE_KIND"], rows["_SEQUENCE_NUMBER"]
            kind = RowType(self.schema.key_type.fields)
            ends = [encode_row([_plain(rows[name][at]) for name in self.key], kind) for at in (0, -1)]
            facts = {
                "min_sequence_number": int(numbers.min()),
                "max_sequence_number": int(numbers.max()),
                "delete_row_count": int(np.isin(kinds, (1, 3)).sum()),
                "min_key": ends[0],
                "max_key": ends[1],
            }
        name = path.rpartition("/")[2]
        return DataFile(
            file_name=name, file_size=0, row_count=count, schema_id=self.schema_id, level=level, **facts
        )

    def compact(
        self,
        inputs: Sequence[tuple[StoredFile, Columns]],
        *,
        mode: ProofMode = ProofMode.KEYS,
        may_drop: bool = True,
        hooks: Hooks = Hooks(),
        windows: int = 4,
        out_files: int = 2,
    ) -> PickProof:
        """Merge, write, prove. `inputs`: files with their rows, oldest first."""
        outputs, evidence = self.merge(
            [rows for _, rows in inputs],
            mode=mode,
            may_drop=may_drop,
            hooks=hooks,
            windows=windows,
            files=out_files,
        )
        files = [file for file, _ in inputs]
        check_outputs(self.context(mode), "unit 7", outputs)
        sample = self.sample(mode, files, outputs, may_drop=may_drop)
        return prove_unit(self.context(mode), "unit 7", files, outputs, evidence, sample)

    def sample(
        self, mode: ProofMode, inputs: Sequence[StoredFile], outputs: Sequence[StoredFile], *, may_drop: bool
    ) -> RowSample | None:
        """The rows that the sampled mode compares whole; None in other modes. `inputs`: oldest first."""
        if mode is not ProofMode.SAMPLED:
            return None
        context, found = self.context(mode), [LookupFile(file) for file in inputs]
        if not self.key:
            return sample_rows(context, "unit 7", found, [LookupFile(file) for file in outputs])
        merge = MergeSample(
            runs=[[file] for file in found],
            rows=sum(file.file.row_count for file in inputs),
            outputs=outputs,
            rules=read_merge_rules(self.schema, TableOptions.from_schema(self.schema)),
            may_drop=may_drop,
            now_ms=0,
        )
        return sample_merge(context, "unit 7", merge, {})

    def merge(
        self,
        runs: Sequence[Columns],
        *,
        mode: ProofMode,
        may_drop: bool,
        hooks: Hooks = Hooks(),
        windows: int = 4,
        files: int = 2,
    ) -> tuple[list[StoredFile], UnitEvidence]:
        """The rows that survive, in files, and the certificate."""
        certifier = Certifier("unit 7", self.shape(mode), may_drop=may_drop)
        read = [hooks.read(number, dict(rows)) for number, rows in enumerate(runs)]
        kept = [self._window(w, certifier, hooks, mode) for w in self._windows(read, windows, may_drop)]
        survivors = _concat(kept)
        count = len(survivors["_VALUE_KIND"])
        cuts = [count * i // files for i in range(files + 1)]
        parts = [_take(survivors, slice(a, b)) for a, b in pairwise(cuts) if b > a]
        return [self.write(part, hooks, level=5) for part in parts], certifier.evidence

    def _windows(self, runs: list[Columns], windows: int, may_drop: bool) -> list[Window]:
        rows = _concat(runs)
        sequence = self.options.get("sequence.field", "")
        fields = [name for name in sequence.split(",") if name]
        columns = [
            rows["_SEQUENCE_NUMBER"],
            *(rows[f] for f in reversed(fields)),
            *(rows[k] for k in reversed(self.key)),
        ]
        order = np.lexsort([_codes(column) for column in columns])
        rows = _take(rows, order)
        same = np.logical_and.reduce([rows[k][1:] == rows[k][:-1] for k in self.key])
        last = np.append(~same, True)
        starts = np.flatnonzero(np.append(True, ~same))
        out = []
        for number, group in enumerate(np.array_split(np.arange(len(starts)), windows)):
            if not len(group):
                continue
            end = starts[group[-1] + 1] if group[-1] + 1 < len(starts) else len(last)
            part = slice(int(starts[group[0]]), int(end))
            inside = _take(rows, part)
            deletes = (
                np.isin(inside["_VALUE_KIND"], (1, 3)) & last[part]
                if may_drop
                else np.zeros(len(last[part]), bool)
            )
            out.append(Window(number, inside, ~last[part], deletes))
        return out

    def _window(self, window: Window, certifier: Certifier, hooks: Hooks, mode: ProofMode) -> Columns:
        window = hooks.window(window)
        rows = window.rows
        view = window.view or rows
        fields = [name for name in self.options.get("sequence.field", "").split(",") if name]
        removed = window.lost | window.dropped
        full = _table(_take(view, removed), self.key).combine_chunks() if mode is ProofMode.FULL else None
        certifier.window(
            [pa.array(view[name]) for name in self.key],
            [*(pa.array(view[name]) for name in fields), pa.array(view["_SEQUENCE_NUMBER"])],
            view["_VALUE_KIND"],
            window.lost,
            window.dropped,
            None if full is None else _batch(full),
        )
        return _take(rows, ~removed)


_COUNT = iter(range(1 << 30))


def _fresh() -> MemoryFileIO:
    return MemoryFileIO(f"proof-{next(_COUNT)}")


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _codes(column: np.ndarray) -> np.ndarray:
    return np.unique(column, return_inverse=True)[1] if column.dtype == object else column


def _take(rows: Columns, index: Any) -> Columns:
    return {name: values[index] for name, values in rows.items()}


def _concat(parts: Sequence[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _table(rows: Columns, key: Sequence[str]) -> pa.Table:
    keys = {f"_KEY_{name}": rows[name] for name in key}
    system = {name: rows[name] for name in _SYSTEM if name in rows}
    rest = {name: values for name, values in rows.items() if name not in _SYSTEM}
    return pa.table({name: pa.array(values) for name, values in {**keys, **system, **rest}.items()})


def _batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
