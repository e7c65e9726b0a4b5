"""More runs than fit into memory at once: neighbours are merged first, onto local disk.

Where merging some runs first would change the result (any engine but deduplicate), runs are only copied
there, to be read on in small batches.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from lakecore.errors import LakeError, UnavailableError
from lakecore.fs.file_io import FileIO
from lakecore.fs.local import LocalFileIO

__all__ = ["Scratch", "reduce_runs", "run_limit", "stage_runs"]

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")
_PAGE_BYTES = 1 << 20
_PAGE_ROWS = 20_000
_PAGES_BUDGET = 200 << 20
_FEWEST_RUNS = 8
_COPIES = 2

Batches = Iterator[pa.RecordBatch]


def run_limit(columns: int, width: int) -> int:
    """Return how many runs may be open at once. `width` is the number of bytes of a decoded row.

    Every open run holds a page of each column, compressed and decoded; writers end a page at a megabyte or at
    20,000 rows.
    """
    memory_of_run = min(columns * _PAGE_BYTES, _PAGE_ROWS * max(width, 1)) * _COPIES
    return max(_FEWEST_RUNS, _PAGES_BUDGET // memory_of_run)


class Scratch:
    """A directory of intermediate runs on local disk (Arrow IPC); `close` removes it with what is in it."""

    def __init__(self, file_io: FileIO | None = None) -> None:
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._file_io = file_io or LocalFileIO(sync=False)
        self._paths: list[str] = []
        self._count = 0

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the files. What cannot be removed is left to the system's care of temporary files. A second
        call does nothing.
        """
        for path in self._paths:
            with suppress(LakeError):
                self._file_io.delete(path)
        self._paths.clear()
        if self._directory is not None:
            self._directory.cleanup()
            self._directory = None

    def store(self, batches: Iterable[pa.RecordBatch], rows: int) -> str:
        """Write a run in batches of at most `rows`; its path. Raises UnavailableError (disk full)."""
        path = self._new_path()
        output = self._file_io.open_output(path)
        try:
            _write_run(output, batches, rows)
            output.close()
        except BaseException:
            output.abort()
            raise
        return path

    def store_pieces(
        self, pieces: Iterable[pa.RecordBatch | None], rows: int
    ) -> tuple[str, tuple[int | None, ...]]:
        """Store several runs in one file; return its path, and the offset of each run (None: it has no rows).

        It writes batches of at most `rows`. Raises UnavailableError (disk full).
        """
        path, offsets = self._new_path(), list[int | None]()
        output = self._file_io.open_output(path)
        try:
            for piece in pieces:
                offsets.append(None if piece is None else output.tell())
                if piece is not None:
                    _write_run(output, [piece], rows)
            output.close()
        except BaseException:
            output.abort()
            raise
        return path, tuple(offsets)

    def read_piece(self, path: str, offset: int) -> Batches:
        """Yield the batches of one run that `store_pieces` stored. The file stays until `close`."""
        with self._file_io.open_input(path) as source:
            source.seek(offset)
            with pa.ipc.open_stream(source) as reader:
                yield from reader

    def read(self, path: str) -> Batches:
        """Yield the batches of a stored run; its file is deleted after the last one."""
        with self._file_io.open_input(path) as source:
            if source.size():
                with pa.ipc.open_stream(source) as reader:
                    yield from reader
        self._file_io.delete(path)

    def _new_path(self) -> str:
        path = f"{self._root()}/run-{self._count}.arrow"
        self._count += 1
        self._paths.append(path)
        return path

    def _root(self) -> str:
        if self._directory is None:
            try:
                self._directory = tempfile.TemporaryDirectory(
                    prefix="lakecore-merge-", ignore_cleanup_errors=True
                )
            except OSError as err:
                raise UnavailableError(
                    f"no directory for intermediate runs can be created in {tempfile.gettempdir()}: {err}; "
                    "free space there or set TMPDIR"
                ) from err
        return self._directory.name


def _write_run(output: Any, batches: Iterable[pa.RecordBatch], rows: int) -> None:
    """Write a stream of Arrow IPC, or nothing if there are no batches."""
    writer: Any = None
    for batch in batches:
        writer = writer or pa.ipc.new_stream(output, batch.schema, options=_OPTIONS)
        for start in range(0, batch.num_rows, rows):
            writer.write_batch(batch.slice(start, rows))
    if writer is not None:
        writer.close()


def reduce_runs(
    runs: Sequence[Batches],
    limit: int,
    rows: int,
    merge: Callable[[Sequence[Batches]], Batches],
    scratch: Scratch,
) -> list[Batches]:
    """Return at most `limit` runs, oldest first, with the same rows but those that `merge` leaves out.

    Groups of neighbours are merged, so that age still decides between rows equal in all else.
    """
    runs_left = list(runs)
    while len(runs_left) > limit:
        groups = [runs_left[i : i + limit] for i in range(0, len(runs_left), limit)]
        runs_left = [
            group[0] if len(group) == 1 else scratch.read(scratch.store(merge(group), rows))
            for group in groups
        ]
    return runs_left


def stage_runs(runs: Sequence[Batches], limit: int, rows: int, scratch: Scratch) -> list[Batches]:
    """Return the same runs. If they are more than `limit`, they are read from local disk, in batches that are
    smaller in proportion.

    `rows` is the size of a batch when `limit` runs are open. It costs a copy of all rows, one run at a time.
    """
    if len(runs) <= limit:
        return list(runs)
    share = max(rows * limit // len(runs), 1)
    return [scratch.read(scratch.store(run, share)) for run in runs]
