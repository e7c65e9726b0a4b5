"""MAP columns whose values lie in columns that the keys of a row share (map.storage-layout=shared-shredding).

Spec: such a column is stored as a group of `__field_mapping` (for each value column the id of its key in
this row, -1: none), `__col_0` to `__col_<n-1>` and `__overflow` (key id -> value, of the keys without a
column). The ids of the keys, which are text, hold for one file; the metadata of the field in its Arrow schema
(`ARROW:schema` of the file) has them.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import cramjam
import numpy as np
import pyarrow as pa
from backports import zstd

from lakecore.errors import UnsupportedError

__all__ = ["ShreddedMaps"]

_ARROW_SCHEMA = b"ARROW:schema"
_LAYOUT, _SHARED = b"paimon.map.storage-layout", b"shared-shredding"
_PREFIX = b"paimon.map.shared-shredding."
_VERSION = b"1"
_MAPPING, _COLUMN, _OVERFLOW = "__field_mapping", "__col_", "__overflow"
_LZ4_HEADER = struct.Struct("<ii")
_MAX_NAMES = 1 << 26
"""Bytes that the names of the keys of one column may take: damage must not ask for memory."""

Ints = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class _Names:
    """The keys of one column: `texts` by their `ids`, which ascend. `columns`: how many it has for values."""

    texts: pa.Array
    ids: Ints
    columns: int

    def places(self, ids: Ints) -> Ints:
        """Where in `texts` the keys are; -1 for ids that are none."""
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
        """`metadata`: the keys and values of the file's footer.

        Raises UnsupportedError for a later version of the layout, ValueError and its like for bad metadata.
        """
        groups = [field for field in stored if _is_group(field.type)]
        told = _field_metadata(metadata) if groups else {}
        found = {
            field.name: _names(told[field.name], field, path)
            for field in groups
            if told.get(field.name, {}).get(_LAYOUT) == _SHARED
        }
        schema = stored
        for name in found:
            at = stored.get_field_index(name)
            schema = schema.set(at, stored.field(at).with_type(_map_type(stored.field(at).type)))
        return cls(schema, found)

    def restored(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A stored batch with maps in the place of groups. Raises ValueError where they break the rule."""
        if not any(name in self.names for name in batch.schema.names):
            return batch
        columns = [
            _restored(column, self.names[name]) if name in self.names else column
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        schema = pa.schema([self.schema.field(name) for name in batch.schema.names])
        return pa.RecordBatch.from_arrays(columns, schema=schema)


def _is_group(kind: pa.DataType) -> bool:
    return bool(pa.types.is_struct(kind) and kind.get_field_index(_MAPPING) >= 0)


def _map_type(kind: pa.StructType) -> pa.MapType:
    return pa.map_(pa.string(), kind.field(f"{_COLUMN}0").type)


def _field_metadata(metadata: Mapping[bytes, bytes] | None) -> dict[str, dict[bytes, bytes]]:
    encoded = (metadata or {}).get(_ARROW_SCHEMA)
    if encoded is None:
        return {}
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(encoded, validate=True)))
    except (binascii.Error, pa.ArrowInvalid) as err:
        raise ValueError(f"its ARROW:schema cannot be decoded: {err}") from err
    return {field.name: field.metadata or {} for field in schema}


def _names(metadata: Mapping[bytes, bytes], field: pa.Field, path: str) -> _Names:
    column = field.name
    version = metadata[_PREFIX + b"version"]
    if version != _VERSION:
        raise UnsupportedError(
            f"{path}: column {column} is a MAP in the layout shared-shredding of version {version.decode()}; "
            "this release reads version 1"
        )
    # bytes were put into text as ISO 8859-1, one character each
    packed = metadata[_PREFIX + b"field-dict"].decode().encode("latin-1")
    size = int(metadata[_PREFIX + b"field-dict-original-size"])
    if not 0 <= size <= _MAX_NAMES:
        raise ValueError(f"the keys of column {column} take {size} bytes")
    codec = metadata.get(_PREFIX + b"field-dict-compression", b"zstd").decode().lower()
    ids: dict[str, int] = json.loads(_UNPACK[codec](packed, size))
    ordered = sorted(ids, key=ids.__getitem__)
    numbers = np.array([ids[name] for name in ordered], np.int64)
    if (numbers < 0).any() or (np.diff(numbers) == 0).any():
        raise ValueError(f"the keys of column {column} are not numbered")
    columns = int(metadata[_PREFIX + b"num-columns"])
    if columns != sum(part.name.startswith(_COLUMN) for part in field.type):
        raise ValueError(f"column {column} has not the {columns} value columns that its metadata says")
    return _Names(pa.array(ordered, pa.string()), numbers, columns)


def _unzstd(packed: bytes, size: int) -> bytes:
    return zstd.ZstdDecompressor().decompress(packed, max_length=size)


def _unlz4(packed: bytes, size: int) -> bytes:
    length, raw = _LZ4_HEADER.unpack_from(packed)
    if raw != size or length != len(packed) - _LZ4_HEADER.size:
        raise ValueError("the keys of a column are cut off")
    return bytes(cramjam.lz4.decompress_block(packed[_LZ4_HEADER.size :], output_len=size))


_UNPACK: Mapping[str, Callable[[bytes, int], bytes]] = {
    "none": lambda packed, _size: packed,
    "zstd": _unzstd,
    "lz4": _unlz4,
}


def _restored(group: pa.StructArray, names: _Names) -> pa.Array:
    """The maps of a group, entries in the order of the value columns, those without a column at the end."""
    kind = group.type
    parts = {field.name: part for field, part in zip(kind, group.flatten(), strict=True)}
    present = group.is_valid().to_numpy(zero_copy_only=False)
    ids = _mapping(parts[_MAPPING], present, names.columns)
    values, rows, keys = [], [], []
    for column in range(names.columns):
        places = names.places(ids[:, column])
        held = np.flatnonzero(present & (places >= 0))
        values.append(parts[f"{_COLUMN}{column}"].take(pa.array(held)))
        rows.append(held)
        keys.append(places[held])
    if _OVERFLOW in parts:
        beyond, owners = _entries(parts[_OVERFLOW])
        places = names.places(beyond.field(0).fill_null(-1).to_numpy())
        known = np.flatnonzero(places >= 0)
        values.append(beyond.field(1).take(pa.array(known)))
        rows.append(owners[known])
        keys.append(places[known])
    owner = np.concatenate(rows)
    order = np.argsort(owner, kind="stable")
    target = _map_type(kind)
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
    """Ids of keys by row and column; -1 for rows that are null. Raises ValueError."""
    ids = np.full((len(mapping), columns), -1, np.int64)
    lengths = mapping.value_lengths().fill_null(-1).to_numpy()
    if (lengths[present] != columns).any():
        raise ValueError(f"a {_MAPPING} that has not the {columns} ids that its metadata says")
    held = mapping.filter(pa.array(present)).flatten()
    if held.null_count:
        raise ValueError(f"a {_MAPPING} with null in it")
    ids[present] = held.to_numpy().reshape(-1, columns)
    return ids


def _entries(maps: pa.MapArray) -> tuple[pa.StructArray, Ints]:
    """The entries of all maps and the row of each."""
    offsets = maps.offsets.to_numpy()
    starts = offsets[:-1]
    counts = np.where(maps.is_valid().to_numpy(zero_copy_only=False), np.diff(offsets), 0)
    owners = np.repeat(np.arange(len(maps)), counts)
    firsts = np.cumsum(counts) - counts
    at = np.arange(len(owners)) + np.repeat(starts - firsts, counts)
    pair = [maps.keys.take(pa.array(at)), maps.items.take(pa.array(at))]
    return pa.StructArray.from_arrays(pair, names=["key", "value"]), owners
