"""This module decides which columns have which file indexes, by the options of a table.

`file-index.<type>.columns` = `a,b,m[key]` declares them; `file-index.<type>.<column>.<option>` sets how one
is made. Options of a map column hold for all its keys, unless a key has its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeAlias

from lakecore.data_class import dataclass
from lakecore.errors import InvalidOptionError, UnsupportedError
from lakecore.index.bitmap import BitmapRules
from lakecore.index.bloom_filter import BloomFilterRules
from lakecore.index.range_bitmap import RangeBitmapRules
from lakecore.index.values import COARSE_DIGITS, width_of
from lakecore.metadata.schema import TableSchema
from lakecore.options import Option, parse_bool, parse_size
from lakecore.types.datatypes import AtomicType, DataField, DataType, MapType, TypeRoot
from lakecore.types.sql import type_text

__all__ = ["IN_MANIFEST", "READ_ENABLED", "IndexSpec", "IndexType", "Rules", "can_index", "index_specs"]

IN_MANIFEST = Option(
    "file-index.in-manifest-threshold",
    parse_size,
    500,
    "Size up to which the indexes of a file go into the manifest, in bytes.",
)
READ_ENABLED = Option(
    "file-index.read.enabled", parse_bool, True, "Whether reads leave out files and rows by indexes."
)

_PREFIX = "file-index."
_COLUMNS = ".columns"
_OPTION_PARTS = 3
_LONGEST_DECIMAL = 18


class IndexType(Enum):
    BLOOM_FILTER = "bloom-filter"
    BITMAP = "bitmap"
    BSI = "bsi"
    RANGE_BITMAP = "range-bitmap"


@dataclass(frozen=True, slots=True)
class NoRules:
    """These are the rules of a type of index that has no options."""

    def check(self, key: str) -> None:
        """Accept everything, because there are no options."""


Rules: TypeAlias = BloomFilterRules | BitmapRules | RangeBitmapRules | NoRules


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSpec:
    """This is one index. `key` is that of a map column whose values are indexed, else None.

    `data_type` is the type of the values.
    """

    type: IndexType
    column: str
    key: str | None
    data_type: AtomicType
    rules: Rules

    @property
    def name(self) -> str:
        """Return the name that the index has in a container."""
        return self.column if self.key is None else f"{self.column}[{self.key}]"


_TEXTS = frozenset((TypeRoot.CHAR, TypeRoot.VARCHAR))
_WHOLE = frozenset(
    (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.DATE, TypeRoot.TIME)
)
_TIMES = frozenset((TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ))
_FLOATS = frozenset((TypeRoot.FLOAT, TypeRoot.DOUBLE))
_ROOTS = {
    IndexType.BLOOM_FILTER: _TEXTS | _WHOLE | _TIMES | _FLOATS | {TypeRoot.BINARY, TypeRoot.VARBINARY},
    IndexType.BITMAP: _TEXTS | _WHOLE | _TIMES | _FLOATS | {TypeRoot.BOOLEAN},
    IndexType.BSI: _WHOLE | _TIMES | {TypeRoot.DECIMAL},
    IndexType.RANGE_BITMAP: _TEXTS | _WHOLE | _TIMES | _FLOATS | {TypeRoot.BOOLEAN, TypeRoot.DECIMAL},
}


def can_index(data_type: DataType, index: IndexType) -> bool:
    """Return whether an index of this type can index values of `data_type`."""
    if not isinstance(data_type, AtomicType) or data_type.root not in _ROOTS[index]:
        return False
    if data_type.root is TypeRoot.DECIMAL:
        return data_type.precision <= _LONGEST_DECIMAL
    if index is IndexType.RANGE_BITMAP and data_type.root in _TIMES:
        return data_type.precision <= COARSE_DIGITS
    return True


def index_specs(schema: TableSchema) -> tuple[IndexSpec, ...]:
    """Return the indexes that new files of a table get, ordered by column and type.

    Raises InvalidOptionError naming the option: an unknown column or type of index, a value that cannot be;
    UnsupportedError for a column whose type no such index can hold.
    """
    declared = _declarations(schema)
    settings: dict[tuple[IndexType, str, str | None], dict[str, str]] = {place: {} for place in declared}
    shared: dict[tuple[IndexType, str], dict[str, str]] = {(t, c): {} for t, c, key in declared if key}
    for option, value in schema.options.items():
        parts = option.removeprefix(_PREFIX).split(".")
        if not option.startswith(_PREFIX) or option.endswith(_COLUMNS) or len(parts) != _OPTION_PARTS:
            continue
        _own_settings(settings, shared, option, parts)[parts[2]] = value
    specs = [_spec(schema, place, {**shared.get(place[:2], {}), **own}) for place, own in settings.items()]
    IN_MANIFEST.read(schema.options)
    return tuple(sorted(specs, key=lambda spec: (spec.name, spec.type.value)))


def _own_settings(
    settings: Mapping[tuple[IndexType, str, str | None], dict[str, str]],
    shared: Mapping[tuple[IndexType, str], dict[str, str]],
    option: str,
    parts: list[str],
) -> dict[str, str]:
    """Return the settings to which an option of one column belongs."""
    kind, name = _index_type(option, parts[0]), parts[1]
    column, key = _split(name)
    setting = settings.get((kind, column, key))
    if setting is None and key is None:
        setting = shared.get((kind, column))
    if setting is None:
        raise InvalidOptionError(
            f"option {option}: column {name!r} is missing in option {_PREFIX}{kind.value}{_COLUMNS}; add it "
            "there"
        )
    return setting


def _declarations(schema: TableSchema) -> list[tuple[IndexType, str, str | None]]:
    out: dict[tuple[IndexType, str, str | None], None] = {}
    for option, value in schema.options.items():
        if not option.startswith(_PREFIX) or not option.endswith(_COLUMNS):
            continue
        kind = _index_type(option, option[len(_PREFIX) : -len(_COLUMNS)])
        for name in value.split(","):
            if not name.strip():
                raise InvalidOptionError(
                    f"option {option}={value!r}: contains an empty column name; remove the comma"
                )
            out[(kind, *_split(name.strip()))] = None
    return list(out)


def _index_type(option: str, text: str) -> IndexType:
    try:
        return IndexType(text)
    except ValueError as err:
        names = ", ".join(kind.value for kind in IndexType)
        raise InvalidOptionError(
            f"option {option}: there is no index type {text!r}; index types: {names}"
        ) from err


def _split(name: str) -> tuple[str, str | None]:
    """Split `m[key]` into ("m", "key"), and a plain name into itself and None."""
    at = name.find("[")
    return (name[:at], name[at + 1 : -1]) if at >= 0 and name.endswith("]") else (name, None)


def _spec(schema: TableSchema, place: tuple[IndexType, str, str | None], raw: Mapping[str, str]) -> IndexSpec:
    kind, column, key = place
    option = f"{_PREFIX}{kind.value}{_COLUMNS}"
    field = next((field for field in schema.fields if field.name == column), None)
    if field is None:
        names = ", ".join(schema.row_type.names)
        raise InvalidOptionError(f"option {option}: there is no column {column!r}; columns: {names}")
    value = _value_type(field, key, option)
    if not can_index(value, kind):
        raise UnsupportedError(
            f"option {option}: column {column} of type {type_text(value)} cannot have an index of type "
            f"{kind.value}; leave it out"
        )
    rules = _rules(kind, raw, f"{_PREFIX}{kind.value}.{column}")
    assert isinstance(value, AtomicType)
    if isinstance(rules, BitmapRules):
        rules.check_width(f"{_PREFIX}{kind.value}.{column}", width_of(value) or 0)
    return IndexSpec(type=kind, column=column, key=key, data_type=value, rules=rules)


def _value_type(field: DataField, key: str | None, option: str) -> DataType:
    if key is None:
        return field.type
    if not isinstance(field.type, MapType):
        raise InvalidOptionError(
            f"option {option}: {field.name}[{key}] names a key, but the column is not a MAP; leave the "
            "key out"
        )
    if not isinstance(field.type.key, AtomicType) or field.type.key.root not in _TEXTS:
        raise UnsupportedError(
            f"option {option}: {field.name}[{key}]: only maps with string keys can have indexes; leave it out"
        )
    return field.type.value


def _rules(kind: IndexType, raw: Mapping[str, str], prefix: str) -> Rules:
    settings = {f"{prefix}.{name}": value for name, value in raw.items()}
    rules: Rules = NoRules()
    if kind is IndexType.BLOOM_FILTER:
        items = Option(
            f"{prefix}.items", int, BloomFilterRules().items, "Expected number of different values."
        )
        fpp = Option(f"{prefix}.fpp", float, BloomFilterRules().fpp, "Accepted rate of false positives.")
        rules = BloomFilterRules(items.read(settings), fpp.read(settings))
    elif kind is IndexType.BITMAP:
        version = Option(f"{prefix}.version", int, BitmapRules().version, "Version of the index: 1 or 2.")
        block = Option(
            f"{prefix}.index-block-size", parse_size, BitmapRules().block_size, "Size of a block, in bytes."
        )
        rules = BitmapRules(version.read(settings), block.read(settings))
    elif kind is IndexType.RANGE_BITMAP:
        chunk: Option[int | None] = Option(
            f"{prefix}.chunk-size", parse_size, None, "Size of a chunk, in bytes."
        )
        rules = RangeBitmapRules(chunk.read(settings))
    rules.check(prefix)
    return rules
