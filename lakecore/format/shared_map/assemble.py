"""This module assembles MAP columns whose values lie in columns that the keys of a row share
(map.storage-layout=shared-shredding).

Spec: such a column is stored as a group of `__field_mapping` (for each value column the id of its key in
this row, -1: none), `__col_0` to `__col_<n-1>` and `__overflow` (key id -> value, of the keys without a
column). The ids of the keys, which are text, hold for one file; the metadata of the field in its Arrow schema
(`ARROW:schema` of the file) has them.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.errors import UnsupportedError
from lakecore.format.shared_map.footer_metadata import (
    COLUMN,
    LAYOUT,
    MAPPING,
    MAX_NAMES,
    OVERFLOW,
    PREFIX,
    SHARED,
    VERSION,
    unpacked,
)
from lakecore.format.shredding import ARROW_SCHEMA

__all__ = ["ShreddedMaps"]

Ints = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class _Names:
    """The keys of one column: `texts` by their `ids`, which ascend. `columns` is the number of its columns
    for values.
    """

    texts: pa.Array
    ids: Ints
    columns: int

    def places(self, ids: Ints) -> Ints:
        """Return where in `texts` the keys are; -1 for ids that are none."""
        if not len(self.ids):
            return np.full(len(ids), -1, np.int64)
        at = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.where(self.ids[at] == ids, at, -1)


@dataclass(frozen=True, slots=True)
class ShreddedMaps:
    """The columns of one file that are stored so; `schema` has maps in their place."""

    schema: pa.Schema
    names: Mapping[str, _Names]

    @classmethod
    def of(cls, stored: pa.Schema, metadata: Mapping[bytes, bytes] | None, path: str) -> ShreddedMaps:
        """Return the shredded maps of a file. `metadata` has the keys and values of its footer.

        Raises UnsupportedError for a later version of the layout, ValueError and its like for bad metadata.
        """
        groups = [field for field in stored if _is_group(field.type)]
        metadata_by_field = _field_metadata(metadata) if groups else {}
        columns = {
            field.name: _names(metadata_by_field[field.name], field, path)
            for field in groups
            if metadata_by_field.get(field.name, {}).get(LAYOUT) == SHARED
        }
        schema = stored
        for name in columns:
            at = stored.get_field_index(name)
            schema = schema.set(at, stored.field(at).with_type(_map_type(stored.field(at).type)))
        return cls(schema, columns)

    def restored(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a stored batch with maps in the place of groups. Raises ValueError where they break the
        rule.
        """
        if not any(name in self.names for name in batch.schema.names):
            return batch
        columns = [
            _restore(column, self.names[name]) if name in self.names else column
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        schema = pa.schema([self.schema.field(name) for name in batch.schema.names])
        return pa.RecordBatch.from_arrays(columns, schema=schema)


def _is_group(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_struct(data_type) and data_type.get_field_index(MAPPING) >= 0)


def _map_type(kind: pa.StructType) -> pa.MapType:
    return pa.map_(pa.string(), kind.field(f"{COLUMN}0").type)


def _field_metadata(metadata: Mapping[bytes, bytes] | None) -> dict[str, dict[str, str]]:
    encoded = (metadata or {}).get(ARROW_SCHEMA)
    if encoded is None:
        return {}
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(encoded, validate=True)))
    except (binascii.Error, pa.ArrowInvalid) as err:
        raise ValueError(f"its ARROW:schema cannot be decoded: {err}") from err
    return {
        field.name: {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
        for field in schema
    }


def _names(metadata: Mapping[str, str], field: pa.Field, path: str) -> _Names:
    column = field.name
    version = metadata[PREFIX + "version"]
    if version != VERSION:
        raise UnsupportedError(
            f"{path}: column {column} is a MAP in version {version} of the layout shared-shredding, but "
            "this release reads version 1"
        )
    # bytes were put into text as ISO 8859-1, one character each
    packed = metadata[PREFIX + "field-dict"].encode("latin-1")
    size = int(metadata[PREFIX + "field-dict-original-size"])
    if not 0 <= size <= MAX_NAMES:
        raise ValueError(f"the keys of column {column} take {size} bytes")
    codec = metadata.get(PREFIX + "field-dict-compression", "zstd").lower()
    ids: dict[str, int] = json.loads(unpacked(codec, packed, size))
    ordered = sorted(ids, key=ids.__getitem__)
    numbers = np.array([ids[name] for name in ordered], np.int64)
    if (numbers < 0).any() or (np.diff(numbers) == 0).any():
        raise ValueError(f"the keys of column {column} are not numbered correctly")
    columns = int(metadata[PREFIX + "num-columns"])
    if columns != sum(part.name.startswith(COLUMN) for part in field.type):
        raise ValueError(
            f"column {column} does not have the {columns} value columns that its metadata records"
        )
    return _Names(pa.array(ordered, pa.string()), numbers, columns)


def _restore(group: pa.StructArray, names: _Names) -> pa.Array:
    """Return the maps of a group, with entries in the order of the value columns, and those without a column
    at the end.
    """
    data_type = group.type
    parts = {field.name: part for field, part in zip(data_type, group.flatten(), strict=True)}
    present = group.is_valid().to_numpy(zero_copy_only=False)
    ids = _mapping(parts[MAPPING], present, names.columns)
    values, rows, keys = [], [], []
    for column in range(names.columns):
        places = names.places(ids[:, column])
        rows_with_value = np.flatnonzero(present & (places >= 0))
        values.append(parts[f"{COLUMN}{column}"].take(pa.array(rows_with_value)))
        rows.append(rows_with_value)
        keys.append(places[rows_with_value])
    if OVERFLOW in parts:
        beyond, owners = _entries(parts[OVERFLOW])
        places = names.places(beyond.field(0).fill_null(-1).to_numpy())
        rows_with_place = np.flatnonzero(places >= 0)
        values.append(beyond.field(1).take(pa.array(rows_with_place)))
        rows.append(owners[rows_with_place])
        keys.append(places[rows_with_place])
    owner = np.concatenate(rows)
    order = np.argsort(owner, kind="stable")
    target = _map_type(data_type)
    items = pa.concat_arrays(values).take(pa.array(order))
    texts = names.texts.take(pa.array(np.concatenate(keys)[order]))
    entries = pa.StructArray.from_arrays([texts, items], fields=[target.key_field, target.item_field])
    ends = np.cumsum(np.bincount(owner, minlength=len(group)))
    offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
    validity = None if present.all() else pa.array(present).buffers()[1]
    return pa.Array.from_buffers(
        target, len(group), [validity, offsets.buffers()[1]], -1, 0, children=[entries]
    )


def _mapping(mapping: pa.ListArray, present: Ints, columns: int) -> Ints:
    """Return the ids of keys by row and column; -1 for rows that are null. Raises ValueError."""
    ids = np.full((len(mapping), columns), -1, np.int64)
    lengths = mapping.value_lengths().fill_null(-1).to_numpy()
    if (lengths[present] != columns).any():
        raise ValueError(f"a {MAPPING} does not have the {columns} ids that its metadata records")
    entries = mapping.filter(pa.array(present)).flatten()
    if entries.null_count:
        raise ValueError(f"a {MAPPING} contains null")
    ids[present] = entries.to_numpy().reshape(-1, columns)
    return ids


def _entries(maps: pa.MapArray) -> tuple[pa.StructArray, Ints]:
    """Return the entries of all maps and the row of each."""
    offsets = maps.offsets.to_numpy()
    starts = offsets[:-1]
    counts = np.where(maps.is_valid().to_numpy(zero_copy_only=False), np.diff(offsets), 0)
    owners = np.repeat(np.arange(len(maps)), counts)
    firsts = np.cumsum(counts) - counts
    at = np.arange(len(owners)) + np.repeat(starts - firsts, counts)
    pair = [maps.keys.take(pa.array(at)), maps.items.take(pa.array(at))]
    return pa.StructArray.from_arrays(pair, names=["key", "value"]), owners
