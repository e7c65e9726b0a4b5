"""lakecore: reads, writes, compacts and checks Apache Paimon tables.

    import lakecore

    catalog = lakecore.load_catalog("/path/to/warehouse")
    table = catalog.load_table("db.t")
    rows = table.scan(where="dt = '2024-01-01'").to_arrow()

Names are loaded when they are first used, so that importing one submodule does not import them all.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

# Memory that a window gave back serves the next one instead of going to the system and coming back page by
# page: an eighth of the faults, a tenth less CPU for a merge; 25 MB more, or 100 where 50 runs of wide rows
# are merged. Kept for a second only, the next merge or read of the process pays again (a tenth slower).
# pyarrow reads it when it is imported; who set it before decides.
os.environ.setdefault("MIMALLOC_PURGE_DELAY", "-1")

if TYPE_CHECKING:
    from lakecore.catalog.catalog import Catalog, Database
    from lakecore.catalog.configured.catalogs import Catalogs
    from lakecore.catalog.definition import TableDefinition
    from lakecore.catalog.duckdb_views import duckdb
    from lakecore.catalog.filesystem import FilesystemCatalog
    from lakecore.catalog.registry import load_catalog
    from lakecore.commit.request import CommitResult
    from lakecore.errors import (
        AlreadyExistsError,
        BusyError,
        CommitConflictError,
        CommitUncertainError,
        CorruptDataError,
        ExpiredError,
        InvalidInputError,
        InvalidOptionError,
        LakeError,
        NotFoundError,
        OnHoldError,
        PrivilegeError,
        ProofError,
        UnavailableError,
        UnsupportedError,
    )
    from lakecore.lookup.query.found_rows import FoundRows
    from lakecore.lookup.query.local_query import LocalTableQuery
    from lakecore.lookup.query.lookup_cache import LookupCache
    from lakecore.lookup.tables.lookup_table import LookupTable
    from lakecore.maintain.analyze.statistics import Statistics
    from lakecore.metadata.snapshot import Snapshot
    from lakecore.read.source.scan import Scan
    from lakecore.read.source.stream import Changes, Stream
    from lakecore.scan.startup import Incremental
    from lakecore.table import Commit, Table

__all__ = [
    "AlreadyExistsError",
    "BusyError",
    "Catalog",
    "Catalogs",
    "Changes",
    "Commit",
    "CommitConflictError",
    "CommitResult",
    "CommitUncertainError",
    "CorruptDataError",
    "Database",
    "ExpiredError",
    "FilesystemCatalog",
    "FoundRows",
    "Incremental",
    "InvalidInputError",
    "InvalidOptionError",
    "LakeError",
    "LocalTableQuery",
    "LookupCache",
    "LookupTable",
    "NotFoundError",
    "OnHoldError",
    "PrivilegeError",
    "ProofError",
    "Scan",
    "Snapshot",
    "Statistics",
    "Stream",
    "Table",
    "TableDefinition",
    "UnavailableError",
    "UnsupportedError",
    "duckdb",
    "load_catalog",
]

_HOMES = {
    "Catalog": "lakecore.catalog.catalog",
    "Catalogs": "lakecore.catalog.configured.catalogs",
    "Changes": "lakecore.read.source.stream",
    "Commit": "lakecore.table",
    "CommitResult": "lakecore.commit.request",
    "Database": "lakecore.catalog.catalog",
    "FilesystemCatalog": "lakecore.catalog.filesystem",
    "FoundRows": "lakecore.lookup.query.found_rows",
    "Incremental": "lakecore.scan.startup",
    "LocalTableQuery": "lakecore.lookup.query.local_query",
    "LookupCache": "lakecore.lookup.query.lookup_cache",
    "LookupTable": "lakecore.lookup.tables.lookup_table",
    "Scan": "lakecore.read.source.scan",
    "Snapshot": "lakecore.metadata.snapshot",
    "Statistics": "lakecore.maintain.analyze.statistics",
    "Stream": "lakecore.read.source.stream",
    "Table": "lakecore.table",
    "TableDefinition": "lakecore.catalog.definition",
    "duckdb": "lakecore.catalog.duckdb_views",
    "load_catalog": "lakecore.catalog.registry",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'lakecore' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES.get(name, "lakecore.errors")), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
