"""This module keeps pandas out of processes without use for it: pyarrow imports it with its first array (0.8
s CPU).
"""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["pandas_hidden", "skip_pandas"]


def skip_pandas() -> None:
    """Let pyarrow look for pandas now, and find none. It is for processes of our own: commands and
    Spark's workers.

    `to_pandas` and `Table.from_pandas` look again and work as ever; only a bare `pyarrow.array(series)`
    before them takes the series for any sequence. It does nothing once pandas is imported.
    """
    with pandas_hidden():
        import pyarrow as pa

        pa.array([None])


@contextmanager
def pandas_hidden() -> Iterator[None]:
    """Block the import of pandas, unless it is imported already, for all code that runs in this context,
    pyarrow included. Other threads are affected too.
    """
    if "pandas" in sys.modules:
        yield
        return
    hidden = _Hidden()
    sys.meta_path.insert(0, hidden)
    try:
        yield
    finally:
        sys.meta_path.remove(hidden)


class _Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        """Raise ModuleNotFoundError for pandas, and return None, which lets other finders decide, for every
        other module.
        """
        if fullname == "pandas":
            raise ModuleNotFoundError("the import of pandas is blocked here", name=fullname)
