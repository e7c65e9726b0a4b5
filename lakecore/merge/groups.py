"""This module has the rows of one window in merge order, group by group, and folds each group into one row.

What every merge engine but deduplicate works on; changelogs look at the same groups. A group is all rows of
one key in the window. Rule of the format: a row alone in its group is not given to the engine, it passes as
it is, whatever its kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakecore.data_class import dataclass
from lakecore.merge.plain_values import plain_array, plain_values
from lakecore.merge.row_order import Bools, Indices
from lakecore.metadata.row_kind import KIND_NAME, is_retract

__all__ = [
    "NO_ROW",
    "Column",
    "Engine",
    "FoldResult",
    "FoldedGroups",
    "Groups",
    "MultiRowGroups",
    "PickedValues",
    "fold",
]

NO_ROW = -1
"""This value stands in place of a row kind for a group that leaves no row at all."""
_CHUNK_ROWS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """These are the rows of a window, by key. `order[i]` is the place in `batch` of the i-th row in merge
    order; None: the batch is in merge order.

    `last[i]` tells whether the i-th row is the last of its group. `runs` has the number of the run (0 the
    oldest) and the count of rows of each stretch of `batch`; it is empty when the rows are of no run.
    `had_several` are groups that had several rows before some were left out, which the engine folds although
    one is left; None: nothing was left out.
    """

    batch: pa.RecordBatch
    order: Indices | None
    last: Bools
    runs: tuple[tuple[int, int], ...] = ()
    had_several: Bools | None = None

    @property
    def rows(self) -> Indices:
        """Return the places in `batch`, in merge order."""
        return np.arange(self.batch.num_rows) if self.order is None else self.order

    @property
    def kinds(self) -> Any:
        """Return the kind of each row, in merge order; where the batch has none, every row adds."""
        if KIND_NAME not in self.batch.schema.names:
            return np.zeros(len(self.last), np.int8)
        return self.batch.column(KIND_NAME).to_numpy()[self.rows]

    @property
    def starts(self) -> Indices:
        """Return the place in merge order of the first row of each group."""
        return np.flatnonzero(np.append(True, self.last[:-1])) if len(self.last) else np.empty(0, np.int64)

    @property
    def run_of_rows(self) -> Indices:
        """Return the run of each row, in merge order."""
        numbers = np.repeat([run for run, _ in self.runs], [count for _, count in self.runs])
        return np.asarray(numbers[self.rows])

    def nearest(self, levels: Sequence[int]) -> Groups:
        """Return the groups without rows above the lowest level above 0 that has the key. `levels` are those
        of the runs.
        """
        if max(levels) <= 0 or not len(self.last):
            return self
        level = np.asarray(levels)[self.run_of_rows]
        high = np.where(level > 0, level, np.iinfo(level.dtype).max)
        starts = self.starts
        sizes = np.diff(starts, append=len(level))
        lowest = np.repeat(np.minimum.reduceat(high, starts), sizes)
        counts = (level <= 0) | (level == lowest)
        if counts.all():
            return self
        group = np.cumsum(np.append(True, self.last[:-1]))[counts]
        last = np.append(group[1:] != group[:-1], True)
        return Groups(batch=self.batch, order=self.rows[counts], last=last, had_several=sizes > 1)

    def chunks(self) -> Iterator[Groups]:
        """Yield the same groups in parts of about 65,536 rows; no group is divided. It copies each part."""
        ends = np.flatnonzero(self.last) + 1
        start = 0
        while start < len(self.last):
            at = int(np.searchsorted(ends, start + _CHUNK_ROWS))
            end = int(ends[min(at, len(ends) - 1)])
            part = self.batch.take(pa.array(self.rows[start:end]))
            yield Groups(batch=part, order=None, last=self.last[start:end])
            start = end


@dataclass(frozen=True, slots=True)
class MultiRowGroups:
    """The rows of groups that have several rows: `rows` (places in `batch`) and `kinds` are in merge order.

    Group i is from `starts[i]` up to `starts[i + 1]`; `starts` has one more element than there are groups.
    """

    batch: pa.RecordBatch
    rows: Indices
    kinds: Any
    starts: Indices

    @property
    def count(self) -> int:
        return len(self.starts) - 1

    @property
    def retracts(self) -> Bools:
        """Return which rows are of kind -U or -D (the odd kinds)."""
        return np.asarray(self.kinds & 1, bool)

    @property
    def groups(self) -> Indices:
        """Return the group of each row."""
        return np.repeat(np.arange(self.count), np.diff(self.starts))


@dataclass(frozen=True, slots=True, eq=False)
class PickedValues:
    """These are the values of a column after a fold, as places in the window's batch; a negative place is
    null.
    """

    rows: Indices


Column: TypeAlias = PickedValues | pa.Array
"""This is a column after a fold, with one value a group, which is picked from the rows or made anew."""


@dataclass(frozen=True, slots=True)
class FoldResult:
    """An engine makes it of `MultiRowGroups`: `columns` by name, and a kind (or `NO_ROW`) for each group."""

    columns: Mapping[str, Column]
    kinds: Any


class Engine(Protocol):
    """An engine decides how the rows of one key become one row (`merge-engine`). It pickles; keeps nothing
    between calls.
    """

    @property
    def keeps_single(self) -> bool:
        """Return whether a row that adds, folded alone, keeps its own values: such rows may be folded with
        all others.
        """
        ...

    def needed(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the columns that folding `columns` needs besides them."""
        ...

    def fold(self, several: MultiRowGroups, columns: Sequence[str]) -> FoldResult:
        """Fold each group. `columns` includes `_VALUE_KIND` only if its values are in `FoldResult.kinds`.

        Raises UnsupportedError for a retraction that the engine cannot take.
        """
        ...


@dataclass(frozen=True, slots=True)
class FoldedGroups:
    """It has one row a group, in key order. `several[i]`: group i was given to the engine.

    `present`: groups that left a row; `batch` and `kinds` hold only these.
    """

    batch: pa.RecordBatch
    kinds: Any
    several: Bools
    present: Bools


def fold(
    groups: Groups, engine: Engine, columns: Sequence[str] | None = None, *, singles: bool = False
) -> FoldedGroups:
    """Fold every group into one row of `columns` (None: all of the batch). It does no work in Python for each
    row.

    `singles`: groups of one row are given to the engine too (rule of the format for merges that look rows
    up). Raises what `Engine.fold` raises.
    """
    batch = groups.batch
    names = list(batch.schema.names if columns is None else columns)
    starts = groups.starts
    sizes = np.diff(starts, append=len(groups.last))
    many = sizes > (0 if singles else 1)
    if groups.had_several is not None:
        many |= groups.had_several
    kinds = groups.kinds
    picked = groups.rows[starts]
    result_kinds = kinds[starts]
    if not many.any():
        present = np.ones(len(starts), bool)
        selected = batch.select(names)
        values = selected if groups.order is None else selected.take(pa.array(picked))
        return FoldedGroups(values, result_kinds, many, present)
    if engine.keeps_single and not is_retract(kinds).any():
        folded = engine.fold(MultiRowGroups(batch, groups.rows, kinds, np.append(starts, len(kinds))), names)
        result_kinds[many] = folded.kinds[many]
        places = None
    else:
        member = np.repeat(many, sizes)
        offsets = np.concatenate(([0], np.cumsum(sizes[many])))
        folded = engine.fold(MultiRowGroups(batch, groups.rows[member], kinds[member], offsets), names)
        result_kinds[many] = folded.kinds
        places = np.flatnonzero(many)
    present = result_kinds != NO_ROW
    target = _Target(batch, picked, places, present)
    values = _columns(target, names, folded, result_kinds)
    return FoldedGroups(values, result_kinds[present], many, present)


class _Target:
    """A builder of columns from single rows and folded groups. `places` are those of the folded groups; None:
    all.
    """

    def __init__(
        self, batch: pa.RecordBatch, picked: Indices, places: Indices | None, present: Bools
    ) -> None:
        self.batch = batch
        self.present = present
        self._all_present = bool(present.all())
        self._picked = picked
        self._places = places

    def take(self, names: Sequence[str], picked: PickedValues) -> Mapping[str, pa.Array]:
        """Return columns that are picked alike."""
        indices = self._index(picked.rows)
        rows = pc.take(self.batch.select(list(names)), indices, boundscheck=bool(indices.null_count))
        return dict(zip(names, rows.columns, strict=True))

    def mixed(self, name: str, new_values: pa.Array) -> pa.Array:
        column = self.batch.column(name)
        values, new = plain_values(column), plain_values(new_values)
        if values is not None and new is not None:
            put = self._put(values[self._picked], new)
            return plain_array(put if self._all_present else put[self.present], column.type)
        places = len(column) + np.arange(len(new_values))
        return pa.concat_arrays([column, new_values]).take(self._index(places))

    def _index(self, several: Indices) -> pa.Array:
        rows = self._put(self._picked.copy(), several)
        if not self._all_present:
            rows = rows[self.present]
        return pa.array(rows, mask=rows < 0) if (several < 0).any() else pa.array(rows)

    def _put(self, values: Any, folded: Any) -> Any:
        if self._places is None:
            return folded
        values[self._places] = folded
        return values


def _columns(target: _Target, names: Sequence[str], folded: FoldResult, kinds: Any) -> pa.RecordBatch:
    alike: dict[int, tuple[PickedValues, list[str]]] = {}
    arrays: dict[str, pa.Array] = {}
    for name in names:
        value = None if name == KIND_NAME else folded.columns[name]
        if value is None:
            arrays[name] = pa.array(kinds[target.present], pa.int8())
        elif isinstance(value, PickedValues):
            alike.setdefault(id(value), (value, []))[1].append(name)
        else:
            arrays[name] = target.mixed(name, value)
    for picked, together in alike.values():
        arrays |= target.take(together, picked)
    schema = pa.schema([target.batch.schema.field(name) for name in names])
    return pa.RecordBatch.from_arrays([arrays[name] for name in names], schema=schema)
