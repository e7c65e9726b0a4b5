"""This module decides whether rows of a key may be merged before they are assigned to buckets. It is pure.

They may where nobody can tell afterwards, in whatever parts the rows were merged: the merge engine gives the
same result if rows that follow one another are folded first. Paimon's own local merge (only Flink's sink has
one) asks nothing of this, and its tables then differ from those that are written without it.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakecore.merge.engines.aggregation import Aggregation
from lakecore.merge.engines.functions import FieldRule
from lakecore.merge.engines.partial_update import PartialUpdate
from lakecore.merge.groups import Engine
from lakecore.metadata.options import BucketMode, ChangelogProducer, TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.types.datatypes import AtomicType, TypeRoot

__all__ = ["folds_retractions", "merge_obstacle"]

_IN_ANY_ORDER = frozenset({"sum", "product", "max", "min", "bool_and", "bool_or"})
_BY_THE_LAST = frozenset({"last_value", "primary-key"})
"""They follow the sequence fields of the last row, which the merged row has too."""
_IN_ORDER = _IN_ANY_ORDER | _BY_THE_LAST | {
    "last_non_null_value", "first_value", "first_non_null_value", "first_not_null_value", "listagg",
    "collect", "merge_map",
}  # fmt: skip
_NULL_CHANGES_NOTHING = _IN_ANY_ORDER | {
    "last_non_null_value", "first_non_null_value", "first_not_null_value"
}  # fmt: skip


def merge_obstacle(schema: TableSchema, options: TableOptions, engine: Engine | None) -> str | None:
    """Return why rows of a table are not merged before they are assigned to buckets; None: they are."""
    if not schema.primary_keys:
        return "it has no primary key"
    if options.changelog_producer is ChangelogProducer.INPUT:
        return "changelog-producer=input stores every row in the changelog"
    if options.bucket_mode is BucketMode.KEY_DYNAMIC:
        return "its keys may move between partitions"
    if isinstance(engine, Aggregation | PartialUpdate) and options.rowkind_field is not None:
        return f"rowkind.field={options.rowkind_field} would be merged like other columns"
    if isinstance(engine, Aggregation):
        return _of_functions(schema, engine.rules.values(), bool(options.sequence_fields))
    if isinstance(engine, PartialUpdate):
        return _of_groups(schema, options, engine)
    return None


def folds_retractions(schema: TableSchema, options: TableOptions, engine: Engine | None) -> bool:
    """Return whether rows of kind -U and -D may be merged as well; otherwise a key that has one keeps all its
    rows. An engine that is None keeps the last row, of whatever kind.
    """
    if engine is None:
        return True
    if not isinstance(engine, Aggregation) or engine.remove_on_delete or options.sequence_fields:
        return False
    return all(
        rule.name == "sum" or (rule.ignores_retracts and rule.name in _NULL_CHANGES_NOTHING)
        for rule in engine.rules.values()
    )


def _of_functions(schema: TableSchema, rules: Iterable[FieldRule], sequenced: bool) -> str | None:
    allowed = _IN_ANY_ORDER | _BY_THE_LAST if sequenced else _IN_ORDER
    for rule in rules:
        if rule.name not in allowed or _rounds(schema, rule):
            order = ", with the rows of a sequence field," if sequenced and rule.name in _IN_ORDER else ""
            return f"function {rule.name} of column {rule.field}{order} depends on how rows are put together"
    return None


def _rounds(schema: TableSchema, rule: FieldRule) -> bool:
    kind = next(field.type for field in schema.fields if field.name == rule.field)
    return rule.name == "product" and isinstance(kind, AtomicType) and kind.root is TypeRoot.DECIMAL


def _of_groups(schema: TableSchema, options: TableOptions, engine: PartialUpdate) -> str | None:
    if options.sequence_fields:
        return "partial-update with sequence.field depends on how rows are put together; use sequence groups"
    for group in engine.groups:
        rules = [rule for rule in group.fields.values() if rule is not None]
        obstacle = _of_functions(schema, rules, sequenced=True)
        if obstacle is not None:
            return obstacle
    return None
