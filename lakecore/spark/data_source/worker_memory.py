"""This module leaves what a Python worker of Spark has imported out of its garbage collections.

PySpark's daemon makes a full collection after each task, before the worker takes the next one. With lakecore
it takes 50 ms, for some 100,000 objects of imported modules. Without them it takes 0.1 ms.
"""

from __future__ import annotations

import gc
from functools import cache

__all__ = ["skip_in_collections"]


def skip_in_collections() -> None:
    """Keep the objects that exist now out of collections, once in a worker, and not outside of a task.

    Call it when a task has ended without an error: then its modules are imported. The objects are freed as
    before when nothing refers to them. Only cycles that are garbage now remain until the worker ends.
    """
    from pyspark import TaskContext

    if TaskContext.get() is not None:
        _freeze()


@cache
def _freeze() -> None:
    gc.freeze()
