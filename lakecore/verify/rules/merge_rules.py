"""This module reads the rules of a table's merge engine for a proof from the schema, separately from the
merge. No IO.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum

from lakecore.data_class import dataclass
from lakecore.metadata.options import MergeEngine, TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.options import Option, parse_bool, parse_list
from lakecore.types.datatypes import ArrayType, AtomicType, DataType
from lakecore.verify.rules.table_rules import TableRules, check_agreement, expire_column

__all__ = ["ChangeSource", "ColumnRule", "MergeRules", "SequenceGroup", "read_merge_rules"]

_GROUP_SUFFIX = ".sequence-group"
_PREFIX = "fields."
_KEY_FUNCTION = "primary-key"


class ChangeSource(Enum):
    """This is the source that changelog rows of a merge have: none, looked-up rows, or the rows of the
    last level.
    """

    NONE = "none"
    LOOKUP = "lookup"
    TOP_LEVEL = "top-level"


@dataclass(frozen=True, slots=True)
class ColumnRule:
    """It says how values of a column are merged into one."""

    function: str = ""
    """This is the aggregate function, or "" (partial update)."""
    ignore_retract: bool = False
    distinct: bool = False
    """It tells whether lists and texts keep each element once."""
    delimiter: str = ","
    """This text separates the parts of texts."""
    key: tuple[str, ...] = ()
    """This is the key of nested rows."""
    sequence: tuple[str, ...] = ()
    limit: int | None = None
    null_keys: str = "merge"
    """A null in a key of nested rows may `merge`, `ignore` or `error`."""
    time: str | None = None
    """The row of a map with the highest value of this field wins; with None the last one does."""


@dataclass(frozen=True, slots=True)
class SequenceGroup:
    """Only rows with a higher or equal sequence change these columns of a partial update."""

    sequence: tuple[str, ...]
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRules:
    """These rules say how rows of one key become one result.

    `ignore_retracts`: rows of kind -U and -D do not count. `remove_on_delete`: a row of kind -D removes what
    was before it. `remove_by`: sequence columns of groups whose -D removes the row. `needs_lookup`: rows of
    keys are looked up on other levels. `expire_column`, `expire_seconds`: rows whose time is older may be
    left out. `changes`: lines of the change stream are due; a result equal to the row before it in `compared`
    need not be announced. `top_level`: the last level. `unordered`: columns of arrays in the order of a Java
    hash map, which is not checked.
    """

    engine: MergeEngine
    keys: tuple[str, ...]
    ignore_retracts: bool = False
    remove_on_delete: bool = False
    remove_by: tuple[str, ...] = ()
    groups: tuple[SequenceGroup, ...] = ()
    columns: Mapping[str, ColumnRule] = field(default_factory=dict)
    needs_lookup: bool = False
    expire_column: str | None = None
    expire_seconds: int = 0
    changes: ChangeSource = ChangeSource.NONE
    compared: tuple[str, ...] = ()
    top_level: int = 0
    unordered: frozenset[str] = frozenset()

    @property
    def single_rows_pass(self) -> bool:
        """Return whether a key with one row is left as it is; a merge that looks rows up folds it too."""
        return not self.needs_lookup


def read_merge_rules(
    schema: TableSchema, options: TableOptions, output_level: int = 0, top_level: int = 0
) -> MergeRules:
    """Return the rules of a merge into `output_level` (0: of a merge without levels). They are read from the
    raw schema.

    Raises InvalidOptionError, and ProofError where `options` take one for something else.
    """
    raw = schema.options
    rules = TableRules.of(raw, keyed=bool(schema.primary_keys))
    check_agreement(rules, options)
    engine = MergeEngine(rules.engine)
    groups = tuple(_groups(raw)) if engine is MergeEngine.PARTIAL_UPDATE else ()
    expires = rules.expire_ms
    columns = _column_rules(schema, rules, groups)
    return MergeRules(
        engine=engine,
        keys=schema.trimmed_primary_keys,
        ignore_retracts=rules.ignore_delete and engine is not MergeEngine.AGGREGATION,
        remove_on_delete=_flag(raw, f"{engine.value}.remove-record-on-delete"),
        remove_by=parse_list(raw.get("partial-update.remove-record-on-sequence-group", "")),
        groups=groups,
        columns=columns,
        needs_lookup=rules.needs_lookup,
        expire_column=None if expires is None else expire_column(raw),
        expire_seconds=0 if expires is None else expires // 1000,
        changes=_changes(rules, output_level, top_level),
        compared=_compared_columns(schema, rules),
        top_level=top_level,
        unordered=frozenset(
            field.name for field in schema.fields if _is_hashed(columns.get(field.name), field.type)
        ),
    )


def _flag(raw: Mapping[str, str], key: str) -> bool:
    return Option(key, parse_bool, False, "").read(raw)


def _changes(rules: TableRules, output_level: int, top_level: int) -> ChangeSource:
    if rules.producer == "lookup":
        return ChangeSource.LOOKUP
    full = rules.producer == "full-compaction"
    return ChangeSource.TOP_LEVEL if full and output_level == top_level else ChangeSource.NONE


def _compared_columns(schema: TableSchema, rules: TableRules) -> tuple[str, ...]:
    """Return the columns by which a replaced row counts as unchanged; none where every replacement is
    announced.
    """
    if not rules.row_deduplicate:
        return ()
    return tuple(name for name in schema.row_type.names if name not in rules.row_deduplicate_ignored)


def _groups(raw: Mapping[str, str]) -> list[SequenceGroup]:
    return [
        SequenceGroup(parse_list(key[len(_PREFIX) : -len(_GROUP_SUFFIX)]), parse_list(value))
        for key, value in raw.items()
        if key.startswith(_PREFIX) and key.endswith(_GROUP_SUFFIX)
    ]


def _column_rules(
    schema: TableSchema, rules: TableRules, groups: tuple[SequenceGroup, ...]
) -> dict[str, ColumnRule]:
    if rules.engine not in ("aggregation", "partial-update"):
        return {}
    whole = rules.engine == "aggregation"
    ordering = rules.sequence if whole else [name for group in groups for name in group.sequence]
    result = {}
    for name in schema.row_type.names:
        if name in ordering:
            result[name] = ColumnRule("last_value" if whole else "")
        elif name in schema.primary_keys:
            result[name] = ColumnRule(_KEY_FUNCTION)
        else:
            result[name] = _column_rule(schema.options, name, "last_non_null_value" if whole else "")
    return result


def _column_rule(raw: Mapping[str, str], name: str, default: str) -> ColumnRule:
    common = raw.get("fields.default-aggregate-function", default)
    function = raw.get(f"{_PREFIX}{name}.aggregate-function", common)
    own = f"{_PREFIX}{name}."
    limit = raw.get(own + "count-limit")
    return ColumnRule(
        function=function,
        ignore_retract=_flag(raw, own + "ignore-retract"),
        distinct=_flag(raw, own + "distinct"),
        delimiter=raw.get(own + "list-agg-delimiter", ","),
        key=parse_list(raw.get(own + "nested-key", "")),
        sequence=parse_list(raw.get(own + "nested-sequence-field", "")),
        limit=None if limit is None else int(limit),
        null_keys=raw.get(own + "nested-key-null-strategy", "merge").strip().lower(),
        time=raw.get(own + "ts-field"),
    )


def _is_hashed(rule: ColumnRule | None, data_type: DataType) -> bool:
    """Return whether a function puts the elements of arrays into the order of a hash map."""
    if rule is None or not isinstance(data_type, ArrayType):
        return False
    if rule.function == "collect":
        return rule.distinct and isinstance(data_type.element, AtomicType)
    return rule.function == "nested_partial_update" or (rule.function == "nested_update" and bool(rule.key))
