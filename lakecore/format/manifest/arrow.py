"""This module reads and writes manifests that are parquet or orc files (option `manifest.format`, until
release 2.0).

They hold the same columns as the avro ones. They are rare and small, so plain Python rows will do.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc
import pyarrow.parquet as pq

from lakecore.errors import CorruptDataError
from lakecore.format.corruption import corrupt_data_errors

__all__ = ["ManifestFormat", "arrow_records", "encode_arrow", "is_orc", "is_parquet"]

ManifestFormat = str
"""This is the format of manifests: `avro`, `parquet` or `orc`."""

_NESTED_ID_BASE = 536870911
_NESTED_ID_STEP = 1024
_TINY = frozenset({"_KIND", "_FILE_SOURCE"})
_ATOMS = {"int": pa.int32(), "long": pa.int64(), "bytes": pa.binary(), "string": pa.string()}


def is_parquet(data: bytes) -> bool:
    return data[:4] == b"PAR1"


def is_orc(data: bytes) -> bool:
    return data[:3] == b"ORC"


def arrow_records(data: bytes, path: str) -> tuple[list[dict[str, Any]], frozenset[str]]:
    """Return the rows of a parquet or orc manifest, and the dotted names of its columns.

    Raises CorruptDataError naming `path`.
    """
    with corrupt_data_errors(path):
        source = pa.BufferReader(data)
        table = pq.ParquetFile(source).read() if is_parquet(data) else pyarrow.orc.ORCFile(source).read()
        names = frozenset(_names(table.schema, ""))
        columns = [_plain(column.combine_chunks()) for column in table.columns]
        rows: list[dict[str, Any]] = pa.table(columns, names=table.column_names).to_pylist()
    if not isinstance(rows, list):
        raise CorruptDataError(path, "does not contain rows")
    return rows, names


def _names(fields: Any, prefix: str) -> list[str]:
    out = []
    for field in fields:
        out.append(prefix + field.name)
        nested = field.type.value_type if pa.types.is_list(field.type) else field.type
        if pa.types.is_struct(nested):
            out.extend(_names(nested, f"{prefix}{field.name}."))
    return out


def _plain(array: pa.Array) -> pa.Array:
    """Return the array with timestamps as milliseconds, at any depth of structs."""
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if pa.types.is_timestamp(array.type):
        return array.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
    if not pa.types.is_struct(array.type):
        return array
    children = [_plain(pc.struct_field(array, [index])) for index in range(array.type.num_fields)]
    names = [field.name for field in array.type]
    return pa.StructArray.from_arrays(children, names=names, mask=array.is_null())


def encode_arrow(rows: Sequence[dict[str, Any]], schema_text: str, kind: ManifestFormat) -> bytes:
    """Return a whole parquet or orc file of `rows`; its columns are as in the avro schema `schema_text`."""
    fields = json.loads(schema_text)["fields"]
    schema = pa.schema([_field(field, index - 1, kind) for index, field in enumerate(fields)])
    table = pa.Table.from_pylist(list(rows), schema=schema)
    out = io.BytesIO()
    if kind == "orc":
        pyarrow.orc.write_table(table, out, compression="zstd")
    else:
        pq.write_table(table, out, compression="zstd", store_schema=False)
    return out.getvalue()


def _field(raw: dict[str, Any], field_id: int, kind: ManifestFormat) -> pa.Field:
    avro = raw["type"]
    optional = isinstance(avro, list)
    arrow = _arrow(raw["name"], avro[1] if optional else avro, field_id, kind)
    return pa.field(raw["name"], arrow, nullable=optional, metadata=_ids(field_id, kind))


def _arrow(name: str, avro: Any, field_id: int, kind: ManifestFormat) -> pa.DataType:
    if isinstance(avro, str):
        return pa.int8() if name in _TINY else _ATOMS[avro]
    if avro["type"] == "record":
        return pa.struct([_field(field, index, kind) for index, field in enumerate(avro["fields"])])
    if avro["type"] == "array":
        optional = isinstance(avro["items"], list)
        items = avro["items"][1] if optional else avro["items"]
        element_id = _NESTED_ID_BASE + field_id * _NESTED_ID_STEP + 1
        element = _arrow("element", items, element_id, kind)
        return pa.list_(pa.field("element", element, nullable=optional, metadata=_ids(element_id, kind)))
    return pa.timestamp("ms")


def _ids(field_id: int, kind: ManifestFormat) -> dict[str, str]:
    return {"paimon.id" if kind == "orc" else "PARQUET:field_id": str(field_id)}
