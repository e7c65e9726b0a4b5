"""Options of the format: what they mean, and that none is without effect."""

from __future__ import annotations

import pytest

from lakecore.errors import InvalidOptionError
from lakecore.spark.data_source.request import Nanoseconds, Parallelism, PushFilters, SourceRequest

BASE = {"path": "d.t", "warehouse": "/w"}


def test_all_options() -> None:
    found = SourceRequest.parse(
        {
            "table": "d.t",
            "warehouse": "s3://b/w",
            "s3.endpoint": "http://e",
            "s3.secret-key": "hush",
            "branch": "b",
            "columns": "a, b",
            "where": "a > 1",
            "limit": "0",
            "scan.parallelism": "8",
            "nanoseconds": "TEXT",
            "push-filters": "once",
            "scan.tag-name": "v1",
            "incremental-between-scan-mode": "delta",
            "source.split.target-size": "1 mb",
        }
    )
    assert (found.place.table, found.place.catalog, found.branch) == ("d.t", "s3://b/w", "b")
    assert found.place.catalog_options == {"s3.endpoint": "http://e", "s3.secret-key": "hush"}
    assert found.table_options == {
        "scan.tag-name": "v1",
        "incremental-between-scan-mode": "delta",
        "source.split.target-size": "1 mb",
    }
    assert (found.columns, found.where, found.limit) == (("a", "b"), "a > 1", 0)
    assert found.parallelism == Parallelism(8, 1024)
    assert (found.nanoseconds, found.push_filters) == (Nanoseconds.TEXT, PushFilters.ONCE)
    assert "hush" not in repr(found)


def test_options_of_stores_are_options_of_the_catalog() -> None:
    """Spark hands the keys over in lower case."""
    options = {
        "fs.azure.account.key.shop.dfs.core.windows.net": "hush",
        "fs.oss.accesskeyid": "me",
        "fs.oss.accesskeysecret": "hush",
    }
    found = SourceRequest.parse({"table": "d.t", "warehouse": "oss://b/w", **options})
    assert found.place.catalog_options == options
    assert "hush" not in repr(found)


def test_defaults() -> None:
    found = SourceRequest.parse({"path": "d.t", "catalog": "prod"})
    assert (found.place.catalog, found.parallelism) == ("prod", Parallelism(None, 1024))
    assert (found.nanoseconds, found.push_filters) == (Nanoseconds.REFUSE, PushFilters.NEVER)
    assert SourceRequest.parse({"path": "d.t"}).place.catalog is None
    assert SourceRequest.parse({"path": "d.t", "warehouse": "here"}).place.catalog == "./here"
    assert SourceRequest.parse({**BASE, "table": "d.t"}).place.table == "d.t"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"warehouse": "/w"}, "no table is given"),
        ({**BASE, "table": "d.u"}, "path='d.t' and table='d.u' name two tables"),
        ({**BASE, "catalog": "c"}, "warehouse and catalog exclude each other"),
        ({"path": "d.t", "catalog": "/w"}, "option catalog='/w' is a location; use the option warehouse"),
        ({"path": "d.t", "warehouse": " "}, "option warehouse is empty"),
        ({**BASE, "scan.snapshotid": "1"}, "does not know it, .* did you mean scan.snapshot-id"),
        ({**BASE, "write-only": "true"}, "option write-only: the format lakecore does not know it"),
        ({**BASE, "limit": "-1"}, "limit='-1': it must not be negative"),
        ({**BASE, "limit": "x"}, "limit='x'"),
        ({**BASE, "scan.parallelism": "0"}, "it must be at least 1"),
        ({**BASE, "scan.infer-parallelism": "false"}, "give scan.parallelism too"),
        ({**BASE, "nanoseconds": "round"}, "refuse, truncate, text"),
        ({**BASE, "push-filters": "true"}, "never, once"),
    ],
)
def test_refusals(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        SourceRequest.parse(options)
