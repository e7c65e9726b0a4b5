"""What a proof knows of a table's merge engine: read from the schema, apart from the merge. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakecore.metadata.options import ChangelogProducer, MergeEngine, TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.options import parse_bool, parse_list

__all__ = ["ColumnRule", "FoldRules", "SequenceGroup", "fold_rules"]

_GROUP_SUFFIX = ".sequence-group"
_PREFIX = "fields."
_KEY_FUNCTION = "primary-key"


@dataclass(frozen=True, slots=True)
class ColumnRule:
    """How values of a column become one. `function`: an aggregate function, or "" (partial update)."""

    function: str = ""
    ignore_retract: bool = False


@dataclass(frozen=True, slots=True)
class SequenceGroup:
    """Columns of a partial update that only rows with a higher or equal sequence change."""

    sequence: tuple[str, ...]
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldRules:
    """How rows of one key become one result.

    `ignore_retracts`: rows of kind -U and -D do not count. `remove_on_delete`: a row of kind -D removes what
    was before it. `remove_by`: sequence columns of groups whose -D removes the row. `single_rows_pass`: a key
    with one row is left as it is (a lookup merge folds it too). `expire_column`, `expire_seconds`: rows whose
    time is older may be left out.
    """

    engine: MergeEngine
    keys: tuple[str, ...]
    ignore_retracts: bool = False
    remove_on_delete: bool = False
    remove_by: tuple[str, ...] = ()
    groups: tuple[SequenceGroup, ...] = ()
    columns: Mapping[str, ColumnRule] = field(default_factory=dict)
    single_rows_pass: bool = True
    expire_column: str | None = None
    expire_seconds: int = 0


def fold_rules(schema: TableSchema, options: TableOptions) -> FoldRules:
    """The rules of a table with a primary key. Raises ValueError for an option that is not a boolean."""
    raw = schema.options
    engine = options.merge_engine
    groups = tuple(_groups(raw)) if engine is MergeEngine.PARTIAL_UPDATE else ()
    expires = options.record_expire_ms
    return FoldRules(
        engine=engine,
        keys=schema.trimmed_primary_keys,
        ignore_retracts=options.ignore_delete and engine is not MergeEngine.AGGREGATION,
        remove_on_delete=parse_bool(raw.get(f"{engine.value}.remove-record-on-delete", "false")),
        remove_by=parse_list(raw.get("partial-update.remove-record-on-sequence-group", "")),
        groups=groups,
        columns=_column_rules(schema, options, groups),
        single_rows_pass=not _looks_up(options),
        expire_column=None if expires is None else raw.get("record-level.time-field"),
        expire_seconds=0 if expires is None else expires // 1000,
    )


def _looks_up(options: TableOptions) -> bool:
    lookup = options.changelog_producer is ChangelogProducer.LOOKUP
    return lookup or options.deletion_vectors or options.force_lookup


def _groups(raw: Mapping[str, str]) -> list[SequenceGroup]:
    return [
        SequenceGroup(parse_list(key[len(_PREFIX) : -len(_GROUP_SUFFIX)]), parse_list(value))
        for key, value in raw.items()
        if key.startswith(_PREFIX) and key.endswith(_GROUP_SUFFIX)
    ]


def _column_rules(
    schema: TableSchema, options: TableOptions, groups: tuple[SequenceGroup, ...]
) -> dict[str, ColumnRule]:
    if options.merge_engine not in (MergeEngine.AGGREGATION, MergeEngine.PARTIAL_UPDATE):
        return {}
    whole = options.merge_engine is MergeEngine.AGGREGATION
    ordering = options.sequence_fields if whole else [name for group in groups for name in group.sequence]
    rules = {}
    for name in schema.row_type.names:
        if name in ordering:
            rules[name] = ColumnRule("last_value" if whole else "")
        elif name in schema.primary_keys:
            rules[name] = ColumnRule(_KEY_FUNCTION)
        else:
            rules[name] = _column_rule(schema.options, name, "last_non_null_value" if whole else "")
    return rules


def _column_rule(raw: Mapping[str, str], name: str, default: str) -> ColumnRule:
    common = raw.get("fields.default-aggregate-function", default)
    function = raw.get(f"{_PREFIX}{name}.aggregate-function", common)
    return ColumnRule(function, parse_bool(raw.get(f"{_PREFIX}{name}.ignore-retract", "false")))
