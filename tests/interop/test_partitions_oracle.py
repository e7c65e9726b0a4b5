"""The partitions that catalogs list, drop, create and mark: Java's catalogs and lakecore's see the same."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.catalog import Catalog
from lakecore.catalog.partitions.partition import Partition
from lakecore.catalog.registry import load_catalog
from lakecore.errors import LakeError, UnsupportedError
from lakecore.jobs import compact
from lakecore.jobs import partitions as marks
from lakecore.jobs.definitions.rows import MarkPartitionDone
from tests.support.lake import put
from tests.support.oracle import Oracle, findings
from tests.support.rest_server import TOKEN, rest_server

pytestmark = pytest.mark.slow

NAME = "d.t"
COLUMNS = ["dt DATE", "hh INT", "s STRING", "k BIGINT NOT NULL"]


def make(catalog: Catalog, **options: str) -> None:
    """Three partitions; one is compacted, so that it has removed files, two have nulls or blanks."""
    catalog.create_database("d")
    definition = {
        "columns": COLUMNS,
        "partitionKeys": ["dt", "hh", "s"],
        "options": {"bucket": "2", "bucket-key": "k", **options},
    }
    table = catalog.create_table(NAME, definition)
    for days, hour, text in ((date(2024, 1, 1), 1, "a/b ü"), (None, 2, " "), (date(1969, 12, 31), -3, None)):
        for _ in range(6 if hour == 1 else 2):
            put(table, [{"dt": days, "hh": hour, "s": text, "k": 1}])
    job = compact.Job(
        table=NAME,
        strategy=compact.Strategy.FULL,
        commit_user="me",
        commit_identifier=1,
        where="hh = 1",
    )
    assert compact.run(job, catalog).snapshot is not None


def fields(partition: Partition) -> tuple[Any, ...]:
    return (
        dict(partition.spec),
        partition.record_count,
        partition.file_size_in_bytes,
        partition.file_count,
        partition.last_file_creation_time,
        partition.total_buckets,
        partition.is_done,
    )


def of_java(oracle: Oracle, warehouse: str) -> list[tuple[Any, ...]]:
    keys = (
        "spec",
        "recordCount",
        "fileSizeInBytes",
        "fileCount",
        "lastFileCreationTime",
        "totalBuckets",
        "done",
    )
    listed = oracle.call("catalog", warehouse, "partitions", NAME)
    return sorted((tuple(one[key] for key in keys) for one in listed), key=repr)


def ours(catalog: Catalog, **selection: Any) -> list[tuple[Any, ...]]:
    return sorted(map(fields, catalog.partitions.list(NAME, **selection)), key=repr)


@pytest.mark.parametrize(
    ("kind", "version", "legacy"),
    [("filesystem", "1.4.2", "true"), ("filesystem", "2.0.0", "false"), ("jdbc", "2.0.0", "true")],
)
def test_partitions_of_files(
    kind: str, version: str, legacy: str, tmp_path: Path, oracles: dict[str, Oracle]
) -> None:
    oracle, path = oracles[version], tmp_path / "wh"
    options: dict[str, Any] = {}
    if kind == "jdbc":
        options = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/names"}
    catalog = load_catalog(path, create_warehouse=True, **options)
    java = "|".join([str(path), *(f"{key}={value}" for key, value in options.items())])
    make(catalog, **{"partition.legacy-name": legacy})
    assert len(of_java(oracle, java)) == 3
    assert ours(catalog) == of_java(oracle, java)
    assert len(ours(catalog, partitions="hh=2")) == 1
    assert len(ours(catalog, partitions={"s": None})) == 2  # null and blank values share a name
    assert len(ours(catalog, where="dt < '1970-01-01'")) == 1
    assert [one.spec["hh"] for one in catalog.partitions.list(NAME, where="hh between 1 and 2")] == ["1", "2"]

    catalog.partitions.drop(NAME, "hh=2;hh=77")
    assert len(of_java(oracle, java)) == 2
    assert ours(catalog) == of_java(oracle, java)
    (spec,) = (dict(one.spec) for one in catalog.partitions.list(NAME, partitions="hh=1"))
    oracle.call("catalog", java, "drop-partitions", NAME, json.dumps([spec]))
    assert [fact[0]["hh"] for fact in ours(catalog)] == ["-3"]
    assert ours(catalog) == of_java(oracle, java)
    assert catalog.partitions.drop(NAME, "hh=1") is None
    assert findings(oracle.fsck(java, NAME)) == set()


@pytest.mark.parametrize(("version", "listed"), [("1.4.2", "true"), ("2.0.0", "true"), ("2.0.0", "false")])
def test_partitions_of_a_server(
    version: str, listed: str, tmp_path: Path, oracles: dict[str, Oracle]
) -> None:
    oracle = oracles[version]
    uri = rest_server(version, str(tmp_path))
    options: dict[str, Any] = {"metastore": "rest", "uri": uri, "token.provider": "bear", "token": TOKEN}
    service = {"lakecore.service-location": str(tmp_path / "service")}
    catalog = load_catalog(tmp_path.name, **options, **service)
    words = {"warehouse": tmp_path.name, **options}
    java = "|".join([str(tmp_path), *(f"{key}={value}" for key, value in words.items())])
    make(catalog, **{"metastore.partitioned-table": listed})
    assert len(ours(catalog)) == 3
    assert ours(catalog) == of_java(oracle, java)
    if listed == "false":
        with pytest.raises(UnsupportedError):
            catalog.partitions.mark_done(NAME, "dt=2024-01-01,hh=1,s=a/b ü")
        return

    page = catalog.partitions.list_page(NAME, limit=2)
    rest = catalog.partitions.list_page(NAME, limit=2, token=page.next_token)
    assert (len(page.partitions), len(rest.partitions), rest.next_token) == (2, 1, None)
    whole = catalog.partitions.list(NAME)
    assert sorted((*page.partitions, *rest.partitions), key=whole.index) == whole
    catalog.partitions.mark_done(NAME, "dt=2024-01-01,hh=1,s=a/b ü")
    assert ours(catalog) == of_java(oracle, java)
    catalog.partitions.drop(NAME, "hh=1")
    assert len(ours(catalog)) == 2
    assert ours(catalog) == of_java(oracle, java)
    if version == "2.0.0":
        for _ in range(2):
            catalog.partitions.create(NAME, {"dt": "2025-01-01", "hh": 9, "s": "new"})
        (made,) = catalog.partitions.list(NAME, where="hh = 9")
        assert (made.record_count, made.file_count) == (0, 0)
        assert ours(catalog) == of_java(oracle, java)
    else:
        with pytest.raises(LakeError):
            catalog.partitions.create(NAME, {"dt": "2025-01-01", "hh": 9, "s": "new"})

    actions = "success-file,mark-event" + (",done-partition" if version == "2.0.0" else "")
    job = MarkPartitionDone(
        table=NAME,
        partitions="dt=1969-12-31,hh=-3,s=__DEFAULT_PARTITION__",
        options={"partition.mark-done-action": actions},
    )
    marks.run(job, catalog)
    marks.run(job, catalog)
    seen = of_java(oracle, java)  # this server accepts the request for marks, and keeps none
    assert ours(catalog) == seen
    ends = [one[0]["s"] for one in seen if one[0]["s"].endswith(".done")]
    assert ends == (["__DEFAULT_PARTITION__.done"] if version == "2.0.0" else [])
    if version != "2.0.0":
        with pytest.raises(LakeError):
            marks.run(replace(job, options={"partition.mark-done-action": "done-partition"}), catalog)
