"""The parent of Spark's Python workers: imports what units need, then forks as pyspark's own daemon does.

A new worker is ready at once, and shares its memory for code. What is imported is left out of garbage
collections: pyspark's daemon makes a full one after every task (40 ms with these modules). Spark runs
`python -m lakecore.spark.daemon`.
"""

from __future__ import annotations

import gc
import importlib

from pyspark.daemon import manager

from lakecore.types.pandas_probe import skip_pandas

__all__ = ["preload"]

_NEEDED = (
    "pyspark.worker",
    "pyarrow.parquet",
    "lakecore.spark.executor",
    "lakecore.compact.kinds.append.run",
    "lakecore.compact.kinds.primary_key.run",
)


def preload() -> None:
    """Import what units need. It starts no thread: forked children would miss it."""
    skip_pandas()
    for module in _NEEDED:
        importlib.import_module(module)
    gc.freeze()


if __name__ == "__main__":
    preload()
    manager()
