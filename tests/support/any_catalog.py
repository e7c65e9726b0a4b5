"""A new catalog of any kind, which several clients open at once, as tests over all kinds need it."""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakecore.catalog.catalog import Catalog
from lakecore.catalog.registry import load_catalog
from tests.support.hive_metastore import HiveServer
from tests.support.rest_server import TOKEN, rest_server
from tests.support.s3_server import s3_server
from tests.support.sql_servers import SqlServers, options_of

__all__ = ["KINDS", "AnyCatalog", "any_catalog"]

KINDS = ("filesystem", "sqlite", "postgresql", "mariadb", "hive", "rest", "filesystem on S3", "sqlite on S3")


@dataclass(frozen=True)
class AnyCatalog:
    """How to open it. Databases of a Hive metastore are shared by all tests, so each takes a name of its own."""

    kind: str
    warehouse: str
    options: dict[str, Any]
    database: str
    opened: ExitStack

    def open(self) -> Catalog:
        """Another client, as another process has it."""
        catalog = load_catalog(self.warehouse, create_warehouse=True, **self.options)
        self.opened.callback(catalog.close)
        return catalog

    @property
    def is_remote(self) -> bool:
        """Return whether a server drops files for good."""
        return self.kind == "rest"

    @property
    def java(self) -> str:
        """The warehouse as the oracle's commands take it."""
        return "|".join([self.warehouse, *(f"{key}={value}" for key, value in self.options.items())])


def any_catalog(
    kind: str, tmp_path: Path, servers: SqlServers, hive: HiveServer | None, opened: ExitStack
) -> AnyCatalog:
    """A catalog of this kind without a lock, where users can choose; `opened` ends what was begun."""
    plain, _, store = kind.partition(" on ")
    warehouse, options = f"{tmp_path}/wh", dict[str, Any]()
    if plain == "hive":
        assert hive is not None
        warehouse, options = str(hive.warehouse), dict(hive.options)
    elif plain == "rest":
        (tmp_path / "wh").mkdir()
        warehouse = "wh"
        options = {
            "metastore": "rest",
            "uri": rest_server("2.0.0", f"{tmp_path}/wh"),
            "token.provider": "bear",
            "token": TOKEN,
            "lakecore.service-location": f"{tmp_path}/own",
        }
    else:
        locked = options_of(plain, tmp_path, servers)
        options = {key: value for key, value in locked.items() if not key.startswith("lock")}
    if store:
        server = opened.enter_context(s3_server())
        warehouse, options = f"{server.root}/wh", {**options, **server.options}
    return AnyCatalog(kind, warehouse, options, f"d{uuid.uuid4().hex[:8]}", opened)
