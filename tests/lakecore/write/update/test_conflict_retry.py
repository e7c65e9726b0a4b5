"""Changes of rows that are tried again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakecore.errors import NotFoundError
from tests.support.lake import key_table, memory_catalog, paths_of, put
from tests.support.meddling_fs import Meddling


def test_an_update_beneath_which_the_table_is_dropped_says_so() -> None:
    """The next try would find a table without rows, and report that it updated none of them."""
    catalog = memory_catalog("update-dropped")
    put(key_table(catalog), [{"k": 1, "v": "x"}])

    def drop() -> None:
        for path in paths_of(catalog.load_table("d.k"), ""):
            catalog.file_io.delete(path)

    storage = Meddling(catalog.file_io, "write_new", "manifest-list", drop)
    table = replace(catalog, file_io=storage).load_table("d.k")
    with pytest.raises(NotFoundError, match="the table was renamed or dropped"):
        table.update({"v": "y"}, "k = 1")
