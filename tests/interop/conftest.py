"""A Hive metastore that the modules of one process share. LAKECORE_HIVE_VERSION: which Java Paimon is in it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.hive_metastore import HiveServer, hive_server


@pytest.fixture(scope="session")
def hive() -> Iterator[HiveServer]:
    with hive_server(os.environ.get("LAKECORE_HIVE_VERSION", "1.4.2")) as server:
        server.oracle.call("catalog", server.java(), "show")  # the metastore runs from here on
        yield server
