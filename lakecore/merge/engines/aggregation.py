"""This module has the merge engine `aggregation`, which applies a function of each column to the rows of a
key, in merge order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lakecore.data_class import dataclass
from lakecore.errors import InvalidOptionError, UnsupportedError
from lakecore.merge.engines.events import Events, Step
from lakecore.merge.engines.functions import FieldRule, field_rule, function_name
from lakecore.merge.groups import Column, FoldResult, MultiRowGroups, PickedValues
from lakecore.metadata.options import TableOptions
from lakecore.metadata.row_kind import KIND_NAME, RowKind
from lakecore.metadata.schema import TableSchema
from lakecore.options import Option, parse_bool

__all__ = ["Aggregation"]

REMOVE_ON_DELETE = Option(
    "aggregation.remove-record-on-delete", parse_bool, False, "A -D row removes what was aggregated."
)
_DEFAULT = "last_non_null_value"


@dataclass(frozen=True, slots=True)
class Aggregation:
    """`rules` by column; other columns (system columns, keys) are those of the last row of a key.

    `remove_on_delete`: a -D row puts its own values in place of what was there, and the key is deleted
    unless rows follow.
    """

    table: str
    rules: Mapping[str, FieldRule]
    remove_on_delete: bool

    @classmethod
    def of(cls, table: str, schema: TableSchema, options: TableOptions) -> Aggregation:
        """Return the engine of a table. Raises InvalidOptionError for functions that do not fit, naming the
        column.
        """
        raw = schema.options
        remove = REMOVE_ON_DELETE.read(raw)
        rules = {}
        for field in schema.fields:
            if field.name in schema.primary_keys:
                continue
            name = function_name(raw, field.name) or _DEFAULT
            name = "last_value" if field.name in options.sequence_fields else name
            rule = rules[field.name] = field_rule(field, raw, name)
            if remove and rule.ignores_retracts:
                raise InvalidOptionError(
                    f"table {table}: options fields.{field.name}.ignore-retract and {REMOVE_ON_DELETE.key} "
                    "contradict each other; unset one"
                )
        return cls(table, rules, remove)

    @property
    def keeps_single(self) -> bool:
        """Return False: functions change values, as an empty text is no part of a list."""
        return False

    def needed(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return no columns, because each column is folded on its own."""
        return ()

    def fold(self, several: MultiRowGroups, columns: Sequence[str]) -> FoldResult:
        """Fold the rows of each key. Raises UnsupportedError for a retraction that a function cannot take."""
        steps = np.where(several.retracts, int(Step.RETRACT), int(Step.ADD)).astype(np.int8)
        deletes = several.kinds == RowKind.DELETE
        if self.remove_on_delete:
            steps[deletes] = Step.SET
        events = Events(several.rows, steps, several.starts)
        ends = several.starts[1:] - 1
        last = PickedValues(several.rows[ends])
        results: dict[str, Column] = {}
        for name in columns:
            rule = self.rules.get(name)
            if name == KIND_NAME:
                continue
            results[name] = last if rule is None else self._fold(rule, several, events)
        kinds = np.full(several.count, int(RowKind.INSERT), np.int8)
        if self.remove_on_delete:
            kinds[deletes[ends]] = RowKind.DELETE
        return FoldResult(results, kinds)

    def _fold(self, rule: FieldRule, several: MultiRowGroups, events: Events) -> Column:
        try:
            return rule.fold(several.batch.column(rule.field), events)
        except UnsupportedError as err:
            raise UnsupportedError(f"table {self.table}: {err}") from err
