"""This module reads ORC data files, by stripes and row batches."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import orc

from lakecore.format.corruption import corrupt_data_errors
from lakecore.format.orc.times import OrcTimes, count_unreadable, has_times
from lakecore.format.shared_map.assemble import ShreddedMaps
from lakecore.fs.file_io import FileIO

__all__ = ["OrcReader", "unreadable_times"]

_EXPANSION = 8
_ROWS = 65536


class OrcReader:
    """It reads one ORC file. Timestamps are nanoseconds; those of a batch with times outside 1677..2262
    are microseconds (see `orc_times`).
    """

    def __init__(self, file_io: FileIO, path: str) -> None:
        self._path = path
        self._source = file_io.open_input(path)
        with corrupt_data_errors(path):
            self.file = orc.ORCFile(self._source)
            _check_names(self.file.schema)
            self._maps = ShreddedMaps.of(self.file.schema, self.file.metadata, path)
            self.schema: pa.Schema = self._maps.schema
            timed = any(has_times(field.type) for field in self.file.schema)
            self._times = OrcTimes.of(self._source) if timed else None

    @property
    def num_rows(self) -> int:
        return int(self.file.nrows)

    @property
    def row_groups(self) -> int:
        return int(self.file.nstripes)

    def row_bytes(self, columns: Collection[str] | None = None) -> int:
        """Return the bytes of a row by the size of the file, which is assumed to be compressed to an
        eighth.
        """
        return int(self._source.size()) * _EXPANSION // max(self.num_rows, 1) + 1

    def batches(
        self,
        columns: Sequence[str] | None = None,
        batch_size: int = _ROWS,
        row_groups: Sequence[int] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows in file order; see DataFileReader."""
        names = list(self.schema.names if columns is None else columns)
        with corrupt_data_errors(self._path):
            for batch in self._stored_batches(names, batch_size, row_groups):
                yield self._maps.restored(batch if batch.schema.names == names else batch.select(names))

    def close(self) -> None:
        self._source.close()

    def unreadable_times(self) -> dict[str, int]:
        """See there."""
        times = self._times
        counts: dict[str, int] = {}
        if times is None:
            return counts
        names = sorted(times.columns(self.file.schema))
        for batch in self._read(times.open(nanos=True), names, _ROWS, None):
            for name in names:
                counts[name] = counts.get(name, 0) + count_unreadable(batch.column(name))
        return {name: count for name, count in counts.items() if count}

    def _stored_batches(
        self, columns: list[str], batch_size: int, stripes: Sequence[int] | None
    ) -> Iterator[pa.RecordBatch]:
        times = self._times
        apart = [] if times is None else [name for name in columns if name in times.columns(self.file.schema)]
        if times is None or (times.zoned and not apart):
            yield from self._read(self._source, columns, batch_size, stripes)
            return
        seconds = self._read(times.open(nanos=False), columns, batch_size, stripes)
        if not apart:
            yield from seconds
            return
        nanos = self._read(times.open(nanos=True), apart, batch_size, stripes)
        row = 0
        for i, (batch, parts) in enumerate(zip(seconds, nanos, strict=True)):
            yield times.join(batch, parts, row if stripes is None else times.starts[stripes[i]])
            row += batch.num_rows

    def _read(
        self, source: Any, columns: list[str], batch_size: int, stripes: Sequence[int] | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches. Streams are read within a stripe if all stripes are read, which ORCFile itself
        cannot do.
        """
        file = self.file if source is self._source else orc.ORCFile(source)
        if stripes is not None:
            return (file.read_stripe(stripe, columns=columns) for stripe in stripes)
        import pyarrow.dataset as ds  # brings pandas in, which takes a second: only where ORC is read

        fragment = ds.OrcFileFormat().make_fragment(source)
        scanner = fragment.scanner(
            schema=file.schema,
            columns=columns,
            batch_size=batch_size,
            batch_readahead=0,
            fragment_readahead=0,
            use_threads=False,
        )
        return iter(scanner.to_batches())


def unreadable_times(file_io: FileIO, path: str) -> dict[str, int]:
    """Return the columns of an ORC file with times that Java cannot read, and how many, as earlier lakecore
    wrote them.

    Files of other formats have none. It reads the end of the file; columns only where they hold times before
    1970.
    """
    if not path.endswith(".orc"):
        return {}
    reader = OrcReader(file_io, path)
    try:
        with corrupt_data_errors(path):
            return reader.unreadable_times()
    finally:
        reader.close()


def _check_names(fields: Iterable[pa.Field]) -> None:
    """Decode all names, which pyarrow decodes only when they are read. Raises UnicodeDecodeError."""
    for field in fields:
        assert field.name is not None
        _check_names(field.type.field(i) for i in range(field.type.num_fields))
