"""This module reads the lookup file that a compaction has left beside a data file, in place of the data file.

Rules of Paimon's LocalTableQuery and LookupLevels: such a file is read if `lookup.remote-file.enabled` is
true, the table has no deletion vectors, and a query needs all columns; its name ends with
`.value.v1.lookup`. Beyond Paimon: it is not read when the table had other columns at any time since the data
file was written, because nothing says with which schema it was made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, LakeError, NotFoundError
from lakecore.format.corruption import corrupt_data_errors
from lakecore.format.lookup_file.compact_rows import decode_compact_rows, has_known_form
from lakecore.format.lookup_file.reader import LookupEntries, read_entries
from lakecore.lookup.lookup_files import REMOTE_FILES
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.row_kind import KIND_NAME, SEQUENCE_NAME
from lakecore.read.context import ReadContext
from lakecore.types.arrow import arrow_schema
from lakecore.types.datatypes import DataType, with_nullable

__all__ = ["RemoteFile", "RemoteFileError", "find_remote_file"]

_SUFFIX = ".value.v1.lookup"
_TAIL = 9
"""Behind the row are its sequence number, eight bytes, and its kind."""
_MOST_KIND = 3


class RemoteFileError(Exception):
    """A remote lookup file cannot be read. Its first argument says why. The error never leaves the package:
    the data file is read instead.
    """


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """This is a lookup file beside a data file."""

    ctx: ReadContext
    path: str
    file: DataFile
    """It is the data file."""

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield all rows in the order of the data file, with `columns`, the sequence number and the kind.

        It reads the file once. Raises RemoteFileError where it is missing or damaged, or has another number
        of rows than the data file; rows may have been yielded then.
        """
        count = 0
        try:
            with self.ctx.file_io.open_ranges(self.path) as source:
                self._check_size(source.size())
                for entries in read_entries(source, self.path):
                    count += len(entries)
                    yield self._decode(entries, columns)
        except LakeError as err:
            raise RemoteFileError(str(err)) from err
        if count != self.file.row_count:
            raise RemoteFileError(f"{self.path}: it has {count} rows, the data file {self.file.row_count}")

    def _check_size(self, size: int) -> None:
        """Compare the size of the file with that in its name."""
        text = self.path.removesuffix(_SUFFIX).rpartition(".")[2].rpartition("-")[2]
        if text != str(size):
            raise CorruptDataError(self.path, f"it has {size} bytes, by its name {text}")

    def _decode(self, entries: LookupEntries, columns: Sequence[str]) -> pa.RecordBatch:
        row_type = self.ctx.schema.row_type
        with corrupt_data_errors(self.path):
            rows = entries.ends - _TAIL
            arrays = decode_compact_rows(entries.data, entries.starts, rows, row_type)
            tails = entries.data[rows[:, None] + np.arange(_TAIL)]
            if (tails[:, -1] > _MOST_KIND).any():
                raise ValueError("a row has a kind that is not known")
        schema = pa.schema([one.with_nullable(True) for one in arrow_schema(row_type)])
        batch = pa.RecordBatch.from_arrays(arrays, schema=schema).select(list(columns))
        sequences = np.ascontiguousarray(tails[:, :8]).view("<i8").reshape(-1)
        return batch.append_column(SEQUENCE_NAME, pa.array(sequences)).append_column(
            KIND_NAME, pa.array(tails[:, 8].astype(np.int8))
        )


def find_remote_file(ctx: ReadContext, bucket_dir: str, file: DataFile) -> RemoteFile | None:
    """Return the lookup file of a data file; None where there is none that can be read. It costs a listing of
    the schemas.
    """
    names = [name for name in file.extra_files if name.endswith(_SUFFIX)]
    if not names or not REMOTE_FILES.read(ctx.schema.options) or ctx.options.deletion_vectors:
        return None
    if not all(has_known_form(field.type) for field in ctx.schema.row_type.fields):
        return None
    try:
        same = _has_same_columns(ctx, file.schema_id)
    except NotFoundError:  # a schema was removed by hand
        return None
    path = ctx.paths.extra_files(bucket_dir, file)[file.extra_files.index(names[0])]
    return RemoteFile(ctx, path, file) if same else None


def _has_same_columns(ctx: ReadContext, schema_id: int) -> bool:
    """Tell whether the table had the columns of this schema at all times since one was made."""
    expected = _columns(ctx, ctx.schema.id)
    since = [one for one in ctx.schemas.list_ids() if one >= min(schema_id, ctx.schema.id)]
    return all(_columns(ctx, one) == expected for one in since)


def _columns(ctx: ReadContext, schema_id: int) -> list[tuple[int, DataType]]:
    """Return the ids and types of a schema's columns, whether or not they may be null."""
    return [(one.id, with_nullable(one.type, True)) for one in ctx.schemas.load(schema_id).row_type.fields]
