"""This module says which options ALTER may set and unset, and which options name a renamed column. It is
pure.

Once there are snapshots, options that determine how stored rows are laid out or merged cannot change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from lakecore.errors import InvalidOptionError
from lakecore.metadata.option_rules.checks import check_new_option
from lakecore.metadata.schema import TableSchema
from lakecore.options import Option, parse_bool, parse_list

__all__ = ["Options", "check_set", "check_unset", "is_on", "renamed_options"]

Options: TypeAlias = Mapping[str, str]

_IMMUTABLE = frozenset({
    "bucket-key", "bucket-function.type", "data-file.path-directory", "merge-engine", "rowkind.field",
    "aggregation.remove-record-on-delete", "partial-update.remove-record-on-delete",
    "partial-update.remove-record-on-sequence-group", "primary-key", "partition", "force-lookup",
    "row-tracking.enabled", "data-evolution.enabled", "index-file-in-data-file-dir", "pk-clustering-override",
    "sequence.snapshot-ordering", "blob-field", "blob-descriptor-field", "blob-view-field",
    "blob-external-storage-path", "blob-external-storage-field", "dynamic-bucket.initial-buckets",
})  # fmt: skip
"""The options that Paimon 1.4 and 2.0 do not allow to change."""
_NAMES_OF_DIRECTORIES = frozenset({"partition.default-name", "partition.legacy-name"})
"""Files are found by these names. Paimon lets them change, and then finds no file any more."""
_NEVER = frozenset({"type", "path"})
_ONE_WAY = ("ignore-delete", "ignore-update-before")
_BUCKET = Option("bucket", int, -1, "")
_UNKNOWN_BUCKETS = -1
_DELETION_VECTORS = "deletion-vectors.enabled"
_MODIFIABLE = "deletion-vectors.modifiable"
_CLUSTERING = "clustering.columns"
_CLUSTERING_OVERRIDE = "pk-clustering-override"
_OF_FIELD = (
    "aggregate-function",
    "ignore-retract",
    "distinct",
    "list-agg-delimiter",
    "map.storage-layout",
    "map.shared-shredding.max-columns",
    "map.shared-shredding.column-placement-policy",
)
_OF_FIELDS = ("sequence-group", "nested-key")
_FIELD_LISTS = ("bucket-key", "sequence.field")
_FILE_INDEX = "file-index."


def is_on(options: Options, key: str, *, default: bool = False) -> bool:
    """Return the value of a switch. Raises InvalidOptionError unless it is true or false."""
    return Option(key, parse_bool, default, "").read(options)


def check_set(schema: TableSchema, key: str, value: str, *, has_snapshots: bool) -> bool:
    """Return whether setting `key` to `value` changes anything. Raises InvalidOptionError when it is not
    allowed.
    """
    old = schema.options.get(key)
    if old == value or _as_before(schema, key, value):
        return False
    if key in _NEVER:
        raise InvalidOptionError(f"option {key}: it is part of the table and cannot change")
    check_new_option(key, value)
    if not has_snapshots:
        return True
    if key in _IMMUTABLE:
        raise InvalidOptionError(
            f"option {key}={value}: it cannot change once the table has snapshots; create a new "
            "table and copy the rows"
        )
    if key in _NAMES_OF_DIRECTORIES:
        raise InvalidOptionError(
            f"option {key}={value}: existing files would no longer be found; copy the rows into a new table"
        )
    _check_bucket(old, key, value)
    _check_deletion_vectors(schema.options, key, value)
    if key in _ONE_WAY and is_on(schema.options, key) and not is_on({key: value}, key):
        raise InvalidOptionError(f"option {key}: it cannot change from true to false")
    _check_clustering(schema.options, key)
    return True


def check_unset(schema: TableSchema, key: str, *, has_snapshots: bool) -> None:
    """Raise InvalidOptionError saying why `key` may not return to its default."""
    if key in _NEVER:
        raise InvalidOptionError(f"option {key}: it is part of the table and cannot change")
    if not has_snapshots:
        return
    if key in _IMMUTABLE or key == _BUCKET.key:
        raise InvalidOptionError(f"option {key}: it cannot be unset once the table has snapshots")
    if key in _NAMES_OF_DIRECTORIES and key in schema.options:
        raise InvalidOptionError(f"option {key}: existing files would no longer be found")
    _check_clustering(schema.options, key)


def renamed_options(options: Options, old: str, new: str) -> Options:
    """Replace column `old` by `new` in the options that name it: keys, order, aggregates, sequence groups and
    file indexes. (Paimon refuses to rename a column with a file index.)
    """
    return dict(_renamed_option(key, value, old, new) for key, value in options.items())


def _renamed_option(key: str, value: str, old: str, new: str) -> tuple[str, str]:
    if key in _FIELD_LISTS and value.strip():
        return key, _names(value, old, new)
    if key.startswith(_FILE_INDEX):
        return _renamed_index(key, value, old, new)
    if not key.startswith("fields."):
        return key, value
    head, _, suffix = key.removeprefix("fields.").rpartition(".")
    if suffix in _OF_FIELDS:
        return f"fields.{_names(head, old, new)}.{suffix}", _names(value, old, new)
    if any(key == f"fields.{old}.{is_renamed}" for is_renamed in _OF_FIELD):
        return "fields." + new + key.removeprefix(f"fields.{old}"), value
    return key, value


def _renamed_index(key: str, value: str, old: str, new: str) -> tuple[str, str]:
    """Rename the column in `file-index.<type>.columns` = `a,m[key]` and `file-index.<type>.a.<option>`."""
    if key.endswith(".columns"):
        return key, ",".join(_indexed_name(name, old, new) for name in value.split(","))
    kind, _, rest = key.removeprefix(_FILE_INDEX).partition(".")
    column, _, setting = rest.rpartition(".")
    return f"{_FILE_INDEX}{kind}.{_indexed_name(column, old, new)}.{setting}" if column else key, value


def _indexed_name(name: str, old: str, new: str) -> str:
    column, bracket, key = name.strip().partition("[")
    return f"{new}{bracket}{key}" if column == old else name


def _names(text: str, old: str, new: str) -> str:
    return ",".join(new if name == old else name for name in text.split(","))


def _as_before(schema: TableSchema, key: str, value: str) -> bool:
    """Return whether the table has this value already: keys are not stored as options, and a plain table need
    not state its type.
    """
    if key == "type":
        return value.lower() == schema.options.get(key, "table").lower()
    keys = {"primary-key": schema.primary_keys, "partition": schema.partition_keys}.get(key)
    return keys is not None and bool(keys) and parse_list(value) == keys


def _check_bucket(old: str | None, key: str, value: str) -> None:
    if key != _BUCKET.key:
        return
    before = _BUCKET.read({} if old is None else {key: old})
    if before == _UNKNOWN_BUCKETS or _BUCKET.read({key: value}) == _UNKNOWN_BUCKETS:
        raise InvalidOptionError(
            f"option bucket={value}: tables with bucket={before} cannot change to it; copy the "
            "rows into a new table"
        )


def _check_deletion_vectors(options: Options, key: str, value: str) -> None:
    if key != _DELETION_VECTORS or is_on(options, _MODIFIABLE):
        return
    if is_on(options, key) != is_on({key: value}, key):
        raise InvalidOptionError(
            f"option {key}={value}: without a full compaction before, rows would be duplicated or reappear; "
            f"after one, set {_MODIFIABLE}=true first"
        )


def _check_clustering(options: Options, key: str) -> None:
    if key == _CLUSTERING and _CLUSTERING_OVERRIDE in options:
        raise InvalidOptionError(f"option {key}: it cannot change while {_CLUSTERING_OVERRIDE} is set")
