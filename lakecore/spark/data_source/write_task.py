"""This module writes the rows of one task, of a save or a micro-batch. It needs no data source of Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lakecore.spark.data_source.worker_memory import skip_in_collections
from lakecore.write.batch_write import BatchWrite
from lakecore.write.stream_write import StreamWrite

__all__ = ["write_task"]


def write_task(write: BatchWrite | StreamWrite, batches: Iterator[pa.RecordBatch], *number: int) -> bytes:
    """Write the batches of a task and return what to commit. When it fails, its files are removed. `number`
    is that of the commit of a stream; the commit of a batch has none.
    """
    try:
        for batch in batches:
            if batch.num_rows:
                write.write(batch)
        prepared = write.prepare_commit(*number)
        skip_in_collections()
        return prepared
    except BaseException:
        write.abort()
        raise
