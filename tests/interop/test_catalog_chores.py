"""Compaction, expiry and the removal of orphans through each kind of catalog, with storage that fails at operation 1, 2, 3, …

LAKECORE_CHORES_STRIDE=1: at every operation, and in two ways. LAKECORE_CHORES_FIRST=100: from operation 100 on. LAKECORE_CHORES_AT=s3,azure,gcs,oss,hdfs: on these stores, by servers of
their own, too; tables of a REST catalog are external there, because its server has no clients of these stores.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.catalog import Catalog
from lakecore.catalog.hive.hive_catalog import HiveCatalog
from lakecore.catalog.registry import load_catalog
from lakecore.catalog.rest.rest_catalog import RestCatalog
from lakecore.catalog.rest.rest_storage import RestStorage
from lakecore.catalog.warehouse.warehouse_catalog import WarehouseCatalog
from lakecore.fs.confined import confine
from lakecore.fs.file_io import FileIO
from tests.support.azurite import azurite
from tests.support.failing_chores import check_chores
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.gcs_server import gcs_server
from tests.support.hive_metastore import HiveServer, emptied, opened
from tests.support.oss_server import oss_server
from tests.support.rest_server import TOKEN, rest_server
from tests.support.s3_server import s3_server

pytestmark = pytest.mark.slow

STRIDE = int(os.environ.get("LAKECORE_CHORES_STRIDE", "41"))
FIRST = int(os.environ.get("LAKECORE_CHORES_FIRST", "1"))
STORES = [one for one in os.environ.get("LAKECORE_CHORES_AT", "").split(",") if one]
SERVERS: dict[str, Any] = {"s3": s3_server, "azure": azurite, "gcs": gcs_server, "oss": oss_server}
MODES = [FaultMode.ERROR_AFTER_EFFECT, FaultMode.DEAD] if STRIDE == 1 else [FaultMode.ERROR_AFTER_EFFECT]


@pytest.fixture(params=["disk", *STORES])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """A warehouse that does not exist yet, and the options of its store."""
    with ExitStack() as running:
        if request.param == "disk":
            yield f"{tmp_path}/wh", {}
        elif request.param == "hdfs":
            yield f"{request.getfixturevalue('hdfs').root}/{uuid.uuid4().hex}", {}
        else:
            server = running.enter_context(SERVERS[request.param]())
            yield f"{server.root}/{uuid.uuid4().hex}", server.options


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["filesystem", "jdbc"])
def test_a_catalog_of_one_warehouse(
    place: tuple[str, dict[str, str]], tmp_path: Path, kind: str, mode: FaultMode
) -> None:
    warehouse, options = place
    names = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/names.db", "lock.enabled": "true"}
    every: dict[str, Any] = {**options, **(names if kind == "jdbc" else {})}
    lake = load_catalog(warehouse, create_warehouse=True, **every)
    assert isinstance(lake, WarehouseCatalog)
    lake.create_database("d")
    count = check_chores(
        lake, lambda failing: replace(lake, file_io=failing), stride=STRIDE, first=FIRST, mode=mode
    )
    print(f"{kind} at {warehouse}: {count} operations, {mode}, each {STRIDE} from {FIRST} on")
    assert count > STRIDE


def over(lake: HiveCatalog, failing: FaultyFileIO) -> Catalog:
    return replace(lake, file_io=failing)


@pytest.mark.parametrize("mode", MODES)
def test_a_hive_catalog(place: tuple[str, dict[str, str]], hive: HiveServer, mode: FaultMode) -> None:
    warehouse, options = place
    lake = opened(hive)
    emptied(lake)
    if options or "://" in warehouse:  # the metastore has no clients of the stores
        more: dict[str, Any] = {"location-in-properties": "true", "lock.enabled": "true", **options}
        lake = load_catalog(warehouse, create_warehouse=True, **hive.options, **more)
    assert isinstance(lake, HiveCatalog)
    lake.create_database("d")
    count = check_chores(lake, partial(over, lake), stride=STRIDE, first=FIRST, mode=mode)
    print(f"hive at {warehouse}: {count} operations, {mode}, each {STRIDE} from {FIRST} on")
    assert count > STRIDE
    lake.close()


class Failing(RestStorage):
    """The storage of tables and of lakecore's own files, which is the same that fails."""

    def of_table(
        self, what: str, path: str, token_path: tuple[str, ...], schema: Mapping[str, str]
    ) -> FileIO:
        return confine(self.service, self.allowed(path, schema))


@pytest.mark.parametrize("mode", MODES)
def test_a_rest_catalog(place: tuple[str, dict[str, str]], tmp_path: Path, mode: FaultMode) -> None:
    warehouse, of_store = place
    options: dict[str, Any] = {
        "metastore": "rest",
        "uri": rest_server("2.0.0", str(tmp_path)),
        "token.provider": "bear",
        "token": TOKEN,
        "lakecore.service-location": f"{warehouse}/own",
        **of_store,
    }
    lake = load_catalog(tmp_path.name, **options)
    lake.create_database("d")

    def failing_lake(failing: FaultyFileIO) -> Catalog:
        far = load_catalog(tmp_path.name, **options)
        assert isinstance(far, RestCatalog)
        storage = Failing(far.client, far.options)
        storage.__dict__["service"] = failing
        far.__dict__["_storage"] = storage
        return far

    root = f"{warehouse}/external" if "://" in warehouse else None
    count = check_chores(lake, failing_lake, stride=STRIDE, first=FIRST, mode=mode, root=root)
    print(f"rest at {warehouse}: {count} operations, {mode}, each {STRIDE} from {FIRST} on")
    assert count > STRIDE
    lake.close()
