"""The proof of rescaled rows: each row that is read back is in the bucket of its bucket key."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.errors import ProofError
from lakecore.row.bucket import assign_buckets
from lakecore.types.datatypes import RowType
from lakecore.verify.digest.columns import StoredFile, read_covered
from lakecore.verify.digest.context import ProofContext

__all__ = ["BucketRule", "check_bucket"]


@dataclass(frozen=True, slots=True)
class BucketRule:
    """It says how the bucket of a row is computed. `function` is `bucket-function.type`. It can be
    pickled.
    """

    key: RowType
    function: str
    total: int


def check_bucket(context: ProofContext, unit: str, stored: StoredFile, rule: BucketRule, bucket: int) -> None:
    """Raise ProofError naming `unit` and a file with rows of other buckets. It reads the bucket key once."""
    shape = replace(context.shape, key=(), sequence=(), values=rule.key.fields)
    schema = context.schemas[stored.file.schema_id]
    for columns in read_covered(context.file_io, stored.path, shape, schema):
        batch = pa.RecordBatch.from_arrays(list(columns), names=list(rule.key.names))
        if (assign_buckets(batch, rule.key, rule.total, rule.function) != bucket).any():
            raise ProofError(unit, f"output {stored.path} has rows of other buckets than {bucket}")
