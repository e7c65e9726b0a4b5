"""Record-level expiry: rows older than `record-level.expire-time` are left out when they are compacted.

Rule of the format: the time is column `record-level.time-field`; INT and BIGINT count seconds, a BIGINT from
10^12 on milliseconds, timestamps are taken in UTC. A row without a time stays. Reads show rows until then.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.errors import InvalidOptionError
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.options import RECORD_TIME_FIELD, TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.row.binary_row import decode_row
from lakecore.types.datatypes import AtomicType, DataField, RowType, TypeRoot

__all__ = ["Expiry"]

_FIRST_MILLIS = 10**12
_NANOS = 10**9
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_TIMESTAMPS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)


@dataclass(frozen=True, slots=True)
class Expiry:
    """This is the rule of record-level expiry. `seconds` is how long a row lives after the time in its
    column `field`.
    """

    field: DataField
    seconds: int

    @classmethod
    def of(cls, schema: TableSchema, options: TableOptions) -> Expiry | None:
        """Return the rule, or None if rows never expire. Raises InvalidOptionError for a time field that is
        not one.
        """
        if options.record_expire_ms is None:
            return None
        name = RECORD_TIME_FIELD.read(schema.options)
        field = next((field for field in schema.fields if field.name == name), None)
        kinds = (TypeRoot.INT, TypeRoot.BIGINT, *_TIMESTAMPS)
        if field is None or not isinstance(field.type, AtomicType) or field.type.root not in kinds:
            raise InvalidOptionError(
                f"option {RECORD_TIME_FIELD.key}={name!r}: it must name a column of type INT, BIGINT or "
                "TIMESTAMP"
            )
        return cls(field, options.record_expire_ms // 1000)

    def expired(self, batch: pa.RecordBatch, now_ms: int) -> Any:
        """Return which rows of a batch with the column are too old."""
        times = batch.column(self.field.name)
        valid = times.is_valid().to_numpy(zero_copy_only=False)
        if pa.types.is_timestamp(times.type):
            seconds = times.view(pa.int64()).fill_null(0).to_numpy() // _UNITS[times.type.unit]
        else:
            plain = times.fill_null(0).to_numpy().astype(np.int64)
            seconds = np.where(plain >= _FIRST_MILLIS, plain // 1000, plain)
        return valid & (seconds + self.seconds < now_ms // 1000)

    def holds_expired(self, file: DataFile, schema: TableSchema, now_ms: int) -> bool:
        """Return whether `file`, written with `schema`, has a row that is too old, by its statistics."""
        names = schema.row_type.names if file.value_stats_cols is None else file.value_stats_cols
        row = RowType(tuple(schema.row_type.field(name) for name in names))
        place = next((i for i, field in enumerate(row.fields) if field.id == self.field.id), None)
        low = file.value_stats.min_values
        if place is None or struct.unpack(">i", low[:4])[0] < len(row.fields):
            return False
        oldest = decode_row(low, row, file.file_name)[place]
        if oldest is None:
            return False
        data_type = row.fields[place].type
        if isinstance(data_type, AtomicType) and data_type.root in _TIMESTAMPS:
            oldest //= _NANOS
        elif oldest >= _FIRST_MILLIS:
            oldest //= 1000
        return bool(oldest + self.seconds < now_ms // 1000)
