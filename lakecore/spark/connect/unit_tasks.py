"""This module has pickled units as rows of a DataFrame, and the function that runs them on executors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from lakecore.errors import InvalidInputError
from lakecore.executor import with_cores
from lakecore.metadata.manifest.bucket_counts import in_groups
from lakecore.processes.unit_bytes import run_unit
from lakecore.spark.unit_datagrams import DatagramAddress

if TYPE_CHECKING:
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.session import SparkSession

__all__ = ["OPERATION_BYTES", "UNIT_BYTES", "check_sizes", "operations_of", "results_of", "run_units"]

OPERATION_BYTES = 16 << 20
"""Units of so many bytes together are sent as one operation: a server with Spark's settings takes them."""
UNIT_BYTES = 48 << 20
"""A larger unit is refused before anything is sent."""

_RESULTS = "number int, result binary"


def check_sizes(payloads: Sequence[bytes]) -> None:
    """Raise InvalidInputError for a unit that is larger than what was tried with a server."""
    largest = max(map(len, payloads), default=0)
    if largest > UNIT_BYTES:
        raise InvalidInputError(
            f"a unit of this job has {largest >> 20} MB when it is pickled, and an operation of Spark"
            f" Connect takes {UNIT_BYTES >> 20} MB: name a Spark master (spark://…), or use the local engine"
        )


def operations_of(payloads: Sequence[bytes]) -> Iterator[tuple[int, Sequence[bytes]]]:
    """Divide units into operations, in their order; yield the number of the first unit of each, and its
    units.
    """
    first = 0
    for part in in_groups(((payload, len(payload)) for payload in payloads), OPERATION_BYTES):
        yield first, part
        first += len(part)


def results_of(
    session: SparkSession, payloads: Sequence[bytes], address: DatagramAddress | None = None
) -> DataFrame:
    """Return the results of units: a row for each, with its number and its pickled result. Each unit is a
    task of its own, in the order of the units, so that their results come in this order. Units tell
    `address` how far they are.
    """
    numbers = pa.array(range(len(payloads)), pa.int32())
    units = session.createDataFrame(pa.table({"number": numbers, "payload": pa.array(payloads, pa.binary())}))
    if len(payloads) > 1:  # one row is one task anyway
        units = units.repartitionById(len(payloads), "number")
    return units.mapInArrow(partial(run_units, address), _RESULTS)


def run_units(address: DatagramAddress | None, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run the units of a task, a row each, and yield their results one by one."""
    send = None if address is None else address.send
    for batch in batches:
        for number, payload in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            with with_cores(1):  # a client cannot ask how many cores a task has
                result = run_unit(payload, send)
            columns = [pa.array([number], pa.int32()), pa.array([result], pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, names=["number", "result"])
