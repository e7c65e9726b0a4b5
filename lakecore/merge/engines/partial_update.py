"""Merge engine partial-update: columns without a value keep what they had, groups of them their own order.

A sequence group is a set of columns and the sequence columns that order them: a row counts for the group
only if its sequence is not below the one that is there, and not at all where its sequence is null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakecore.data_class import dataclass
from lakecore.errors import InvalidOptionError, UnsupportedError
from lakecore.merge.engines.events import Events, Step
from lakecore.merge.engines.functions import FieldRule, field_rule, function_name
from lakecore.merge.engines.positions import LastNonNull, LastValue
from lakecore.merge.engines.sequence_groups import SequenceResult, compare_sequences
from lakecore.merge.groups import Column, FoldResult, MultiRowGroups, PickedValues
from lakecore.merge.row_order import Bools, Indices, in_total_order
from lakecore.metadata.options import TableOptions
from lakecore.metadata.row_kind import KIND_NAME, SEQUENCE_NAME, RowKind
from lakecore.metadata.schema import TableSchema
from lakecore.options import Option, parse_bool, parse_list

__all__ = ["PartialUpdate", "SequenceGroup"]

REMOVE_ON_DELETE = Option(
    "partial-update.remove-record-on-delete", parse_bool, False, "A -D row removes the whole row."
)
REMOVE_ON_GROUP: Option[tuple[str, ...]] = Option(
    "partial-update.remove-record-on-sequence-group",
    parse_list,
    (),
    "Sequence columns whose -D rows remove the whole row.",
)
_PREFIX, _SUFFIX = "fields.", ".sequence-group"


@dataclass(frozen=True, slots=True)
class SequenceGroup:
    """A sequence group: `sequence` has its sequence columns in order, `fields` the columns that they order,
    with their functions.

    `fields[name]` None: the value of the winning row, null or not. `removes`: its -D rows delete the key.
    """

    sequence: tuple[str, ...]
    fields: Mapping[str, FieldRule | None]
    removes: bool


@dataclass(frozen=True, slots=True)
class PartialUpdate:
    """`groups` are the sequence groups; columns in none of them keep the last value that is not null."""

    table: str
    keys: tuple[str, ...]
    groups: tuple[SequenceGroup, ...]
    remove_on_delete: bool
    ignore_retracts: bool

    @classmethod
    def of(cls, table: str, schema: TableSchema, options: TableOptions) -> PartialUpdate:
        """Return the engine of a table. Raises InvalidOptionError for options that contradict each other or
        name no column.
        """
        remove = REMOVE_ON_DELETE.read(schema.options)
        groups = _groups(schema)
        _check(table, schema, options, groups)
        return cls(table, schema.primary_keys, groups, remove, options.ignore_delete)

    @property
    def keeps_single(self) -> bool:
        """Return whether there are no groups: rows without a sequence do not count for its group, unless they
        are alone.
        """
        return not self.groups

    def needed(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the sequence columns of the groups of `columns`, and of groups that may delete the key."""
        needed_columns = set(columns)
        used = [
            group
            for group in self.groups
            if group.removes or needed_columns & {*group.fields, *group.sequence}
        ]
        return tuple(name for group in used for name in group.sequence)

    def fold(self, several: MultiRowGroups, columns: Sequence[str]) -> FoldResult:
        """Fold the rows of each key. Raises UnsupportedError for a retraction if no option says what becomes
        of it.
        """
        retracts = several.retracts
        starts = several.starts[:-1]
        if self.groups:
            return self._fold_groups(several, columns)
        if not retracts.any():
            return self._fold_adds(several, columns)
        deletes = several.kinds == RowKind.DELETE
        if retracts.any() and not (self.ignore_retracts or self.remove_on_delete):
            raise UnsupportedError(
                f"table {self.table}: partial-update accepts no -U and -D rows with these "
                "options; set option "
                f"ignore-delete, {REMOVE_ON_DELETE.key}, or sequence groups (fields.<column>{_SUFFIX})"
            )
        steps = np.zeros(len(retracts), np.int8)
        sets = deletes if self.remove_on_delete else np.zeros(len(retracts), bool)
        sets[starts] |= retracts[starts]
        steps[sets] = Step.SET
        events = Events(several.rows, steps, several.starts).keep(sets | ~retracts)
        rule = LastNonNull()
        results = {
            name: self._system(name, several) or rule.fold(several.batch.column(name), events)
            for name in columns
            if name != KIND_NAME
        }
        ends = several.starts[1:] - 1
        deleted = deletes[ends] if self.remove_on_delete else np.zeros(len(ends), bool)
        return FoldResult(results, _kinds(several, deleted))

    def _fold_adds(self, several: MultiRowGroups, columns: Sequence[str]) -> FoldResult:
        events = Events(several.rows, np.full(len(several.rows), int(Step.ADD), np.int8), several.starts)
        rule = LastNonNull()
        results = {
            name: rule.fold(several.batch.column(name), events) if self._folds(name) else events.latest
            for name in columns
            if name != KIND_NAME
        }
        return FoldResult(results, np.full(several.count, int(RowKind.INSERT), np.int8))

    def _folds(self, name: str) -> bool:
        """Return whether a column is folded. Keys and system columns are taken from the last row."""
        return name not in self.keys and not name.startswith("_KEY_") and name != SEQUENCE_NAME

    def _system(self, name: str, several: MultiRowGroups) -> Column | None:
        """Return a key or system column, which is that of the last row, or None for others; rows that are
        ignored have number 0.
        """
        if self._folds(name):
            return None
        ends = several.starts[1:] - 1
        if name != SEQUENCE_NAME or not self.ignore_retracts:
            return PickedValues(several.rows[ends])
        events = Events(several.rows, several.kinds, several.starts).keep(~several.retracts)
        last = events.picks(events.last_where(np.ones(len(events), bool)))
        if (last >= 0).all():
            return PickedValues(last)
        numbers = several.batch.column(name).to_numpy()
        return pa.array(np.where(last < 0, 0, numbers[last]))

    def _fold_groups(self, several: MultiRowGroups, columns: Sequence[str]) -> FoldResult:
        retracts = several.retracts
        used = [group for group in self.groups if self._is_used(group, columns)]
        ranks = [_ranks(several, group.sequence) for group in used]
        removing = [i for i, group in enumerate(used) if group.removes]
        taking = ~retracts if self.ignore_retracts else np.ones(len(retracts), bool)
        ranks_taken = compare_sequences(several, ranks, removing, taking)
        folded: dict[str, Column] = {}
        for group, standing in zip(used, ranks_taken.groups, strict=True):
            folded |= self._group_columns(several, group, standing, ranks_taken.resets, columns)
        plain = _events(
            several, ranks_taken.resets, ~retracts, np.full(len(retracts), int(Step.ADD), np.int8)
        )
        rest = LastNonNull()
        for name in columns:
            if name != KIND_NAME and name not in folded:
                folded[name] = self._system(name, several) or rest.fold(several.batch.column(name), plain)
        ends = several.starts[1:] - 1
        return FoldResult(folded, _kinds(several, ranks_taken.removed[ends]))

    def _is_used(self, group: SequenceGroup, columns: Sequence[str]) -> bool:
        return group.removes or bool(set(columns) & {*group.fields, *group.sequence})

    def _group_columns(
        self,
        several: MultiRowGroups,
        group: SequenceGroup,
        standing: SequenceResult,
        resets: Bools,
        columns: Sequence[str],
    ) -> dict[str, Column]:
        """Return the columns of one group: `wins` are rows that count, `late` those with a lower sequence."""
        retracts = several.retracts
        adds = np.full(len(retracts), int(Step.ADD), np.int8)
        steps = np.where(retracts, int(Step.RETRACT), int(Step.ADD)).astype(np.int8)
        both = np.where(standing.late & ~retracts, int(Step.OLDER), steps).astype(np.int8)
        sequence = _events(several, resets, standing.wins, adds)
        winning = _events(several, resets, standing.wins, steps)
        everything = _events(several, resets, standing.wins | standing.late, both)
        results: dict[str, Column] = {}
        for name in columns:
            column = several.batch.column(name)
            if name in group.sequence:
                results[name] = LastValue().fold(column, sequence)
            elif name in group.fields:
                rule = group.fields[name]
                results[name] = (
                    self._fold(rule, column, everything) if rule else LastValue().fold(column, winning)
                )
        return results

    def _fold(self, rule: FieldRule, column: Any, events: Events) -> Column:
        try:
            return rule.fold(column, events)
        except UnsupportedError as err:
            raise UnsupportedError(f"table {self.table}: {err}") from err


def _kinds(several: MultiRowGroups, deleted: Bools) -> Any:
    """Return the row kinds: a key whose last row deleted it, or that has no insert, becomes a delete."""
    added = np.logical_or.reduceat(~several.retracts, several.starts[:-1])
    return np.where(deleted | ~added, int(RowKind.DELETE), int(RowKind.INSERT)).astype(np.int8)


def _events(several: MultiRowGroups, resets: Bools, mask: Bools, steps: Any) -> Events:
    """Return events: SET where rows put all their values in place, then the steps of the rows that
    `mask` selects.

    A row that begins a key as a retraction does both.
    """
    rows = np.repeat(np.arange(len(resets)), 1 + (resets & mask))
    first = np.append(True, rows[1:] != rows[:-1]) if len(rows) else np.empty(0, bool)
    is_set = resets[rows] & first
    codes = np.where(is_set, int(Step.SET), steps[rows]).astype(np.int8)
    bounds = np.searchsorted(rows, several.starts)
    return Events(several.rows[rows], codes, bounds).keep(is_set | mask[rows])


def _ranks(several: MultiRowGroups, sequence: tuple[str, ...]) -> Indices:
    """Return integers in the order of the sequence columns' values; 0 where all of them are null."""
    ranks: Any = np.zeros(len(several.rows), np.int64)
    for name in sequence:
        column = in_total_order(several.batch.column(name).take(pa.array(several.rows)))
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        part = np.zeros(len(valid), np.int64)
        part[valid] = pc.rank(column.drop_null(), sort_keys="ascending", tiebreaker="dense").to_numpy()
        ranks = _dense(ranks * (int(part.max(initial=0)) + 1) + part)
    return np.asarray(ranks)


def _dense(ranks: Indices) -> Indices:
    distinct, ranks = np.unique(ranks, return_inverse=True)
    return np.asarray(ranks + (1 if len(distinct) and distinct[0] > 0 else 0))


def _groups(schema: TableSchema) -> tuple[SequenceGroup, ...]:
    raw = schema.options
    protected: dict[str, str] = {}
    groups = []
    removing = set(REMOVE_ON_GROUP.read(raw))
    for key, value in raw.items():
        if not key.startswith(_PREFIX) or not key.endswith(_SUFFIX):
            continue
        sequence = tuple(part.strip() for part in key[len(_PREFIX) : -len(_SUFFIX)].split(","))
        members = tuple(name for name in parse_list(value) if name not in sequence)
        for name in (*sequence, *members):
            if name not in schema.row_type.names or name in schema.primary_keys or name in protected:
                why = (
                    "also in another sequence group"
                    if name in protected
                    else "not a column outside the primary key"
                )
                raise InvalidOptionError(f"option {key}={value!r}: {name} is {why}")
            protected[name] = key
        fields = {name: _rule(schema, name) for name in members}
        groups.append(SequenceGroup(sequence, fields, bool(removing & set(sequence))))
    sequence_columns = {name for group in groups for name in group.sequence}
    if not removing <= sequence_columns:
        raise InvalidOptionError(
            f"option {REMOVE_ON_GROUP.key}: {sorted(removing - sequence_columns)[0]} is no sequence column"
        )
    return tuple(groups)


def _rule(schema: TableSchema, name: str) -> FieldRule | None:
    function = function_name(schema.options, name)
    return None if function is None else field_rule(schema.row_type.field(name), schema.options, function)


def _check(table: str, schema: TableSchema, options: TableOptions, groups: tuple[SequenceGroup, ...]) -> None:
    remove = REMOVE_ON_DELETE.read(schema.options)
    on_group = bool(REMOVE_ON_GROUP.read(schema.options))
    for first, second, contradict in (
        (REMOVE_ON_DELETE.key, "ignore-delete", remove and options.ignore_delete),
        (REMOVE_ON_GROUP.key, "ignore-delete", on_group and options.ignore_delete),
        (REMOVE_ON_DELETE.key, "sequence groups", remove and bool(groups)),
    ):
        if contradict:
            raise InvalidOptionError(f"table {table}: {first} and {second} contradict each other; unset one")
    protected = {name for group in groups for name in (*group.fields, *group.sequence)}
    for field in schema.fields:
        function = function_name(schema.options, field.name)
        free = field.name in protected or field.name in schema.primary_keys
        if function not in (None, "last_non_null_value") and not free:
            raise InvalidOptionError(
                f"table {table}: function {function} of column {field.name} needs a sequence group around it"
            )
