"""Merge engines in miniature, for tests of the proof: one row and one key at a time, in plain Python.

Shares no code with lakecore's merge nor with its proof; hooks break what the merge reads, makes or says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.metadata.options import TableOptions
from lakecore.verify.digest.columns import StoredFile
from lakecore.verify.digest.shape import ProofMode
from lakecore.verify.recompute.account import MergeCertifier
from lakecore.verify.recompute.evidence import Fate, FoldedWindow, MergeEvidence
from lakecore.verify.rules.merge_rules import read_merge_rules
from tests.support.small_merge import Hooks, SmallTable

__all__ = ["FoldHooks", "Row", "Rows", "SmallFold"]

Row = dict[str, Any]
Rows = list[Row]
SEQUENCE, KIND = "_SEQUENCE_NUMBER", "_VALUE_KIND"
INSERT, DELETE = 0, 3


@dataclass(frozen=True)
class FoldHooks:
    """`read`: what is merged. `results`: the results. `view`: what the certifier is given in place of the truth."""

    read: Callable[[Rows], Rows] = lambda rows: rows
    results: Callable[[Rows], Rows] = lambda rows: rows
    view: Callable[[dict[str, Any]], dict[str, Any]] = lambda window: window


@dataclass
class SmallFold:
    """A table of one bucket with a merge engine; `now_ms` for record-level expiry."""

    table: SmallTable
    now_ms: int = 0
    types: dict[str, pa.DataType] = field(default_factory=dict)

    @property
    def options(self) -> dict[str, str]:
        return dict(self.table.options)

    @property
    def names(self) -> list[str]:
        return list(self.table.columns)

    def write(self, rows: Rows, hooks: Hooks | None = None, level: int = 0) -> StoredFile:
        return self.table.write(self.columns(rows), hooks or Hooks(), level)

    def columns(self, rows: Rows) -> dict[str, Any]:
        out: dict[str, Any] = {
            SEQUENCE: np.array([row[SEQUENCE] for row in rows], np.int64),
            KIND: np.array([row[KIND] for row in rows], np.int8),
        }
        for name in self.names:
            out[name] = np.array([*(row[name] for row in rows), None], object)[:-1]
        return out

    def batch(self, rows: Rows) -> pa.RecordBatch:
        arrays = {
            SEQUENCE: pa.array([row[SEQUENCE] for row in rows], pa.int64()),
            KIND: pa.array([row[KIND] for row in rows], pa.int8()),
        }
        for name in self.names:
            arrays[name] = pa.array([row[name] for row in rows], self.types[name])
        return pa.RecordBatch.from_pydict(arrays)

    def merge(
        self,
        runs: Sequence[Rows],
        *,
        mode: ProofMode,
        may_drop: bool = True,
        hooks: FoldHooks | None = None,
        written: Hooks | None = None,
        windows: int = 3,
    ) -> tuple[list[StoredFile], MergeEvidence]:
        """The results in a file, and the account."""
        schema = self.table.schema
        rules = read_merge_rules(schema, TableOptions.from_schema(schema))
        shape = self.table.shape(mode)
        certifier = MergeCertifier("unit 7", shape, rules, may_drop=may_drop, now_ms=self.now_ms)
        hooks = hooks or FoldHooks()
        rows = self._ordered(hooks.read([row for run in runs for row in run]))
        groups = [list(found) for _, found in groupby(rows, key=self._key)]
        results: Rows = []
        for part in np.array_split(np.arange(len(groups)), windows):
            results += self._window([groups[i] for i in part], certifier, may_drop, hooks)
        return ([self.write(results, written, 5)] if results else []), certifier.evidence

    def _window(
        self, groups: list[Rows], certifier: MergeCertifier, may_drop: bool, hooks: FoldHooks
    ) -> Rows:
        results, places = [], []
        fates: list[int] = []
        for place, group in enumerate(groups):
            live = [row for row in group if not self._expired(row)]
            result = self._fold(live) if live else None
            if result is not None and not (may_drop and result[KIND] in (1, 3)):
                results.append(result)
                places.append(place)
            fates += [self._fate(row, live) for row in group]
        results = hooks.results(results)
        view = hooks.view(
            {
                "rows": self.batch([row for group in groups for row in group]),
                "results": self.batch(results),
                "groups": np.array(places, np.int64),
                "fates": np.array(fates, np.int8),
            }
        )
        certifier.window(FoldedWindow(**view))
        return results

    def _ordered(self, rows: Rows) -> Rows:
        fields = [name for name in self.options.get("sequence.field", "").split(",") if name]

        def order(row: Row) -> Any:
            values = [(row[name] is not None, row[name] if row[name] is not None else 0) for name in fields]
            return (self._key(row), values, row[SEQUENCE])

        return sorted(rows, key=order)

    def _key(self, row: Row) -> Any:
        return tuple(row[name] for name in self.table.key)

    def _on(self, key: str) -> bool:
        return self.options.get(key, "false") == "true"

    def _expired(self, row: Row) -> bool:
        if "record-level.expire-time" not in self.options:
            return False
        time = row[self.options["record-level.time-field"]]
        return time is not None and self.now_ms // 1000 > time + 100

    def _fate(self, row: Row, live: Rows) -> Fate:
        if self._expired(row):
            return Fate.EXPIRED
        ignores = self._on("ignore-delete") and row[KIND] in (1, 3) and len(live) > 1
        return Fate.IGNORED if ignores else Fate.FOLDED

    def _fold(self, rows: Rows) -> Row | None:
        if len(rows) == 1:
            return rows[0]
        engine = self.options.get("merge-engine", "deduplicate")
        if engine in ("first-row", "deduplicate"):
            counted = [row for row in rows if not (self._on("ignore-delete") and row[KIND] in (1, 3))]
            return (counted[0] if engine == "first-row" else counted[-1]) if counted else None
        return self._aggregate(rows) if engine == "aggregation" else self._update(rows)

    def _aggregate(self, rows: Rows) -> Row:
        states = {name: _State(self._function(name), name, self.options) for name in self.names}
        deleted = False
        for row in rows:
            deleted = row[KIND] == DELETE and self._on("aggregation.remove-record-on-delete")
            for name, state in states.items():
                if deleted:
                    state.value = row[name]
                elif row[KIND] in (1, 3):
                    state.retract(row[name])
                else:
                    state.add(row[name])
        values = {name: state.value for name, state in states.items()}
        return {**values, SEQUENCE: rows[-1][SEQUENCE], KIND: DELETE if deleted else INSERT}

    def _function(self, name: str) -> str:
        if name in self.options.get("sequence.field", "").split(","):
            return "last_value"
        if name in self.table.key:
            return "key"
        default = self.options.get("fields.default-aggregate-function", "last_non_null_value")
        return self.options.get(f"fields.{name}.aggregate-function", default)

    def _update(self, rows: Rows) -> Row:
        groups = {
            tuple(key[len("fields.") : -len(".sequence-group")].split(",")): value.split(",")
            for key, value in self.options.items()
            if key.endswith(".sequence-group")
        }
        merged = _Update(self, groups)
        for row in rows:
            merged.add(row)
        kind = DELETE if merged.deleted or not merged.met_insert else INSERT
        return {**merged.values, SEQUENCE: merged.number, KIND: kind}


class _State:
    """One column by its aggregate function."""

    def __init__(self, function: str, name: str, options: dict[str, str]) -> None:
        self.function = function
        self.value: Any = None
        self._known = False
        self._keeps = options.get(f"fields.{name}.ignore-retract") == "true"

    def add(self, value: Any) -> None:
        self.value = self._combined(self.value, value)

    def add_late(self, value: Any) -> None:
        self.value = self._combined(value, self.value)

    def _combined(self, now: Any, new: Any) -> Any:
        match self.function:
            case "key" | "last_value":
                return new
            case "last_non_null_value":
                return now if new is None else new
            case "first_value":
                known, self._known = self._known, True
                return now if known else new
            case "first_non_null_value":
                if self._known or new is None:
                    return now
                self._known = True
                return new
        if now is None or new is None:
            return new if now is None else now
        match self.function:
            case "sum":
                return now + new
            case "product":
                return now * new
            case "max":
                return max(now, new)
            case "min":
                return min(now, new)
            case "bool_or":
                return now or new
            case "bool_and":
                return now and new
        return f"{now},{new}"

    def retract(self, value: Any) -> None:
        if self._keeps:
            return
        match self.function:
            case "key":
                self.value = value
            case "last_value":
                self.value = None
            case "last_non_null_value":
                self.value = self.value if value is None else None
            case "sum" if value is not None:
                self.value = -value if self.value is None else self.value - value


class _Update:
    """Merge engine partial-update."""

    def __init__(self, table: SmallFold, groups: dict[tuple[str, ...], list[str]]) -> None:
        self._table = table
        self._groups = groups
        self._states = {
            name: _State(table.options[f"fields.{name}.aggregate-function"], name, table.options)
            for name in table.names
            if f"fields.{name}.aggregate-function" in table.options
        }
        self.values: Row = dict.fromkeys(table.names)
        self.number = 0
        self.deleted = self.met_insert = self._filled = False

    def add(self, row: Row) -> None:
        self.deleted = False
        if row[KIND] in (1, 3):
            if not self._filled:
                self._start(row)
            self._filled = True
            if not self._table._on("ignore-delete"):
                self.number = row[SEQUENCE]
                self._retract(row)
            return
        self.number = row[SEQUENCE]
        self.met_insert = self._filled = True
        grouped = {n for sequence, names in self._groups.items() for n in (*sequence, *names)}
        for name in self._table.names:
            if name not in grouped and row[name] is not None:
                self.values[name] = row[name]
        for sequence, names in self._groups.items():
            self._add_group(row, sequence, names)

    def _start(self, row: Row) -> None:
        self.values = {name: row[name] for name in self._table.names}

    def _fresh(self, row: Row, sequence: tuple[str, ...]) -> bool | None:
        """None: no sequence at all."""
        if all(row[name] is None for name in sequence):
            return None

        def order(values: Row) -> list[tuple[bool, Any]]:
            return [(values[name] is not None, values[name] or 0) for name in sequence]

        return order(row) >= order(self.values)

    def _add_group(self, row: Row, sequence: tuple[str, ...], names: list[str]) -> None:
        fresh = self._fresh(row, sequence)
        if fresh is None:
            return
        for name in names:
            state = self._states.get(name)
            if state is not None:
                state.value = self.values[name]
                (state.add if fresh else state.add_late)(row[name])
                self.values[name] = state.value
            elif fresh:
                self.values[name] = row[name]
        if fresh:
            self.values |= {name: row[name] for name in sequence}

    def _retract(self, row: Row) -> None:
        if self._table._on("partial-update.remove-record-on-delete"):
            if row[KIND] == DELETE:
                self.deleted = True
                self._start(row)
            return
        removing = self._table.options.get("partial-update.remove-record-on-sequence-group", "").split(",")
        for sequence, names in self._groups.items():
            fresh = self._fresh(row, sequence)
            if fresh is None:
                continue
            if fresh and row[KIND] == DELETE and set(removing) & set(sequence):
                self.deleted = True
                self._start(row)
                return
            for name in names:
                state = self._states.get(name)
                if state is not None:
                    state.value = self.values[name]
                    state.retract(row[name])
                    self.values[name] = state.value
                elif fresh:
                    self.values[name] = None
            if fresh:
                self.values |= {name: row[name] for name in sequence}
