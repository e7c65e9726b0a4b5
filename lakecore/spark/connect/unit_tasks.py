"""This module has pickled units as rows of a DataFrame, and the function that runs them on executors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lakecore.processes.unit_bytes import run_unit

if TYPE_CHECKING:
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.session import SparkSession

__all__ = ["results_of", "run_units"]

_RESULTS = "number int, result binary"


def results_of(session: SparkSession, payloads: Sequence[bytes]) -> DataFrame:
    """Return the results of units: a row for each, with its number and its pickled result. Each unit is a
    task of its own, in the order of the units, so that their results come in this order.
    """
    numbers = pa.array(range(len(payloads)), pa.int32())
    units = session.createDataFrame(pa.table({"number": numbers, "payload": pa.array(payloads, pa.binary())}))
    if len(payloads) > 1:  # one row is one task anyway
        units = units.repartitionById(len(payloads), "number")
    return units.mapInArrow(run_units, _RESULTS)


def run_units(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run the units of a task, a row each, and yield their results one by one."""
    for batch in batches:
        for number, payload in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            columns = [pa.array([number], pa.int32()), pa.array([run_unit(payload)], pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, names=["number", "result"])
