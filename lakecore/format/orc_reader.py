"""ORC data files, read by stripes and row batches."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
from pyarrow import orc

from lakecore.errors import UnsupportedError
from lakecore.format.damage import decoding
from lakecore.format.shredded_maps import ShreddedMaps
from lakecore.fs.file_io import FileIO

__all__ = ["OrcReader"]

_EXPANSION = 8


class OrcReader:
    """One ORC file. Timestamps come out in nanoseconds; outside 1677..2262 they are refused."""

    def __init__(self, file_io: FileIO, path: str) -> None:
        self._path = path
        self._source = file_io.open_input(path)
        with decoding(path):
            self.file = orc.ORCFile(self._source)
            _check_names(self.file.schema)
            self._maps = ShreddedMaps.of(self.file.schema, self.file.metadata, path)
            self.schema: pa.Schema = self._maps.schema

    @property
    def num_rows(self) -> int:
        return int(self.file.nrows)

    @property
    def row_groups(self) -> int:
        return int(self.file.nstripes)

    def row_bytes(self, columns: Collection[str] | None = None) -> int:
        """By the size of the file, taking it for compressed to an eighth."""
        return int(self._source.size()) * _EXPANSION // max(self.num_rows, 1) + 1

    def batches(
        self,
        columns: Sequence[str] | None = None,
        batch_size: int = 65536,
        row_groups: Sequence[int] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Rows in file order; see DataFileReader."""
        wanted = list(self.schema.names if columns is None else columns)
        with decoding(self._path), _refusing_wraps(self._path):
            stream = (
                self._all(wanted, batch_size) if row_groups is None else self._stripes(wanted, row_groups)
            )
            for batch in stream:
                yield self._maps.restored(batch if batch.schema.names == wanted else batch.select(wanted))

    def close(self) -> None:
        self._source.close()

    def _all(self, columns: list[str], batch_size: int) -> Iterator[pa.RecordBatch]:
        """Streams within a stripe, which ORCFile itself cannot."""
        import pyarrow.dataset as ds  # brings pandas in, which takes a second: only where ORC is read

        fragment = ds.OrcFileFormat().make_fragment(self._source)
        scanner = fragment.scanner(
            schema=self.file.schema,
            columns=columns,
            batch_size=batch_size,
            batch_readahead=0,
            fragment_readahead=0,
            use_threads=False,
        )
        return iter(scanner.to_batches())

    def _stripes(self, columns: list[str], stripes: Sequence[int]) -> Iterator[pa.RecordBatch]:
        for stripe in stripes:
            yield self.file.read_stripe(stripe, columns=columns)


@contextmanager
def _refusing_wraps(path: str) -> Iterator[None]:
    try:
        yield
    except pa.ArrowInvalid as err:
        if "out of range for nanosecond resolution" not in str(err):
            raise
        raise UnsupportedError(
            f"{path}: {err}; timestamps in ORC files can be read between 1677-09-21 and 2262-04-11"
        ) from err


def _check_names(fields: Iterable[pa.Field]) -> None:
    """pyarrow decodes names when they are asked for. Raises UnicodeDecodeError."""
    for field in fields:
        assert field.name is not None
        _check_names(field.type.field(i) for i in range(field.type.num_fields))
