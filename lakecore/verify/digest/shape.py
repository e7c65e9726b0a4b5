"""This module defines the columns whose values make the digest of a proof, and the order of the rows of one
key.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lakecore.data_class import dataclass
from lakecore.metadata.options import TableOptions
from lakecore.metadata.row_kind import KEY_FIELD_ID_START, KIND_FIELD_ID, SEQUENCE_FIELD_ID
from lakecore.metadata.schema import TableSchema
from lakecore.types.datatypes import AtomicType, DataField, TypeRoot
from lakecore.verify.digest.evolution import keeps_values
from lakecore.verify.mode import ProofMode
from lakecore.verify.rules.table_rules import TableRules, check_agreement, expire_column, may_write_orc

__all__ = ["ProofMode", "RowShape", "shape_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowShape:
    """These are the covered columns, in the order in which their arrays are passed around. It can be
    pickled.
    """

    mode: ProofMode
    key: tuple[DataField, ...] = ()
    """These are the key columns in key order; it is empty for append tables."""
    sequence: tuple[DataField, ...] = ()
    """These are the user's sequence fields."""
    descending: bool = False
    ignore_retracts: bool = False
    """Rows of kind -U and -D do not count where a key has several rows (option `ignore-delete`)."""
    snapshot_ordering: bool = False
    """Rows of written files are numbered by their snapshot (option `sequence.snapshot-ordering`)."""
    blanks_count: bool = True
    """It is False where a file may be ORC, which drops blanks at the end of a CHAR."""
    values: tuple[DataField, ...] = ()
    """Table columns in the digest besides the key; begins with `sequence` in the modes `keys` and
    `sampled`.
    """
    positional: bool = False
    """The digest includes each row's position, so outputs must be the inputs in order."""
    uncompared: tuple[str, ...] = ()
    """Columns that should be in the digest but are not, because their type changed in a way that may change
    values.
    """
    sorted_by: str = ""
    """This is the order that the outputs were checked to have, for the report; "" where none is promised."""
    order: tuple[DataField, ...] = ()
    """These columns order the rows of a written file, and bound them in its description; if it is empty,
    the key does.
    """
    seed: str = ""
    """The seed chooses the rows of a sample."""
    sampled: tuple[DataField, ...] = ()
    """These columns are compared in the sampled rows; it is empty where no sample is taken."""

    @property
    def samples(self) -> bool:
        """Return whether all columns of a part of the rows are compared, besides the digest."""
        return self.mode is ProofMode.SAMPLED

    @property
    def wide(self) -> RowShape:
        """Return the shape of sampled rows: all columns that can be compared."""
        return replace(self, values=self.sampled, positional=False)

    @property
    def keys_only(self) -> RowShape:
        """Return the shape for reading keys alone."""
        return replace(self, values=(), positional=False)

    @property
    def keyed(self) -> bool:
        return bool(self.key)

    @property
    def field_ids(self) -> tuple[int, ...]:
        """Return the ids of key, values, then sequence number and row kind (or nothing): the constants of a
        row hash.
        """
        keys = tuple(KEY_FIELD_ID_START + field.id for field in self.key)
        system = (SEQUENCE_FIELD_ID, KIND_FIELD_ID) if self.keyed else ()
        return keys + tuple(field.id for field in self.values) + system


_COLUMNS_PER_SAMPLE = 4
_MOST_SAMPLES = 3
_VARIABLE = (
    TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY, TypeRoot.VARIANT, TypeRoot.BLOB,
)  # fmt: skip


def shape_of(
    schema: TableSchema,
    options: TableOptions,
    mode: ProofMode,
    older: Iterable[TableSchema] = (),
    seed: str = "",
) -> RowShape:
    """Return the columns that a proof of `mode` covers. `older` are the schemas of the inputs, `seed` is that
    of the run, for a sample. Files that are not in key order are not sampled: the default covers every column
    there.

    Mode keys, append table: one column of every four, at most three and at least one, in schema order,
    columns of fixed width first. Reading and hashing them costs about a fifth of the job.

    Rules are read from the raw schema. Raises ProofError where `options` differ from them.
    """
    keyed = bool(schema.primary_keys)
    rules = TableRules.of(schema.options, keyed=keyed)
    check_agreement(rules, options)
    if mode is ProofMode.SAMPLED and (options.pk_clustering_override or rules.data_evolution):
        mode = ProofMode.FULL
    full = mode is ProofMode.FULL
    row = schema.row_type
    sequence = tuple(row.field(name) for name in rules.sequence) if keyed else ()
    ordering = sequence + tuple(field for field in _expiry(schema, rules) if field not in sequence)
    values = _stored_columns(schema) if full else ordering if keyed else _samples(schema)
    sampled = _stored_columns(schema) if mode is ProofMode.SAMPLED else ()
    compared = {field.id: field for field in (*values, *sampled)}
    before_these = tuple(older)
    changed = {
        field_id
        for field_id, field in compared.items()
        if not all(_keeps(before, field) for before in before_these)
    }
    return RowShape(
        mode=mode,
        key=schema.key_type.fields if keyed else (),
        sequence=sequence,
        descending=rules.descending,
        ignore_retracts=rules.ignore_delete,
        snapshot_ordering=rules.snapshot_ordering,
        blanks_count=not may_write_orc(schema.options),
        values=tuple(field for field in values if field.id not in changed),
        positional=not keyed,
        uncompared=tuple(field.name for field_id, field in compared.items() if field_id in changed),
        order=tuple(row.field(name) for name in rules.clustering_columns),
        sorted_by=", ".join(rules.clustering_columns),
        seed=seed,
        sampled=tuple(field for field in sampled if field.id not in changed),
    )


def _stored_columns(schema: TableSchema) -> tuple[DataField, ...]:
    """Return the columns that files of append tables have: partition columns are read from the manifest."""
    partition_columns = set(() if schema.primary_keys else schema.partition_keys)
    return tuple(field for field in schema.fields if field.name not in partition_columns) or schema.fields


def _expiry(schema: TableSchema, rules: TableRules) -> tuple[DataField, ...]:
    """Return the column by which rows expire."""
    name = expire_column(schema.options)
    if rules.expire_ms is None or not name:
        return ()
    return tuple(field for field in schema.fields if field.name == name)


def _keeps(before: TableSchema, field: DataField) -> bool:
    old = next((other for other in before.fields if other.id == field.id), None)
    return old is None or keeps_values(old.type, field.type)


def _samples(schema: TableSchema) -> tuple[DataField, ...]:
    count = min(_MOST_SAMPLES, max(1, len(schema.fields) // _COLUMNS_PER_SAMPLE))
    constant = set(schema.partition_keys)
    cheapest = sorted(schema.fields, key=lambda field: (field.name in constant, _cost(field)))
    chosen = {field.id for field in cheapest[:count]}
    return tuple(field for field in schema.fields if field.id in chosen)


def _cost(field: DataField) -> int:
    if not isinstance(field.type, AtomicType):
        return 2
    return int(field.type.root in _VARIABLE)
