"""This module applies changes to a schema: the rules of ALTER. No IO, no clock.

Ids never change and are never given twice. Primary key and partition columns stay as they are, except that a
key column may be renamed. Options that a snapshot depends on cannot be unset (see `option_change`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace

from lakecore.catalog.field_ids import numbered_type
from lakecore.catalog.nested_fields import edit_at
from lakecore.catalog.option_change import Options, check_set, check_unset, is_on, renamed_options
from lakecore.catalog.type_change import can_change, needs_a_zone
from lakecore.catalog.validation import check_schema
from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.schema_change import (
    AddColumn,
    ChangeComment,
    ChangeDefault,
    ChangeNullability,
    ChangeType,
    DropColumn,
    DropPrimaryKey,
    FieldPath,
    MoveColumn,
    Place,
    Position,
    RenameColumn,
    SchemaChange,
    SetOption,
    SetTableComment,
    UnsetOption,
)
from lakecore.options import parse_list
from lakecore.read.columns.default_value import check_default
from lakecore.types.datatypes import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    TypeRoot,
    with_nullable,
)
from lakecore.types.sql import type_text

__all__ = ["apply_changes"]

Fields = tuple[DataField, ...]

_KEEPS_NULLABLE = "alter-column-null-to-not-null.disabled"
_IMPLICIT_ONLY = "disable-explicit-type-casting"
_BEFORE_PARTITION = "add-column-before-partition"


def apply_changes(
    schema: TableSchema, changes: Sequence[SchemaChange], time_millis: int, *, has_snapshots: bool
) -> TableSchema:
    """Return the schema after `schema`, with all changes applied in their order.

    Raises InvalidInputError or InvalidOptionError naming the column or option, UnsupportedError for what
    readers of this release could not handle.
    """
    if not changes:
        raise InvalidInputError("no change was specified; name what to add, drop, rename, set or unset")
    draft = _Draft(schema, has_snapshots)
    for change in changes:
        draft.apply(change)
    result = draft.schema(time_millis)
    check_schema(result)
    return result


@dataclass
class _Draft:
    """The schema while changes are applied to it. Permissions and switches are those of the schema before."""

    old: TableSchema
    has_snapshots: bool
    fields: Fields = field(init=False)
    options: Options = field(init=False)
    primary_keys: tuple[str, ...] = field(init=False)
    partition_keys: tuple[str, ...] = field(init=False)
    comment: str | None = field(init=False)
    highest: int = field(init=False)

    def __post_init__(self) -> None:
        self.fields = self.old.fields
        self.options = dict(self.old.options)
        self.primary_keys = self.old.primary_keys
        self.partition_keys = self.old.partition_keys
        self.comment = self.old.comment
        self.highest = self.old.highest_field_id

    def apply(self, change: SchemaChange) -> None:
        match change:
            case SetOption():
                self._set(change)
            case UnsetOption():
                self._unset(change)
            case SetTableComment():
                self.comment = change.comment
            case MoveColumn():
                self.fields = _move(self.fields, change)
            case DropPrimaryKey():
                self._drop_primary_key()
            case _:
                self._column(change)

    def schema(self, time_millis: int) -> TableSchema:
        return replace(
            self.old,
            version=TableSchema.version_written(),
            id=self.old.id + 1,
            fields=tuple(
                replace(column, type=with_nullable(column.type, False))
                if column.name in self.primary_keys
                else column
                for column in self.fields
            ),
            highest_field_id=self.highest,
            primary_keys=self.primary_keys,
            partition_keys=self.partition_keys,
            options=self.options,
            comment=self.comment,
            time_millis=time_millis,
        )

    def _set(self, change: SetOption) -> None:
        if not check_set(self.old, change.key, change.value, has_snapshots=self.has_snapshots):
            return
        if change.key == "primary-key":
            _check_unset(self.primary_keys, change.key)
            self.primary_keys = parse_list(change.value)
        elif change.key == "partition":
            _check_unset(self.partition_keys, change.key)
            self.partition_keys = parse_list(change.value)
        else:
            self.options = {**self.options, change.key: change.value}

    def _unset(self, change: UnsetOption) -> None:
        check_unset(self.old, change.key, has_snapshots=self.has_snapshots)
        self.options = {key: value for key, value in self.options.items() if key != change.key}

    def _drop_primary_key(self) -> None:
        if self.has_snapshots:
            raise InvalidInputError("the primary key can be dropped only while the table has no snapshot")
        self.primary_keys = ()

    def _column(
        self,
        change: AddColumn
        | DropColumn
        | RenameColumn
        | ChangeType
        | ChangeNullability
        | ChangeComment
        | ChangeDefault,
    ) -> None:
        match change:
            case AddColumn():
                self._add(change)
            case DropColumn():
                self._check_not_key(change.path, "dropped")
                self.fields = edit_at(self.fields, change.path, _without, whole=True)
            case RenameColumn():
                self._rename(change)
            case ChangeType():
                self._change_type(change)
            case ChangeNullability():
                self._change_nullability(change)
            case ChangeComment():
                self._update(change.path, lambda f, _: replace(f, description=change.comment))
            case ChangeDefault():
                self._update(change.path, lambda f, _: _with_default(f, change.value))

    def _add(self, change: AddColumn) -> None:
        if not change.type.nullable:
            raise InvalidInputError(
                f"column {_dotted_name(change.path)}: a new column cannot be NOT NULL, because "
                "existing rows have no value for it"
            )
        ids = _Ids(self.highest)
        own = ids()
        column = DataField(own, change.path[-1], numbered_type(change.type, ids), change.comment)
        position = change.position or self._default_position(change.path)

        def add(siblings: Fields, name: str) -> Fields:
            _check_free(siblings, name, change.path)
            return _insert(siblings, column, position)

        self.fields = edit_at(self.fields, change.path, add, whole=True)
        self.highest = ids.highest

    def _default_position(self, path: FieldPath) -> Position:
        keys = self.old.partition_keys
        if is_on(self.old.options, _BEFORE_PARTITION) and keys and len(path) == 1:
            first = next((f.name for f in self.fields if f.name in keys), None)
            if first is not None:
                return Position(Place.BEFORE, first)
        return Position(Place.LAST)

    def _rename(self, change: RenameColumn) -> None:
        if len(change.path) == 1:
            name = change.path[0]
            if name in self.old.partition_keys:
                raise InvalidInputError(f"column {name}: a partition column cannot be renamed")
            if any(f.name == name and _is_blob(f.type) for f in self.fields):
                raise InvalidInputError(f"column {name}: a BLOB column cannot be renamed")

        def rename(siblings: Fields, name: str) -> Fields:
            _check_free(siblings, change.name, change.path)
            return tuple(replace(f, name=change.name) if f.name == name else f for f in siblings)

        self.fields = edit_at(self.fields, change.path, rename, whole=True)
        if len(change.path) == 1:
            names = {change.path[0]: change.name}
            self.primary_keys = tuple(names.get(key, key) for key in self.primary_keys)
            self.options = renamed_options(self.options, change.path[0], change.name)

    def _change_type(self, change: ChangeType) -> None:
        self._check_not_key(change.path, "given another type")
        explicit = not is_on(self.old.options, _IMPLICIT_ONLY)

        def retyped(column: DataField, depth: int) -> DataField:
            old = _part(column.type, depth)
            new = with_nullable(change.type, old.nullable) if change.keep_nullability else change.type
            self._check_nullability(change.path, old, new)
            if not can_change(old, new, explicit=explicit):
                raise InvalidInputError(
                    f"column {_dotted_name(change.path)}: {type_text(old)} cannot become {type_text(new)}"
                    + ("" if explicit else f" while option {_IMPLICIT_ONLY} is on")
                )
            if needs_a_zone(old, new):
                raise UnsupportedError(
                    f"column {_dotted_name(change.path)}: {type_text(old)} as {type_text(new)} depends on "
                    "the time zone of each reader; add a column and fill it instead"
                )
            changed = replace(column, type=_with_part(column.type, depth, new))
            check_default(changed)
            return changed

        self._update(change.path, retyped)

    def _change_nullability(self, change: ChangeNullability) -> None:
        if change.nullable and len(change.path) == 1 and change.path[0] in self.old.primary_keys:
            raise InvalidInputError(f"column {change.path[0]}: a primary key column cannot be nullable")

        def changed(column: DataField, depth: int) -> DataField:
            old = _part(column.type, depth)
            new = with_nullable(old, change.nullable)
            self._check_nullability(change.path, old, new)
            return replace(column, type=_with_part(column.type, depth, new))

        self._update(change.path, changed)

    def _check_nullability(self, path: FieldPath, old: DataType, new: DataType) -> None:
        if old.nullable and not new.nullable and is_on(self.old.options, _KEEPS_NULLABLE, default=True):
            raise InvalidInputError(
                f"column {_dotted_name(path)}: rows may hold nulls, so it cannot become NOT NULL; if you "
                f"are sure that no row has one, set option {_KEEPS_NULLABLE}=false first"
            )

    def _check_not_key(self, path: FieldPath, verb: str) -> None:
        if len(path) > 1:
            return
        if path[0] in self.old.partition_keys:
            raise InvalidInputError(f"column {path[0]}: a partition column cannot be {verb}")
        if path[0] in self.old.primary_keys:
            raise InvalidInputError(f"column {path[0]}: a primary key column cannot be {verb}")

    def _update(self, path: FieldPath, change: Callable[[DataField, int], DataField]) -> None:
        """Change the field at `path`; `change` gets it and how many arrays and maps the path descends into
        its type.
        """

        def update(siblings: Fields, name: str, inner: int) -> Fields:
            return tuple(change(f, inner) if f.name == name else f for f in siblings)

        self.fields = edit_at(self.fields, path, update)


@dataclass
class _Ids:
    """Returns the next field id at each call."""

    highest: int

    def __call__(self) -> int:
        self.highest += 1
        return self.highest


def _check_unset(keys: tuple[str, ...], key: str) -> None:
    if keys:
        raise InvalidInputError(f"option {key}: the table has {', '.join(keys)} already; create a new table")


def _without(siblings: Fields, name: str) -> Fields:
    others = tuple(f for f in siblings if f.name != name)
    if not others:
        raise InvalidInputError(f"column {name} is the last one; a table or row needs at least one")
    return others


def _check_free(siblings: Fields, name: str, path: FieldPath) -> None:
    if any(f.name == name for f in siblings):
        raise InvalidInputError(
            f"column {_dotted_name((*path[:-1], name))} exists already; choose another name"
        )


def _insert(siblings: Fields, column: DataField, position: Position) -> Fields:
    at = {Place.FIRST: 0, Place.LAST: len(siblings)}.get(position.place)
    if at is None:
        at = _index(siblings, position.reference) + (position.place is Place.AFTER)
    return (*siblings[:at], column, *siblings[at:])


def _move(siblings: Fields, change: MoveColumn) -> Fields:
    source = _index(siblings, change.name)
    position = change.position
    here = {Place.FIRST: 0, Place.LAST: len(siblings) - 1}.get(position.place)
    if here is None:
        here = _index(siblings, position.reference)
    if here == source:
        raise InvalidInputError(f"column {change.name} is already at that place; name another place")
    rest = siblings[:source] + siblings[source + 1 :]
    return _insert(rest, siblings[source], position)


def _index(siblings: Fields, name: str | None) -> int:
    for place, column in enumerate(siblings):
        if column.name == name:
            return place
    raise InvalidInputError(
        f"column {name!r} does not exist; the columns are {', '.join(f.name for f in siblings)}"
    )


def _part(data_type: DataType, depth: int) -> DataType:
    """Return the element or value `depth` arrays and maps down."""
    for _ in range(depth):
        match data_type:
            case ArrayType():
                data_type = data_type.element
            case MapType():
                data_type = data_type.value
    return data_type


def _with_part(data_type: DataType, depth: int, part: DataType) -> DataType:
    match data_type:
        case ArrayType() if depth:
            return replace(data_type, element=_with_part(data_type.element, depth - 1, part))
        case MapType() if depth:
            return replace(data_type, value=_with_part(data_type.value, depth - 1, part))
    return part


def _with_default(column: DataField, value: str | None) -> DataField:
    changed = replace(column, default_value=value)
    check_default(changed)
    return changed


def _is_blob(data_type: DataType) -> bool:
    return isinstance(data_type, AtomicType) and data_type.root is TypeRoot.BLOB


def _dotted_name(path: FieldPath) -> str:
    return ".".join(path)
