"""The shredder of VARIANT columns chooses the typed columns of the files of one writer.

The schema comes from options for columns of the table, or is inferred from the first rows of each file,
also inside of ROWs. Only parquet files have typed columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from lakecore.format.arrow_nested import view_as
from lakecore.format.shredding import StoredLayout
from lakecore.format.variant.inference import Evidence, Limits, infer_types
from lakecore.format.variant.shred import SCALARS, shred_values, shredded_type
from lakecore.options import Option, parse_bool
from lakecore.types.arrow import arrow_schema
from lakecore.types.datatypes import ArrayType, AtomicType, DataField, DataType, RowType, TypeRoot, parse_type

__all__ = ["VariantShredder", "check_inference"]

Path = tuple[str, ...]
_MAX_DEPTH = 100


def _parse_schema(text: str) -> RowType | None:
    try:
        data_type = parse_type(json.loads(text))
    except (KeyError, TypeError, RecursionError) as err:
        raise ValueError(f"must be a ROW in JSON: {err}") from err
    if not isinstance(data_type, RowType):
        raise ValueError("must be a ROW in JSON")
    for field in data_type:
        _check(field.type, field.name, _MAX_DEPTH)
    return data_type


def _check(data_type: DataType, path: str, depth: int) -> None:
    """Raise ValueError for what Java does not read as typed columns."""
    match data_type:
        case RowType(fields=fields) if fields and depth:
            for field in fields:
                _check(field.type, f"{path}.{field.name}", depth - 1)
        case ArrayType(element=element) if depth:
            _check(element, f"{path}.element", depth - 1)
        case AtomicType(root=root) if root is TypeRoot.VARIANT or root in SCALARS:
            return
        case _:
            raise ValueError(f"{path}: values cannot be stored as {data_type}; write VARIANT there")


def _natural(text: str) -> int:
    if int(text) <= 0:
        raise ValueError("must be above 0")
    return int(text)


def _share(text: str) -> float:
    if not 0 <= float(text) <= 1:
        raise ValueError("must be between 0 and 1")
    return float(text)


SCHEMA: Option[RowType | None] = Option(
    "variant.shreddingSchema",
    _parse_schema,
    None,
    "Types of VARIANT columns (a ROW as JSON) for which new files have typed columns.",
    ("parquet.variant.shreddingSchema",),
)
INFER = Option(
    "variant.inferShreddingSchema", parse_bool, False, "Whether these types are chosen by the first rows."
)
WIDTH = Option("variant.shredding.maxSchemaWidth", int, 300, "Maximum number of typed columns.")
DEPTH = Option("variant.shredding.maxSchemaDepth", int, 50, "Maximum depth to which values are examined.")
SHARE = Option(
    "variant.shredding.minFieldCardinalityRatio",
    _share,
    0.1,
    "Share of rows that must have a field.",
)
SAMPLE = Option("variant.shredding.maxInferBufferRow", _natural, 4096, "Number of rows that are examined.")


def check_inference(raw: Mapping[str, str]) -> None:
    """Check the options by which types are chosen. Raises InvalidOptionError."""
    for option in (INFER, WIDTH, DEPTH, SHARE, SAMPLE):
        option.read(raw)


class VariantShredder:
    """It shreds variants by the options. Each file is inferred alone:
    variant.shredding.inferenceMode=adaptive, which only chooses other columns, is ignored.
    """

    def __init__(self, row_type: RowType, raw: Mapping[str, str]) -> None:
        self._row_type = row_type
        schema_text = SCHEMA.read(raw)
        self._configured = None if schema_text is None else _types_by_path(row_type, schema_text)
        self._limits = Limits(WIDTH.read(raw), DEPTH.read(raw), SHARE.read(raw))
        self._paths = list(_paths(row_type, ()))
        self.sample_rows = SAMPLE.read(raw) if self._configured is None else 0

    @classmethod
    def of(cls, row_type: RowType, raw: Mapping[str, str], file_format: str) -> VariantShredder | None:
        """Return a shredder; None if the columns are stored as they are. Raises InvalidOptionError."""
        if file_format != "parquet" or not any(_paths(row_type, ())):
            return None
        is_requested = SCHEMA.key in raw or SCHEMA.old_keys[0] in raw or INFER.read(raw)
        shredder = cls(row_type, raw) if is_requested else None
        return shredder if shredder is not None and shredder._configured != {} else None

    def shape(self, sample: Sequence[pa.RecordBatch]) -> StoredLayout:
        """Choose the layout by the first rows of `sample`, as many as the options say."""
        if self._configured is not None:
            return _ShreddedColumns(self._row_type, self._configured)
        evidence = [Evidence.of(self._values(sample, path), self._limits) for path in self._paths]
        shredded_types = infer_types(evidence, self._limits)
        return _ShreddedColumns(self._row_type, dict(zip(self._paths, shredded_types, strict=True)))

    def finished(self, shape: StoredLayout) -> None:
        """Do nothing, because files do not depend on one another."""

    def _values(self, sample: Sequence[pa.RecordBatch], path: Path) -> Iterator[tuple[bytes, bytes]]:
        rows_left = self.sample_rows
        for batch in sample:
            column = batch.slice(0, rows_left).column(path[0])
            rows_left -= len(column)
            for name in path[1:]:
                column = _part(column, name)
            for row in column.drop_null().to_pylist():
                yield row["value"], row["metadata"]


def _part(column: pa.StructArray, name: str) -> pa.Array:
    """Return a field, which is null where the row is."""
    return column.flatten()[column.type.get_field_index(name)]


def _paths(row_type: RowType, above: Path) -> Iterator[Path]:
    """Yield the paths of VARIANT columns, also inside of ROWs."""
    for field in row_type:
        match field.type:
            case AtomicType(root=TypeRoot.VARIANT):
                yield (*above, field.name)
            case RowType() as inner:
                yield from _paths(inner, (*above, field.name))


def _types_by_path(row_type: RowType, schema: RowType) -> dict[Path, DataType]:
    types = {field.name: field.type for field in schema}
    return {path: types[path[0]] for path in _paths(row_type, ()) if len(path) == 1 and path[0] in types}


class _ShreddedColumns:
    """The VARIANT columns of one file, which are shredded."""

    def __init__(self, row_type: RowType, kinds: Mapping[Path, DataType]) -> None:
        self._kinds = kinds
        self._fields = row_type.fields
        self.schema = arrow_schema(RowType(tuple(_stored_field(field, (), kinds) for field in row_type)))

    def stored(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        arrays = [
            self._array(column, field, (), target.type)
            for column, field, target in zip(batch.columns, self._fields, self.schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def notes(self) -> Mapping[str, Mapping[str, str]]:
        return {}

    def _array(self, column: pa.Array, field: DataField, above: Path, target: pa.DataType) -> pa.Array:
        path = (*above, field.name)
        if path in self._kinds:
            return shred_values(column, self._kinds[path], target)
        if not isinstance(field.type, RowType) or not any(
            is_below[: len(path)] == path for is_below in self._kinds
        ):
            return view_as(column, target)
        children = [
            self._array(_part(column, inner.name), inner, path, target.field(i).type)
            for i, inner in enumerate(field.type)
        ]
        mask = column.is_null() if column.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)


def _stored_field(field: DataField, above: Path, kinds: Mapping[Path, DataType]) -> DataField:
    path = (*above, field.name)
    if path in kinds:
        return replace(field, type=shredded_type(kinds[path], nullable=field.type.nullable))
    if isinstance(field.type, RowType):
        inner = tuple(_stored_field(part, path, kinds) for part in field.type)
        return replace(field, type=RowType(inner, field.type.nullable))
    return field
