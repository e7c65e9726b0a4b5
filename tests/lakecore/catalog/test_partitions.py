"""Partitions of a catalog without a list of them; tests/interop/test_partitions_oracle.py compares with Java."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.catalog.partitions.partition import Partition
from lakecore.catalog.registry import load_catalog
from lakecore.errors import InvalidInputError, NotFoundError, OnHoldError, UnavailableError, UnsupportedError
from lakecore.jobs.holds import HoldTable
from lakecore.jobs.holds import run as hold
from tests.support.lake import append_table, memory_catalog, put
from tests.support.scripted_server import Script, scripted_server


@pytest.fixture
def catalog() -> FilesystemCatalog:
    catalog = memory_catalog("partitions")
    table = append_table(catalog, ("p DATE", "q STRING", "n INT"), ("p", "q"))
    rows = [(date(2024, 1, 2), "b"), (date(2024, 1, 1), "a"), (None, "a")]
    put(table, [{"p": p, "q": q, "n": n} for n, (p, q) in enumerate(rows)])
    return catalog


def texts(partitions: list[Partition]) -> list[str]:
    return [",".join(one.spec.values()) for one in partitions]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ({}, ["19723,a", "19724,b", "__DEFAULT_PARTITION__,a"]),
        ({"partitions": "q=a"}, ["19723,a", "__DEFAULT_PARTITION__,a"]),
        ({"partitions": "q=a,p=2024-01-01;q=b"}, ["19723,a", "19724,b"]),
        ({"partitions": {"p": date(2024, 1, 1)}}, ["19723,a"]),
        ({"partitions": [{"p": "19723"}, {"p": None}]}, ["19723,a", "__DEFAULT_PARTITION__,a"]),
        ({"partitions": []}, []),
        ({"where": "p >= '2024-01-01' and not q = 'b'"}, ["19723,a"]),
        ({"where": "p is null"}, ["__DEFAULT_PARTITION__,a"]),
        ({"where": "q = 'a'", "partitions": "p=2024-01-01"}, ["19723,a"]),
    ],
    ids=str,
)
def test_selections(catalog: FilesystemCatalog, selection: dict[str, Any], expected: list[str]) -> None:
    assert texts(catalog.partitions.list("d.a", **selection)) == expected


def test_a_listed_partition_can_be_dropped(catalog: FilesystemCatalog) -> None:
    for left in (2, 1, 0):
        snapshot = catalog.partitions.drop("d.a", catalog.partitions.list("d.a")[-1].spec)
        assert snapshot == 4 - left
        assert len(catalog.partitions.list("d.a")) == left
    assert catalog.partitions.drop("d.a", "q=a") is None
    assert catalog.load_table("d.a").scan().count() == 0


@pytest.mark.parametrize("wrong", ["n=1", "p=x", "", {"n": 1}, {"p": "x"}, {}, []], ids=str)
def test_what_names_no_partition_drops_nothing(catalog: FilesystemCatalog, wrong: Any) -> None:
    with pytest.raises(InvalidInputError):
        catalog.partitions.drop("d.a", wrong)
    assert len(catalog.partitions.list("d.a")) == 3


def test_a_table_on_hold_keeps_its_partitions(catalog: FilesystemCatalog) -> None:
    hold(HoldTable(table="d.a", reason="why not"), catalog, clock=catalog.clock)
    with pytest.raises(OnHoldError):
        catalog.partitions.drop("d.a", "q=a")
    assert len(catalog.partitions.list("d.a")) == 3


def test_what_is_refused(catalog: FilesystemCatalog) -> None:
    partitions = catalog.partitions
    for change in (partitions.create, partitions.mark_done):
        with pytest.raises(UnsupportedError, match="keeps no list of partitions"):
            change("d.a", "p=2024-01-01,q=a")
    with pytest.raises(UnsupportedError, match="keeps no list of partitions"):
        partitions.alter("d.a", partitions.list("d.a"))
    with pytest.raises(UnsupportedError, match="pattern"):
        partitions.list_page("d.a", pattern="p=%")
    with pytest.raises(InvalidInputError, match="system table"):
        partitions.list("d.a$files")
    with pytest.raises(InvalidInputError, match="n"):
        partitions.list("d.a", where="n = 1")
    with pytest.raises(NotFoundError):
        partitions.list("d.x")
    assert len(partitions.list_page("d.a").partitions) == 3


def test_a_table_without_partitions_has_one_if_it_has_files() -> None:
    catalog = memory_catalog("no-partitions")
    table = append_table(catalog, ("n INT",))
    assert catalog.partitions.list("d.a") == []
    put(table, [{"n": 1}, {"n": 2}])
    (whole,) = catalog.partitions.list("d.a")
    assert (whole.spec, whole.record_count, whole.file_count) == ({}, 2, 1)


@pytest.fixture
def script() -> Iterator[Script]:
    with scripted_server() as script:
        yield script


@pytest.mark.parametrize("forged", [[1], [{"spec": {"q": "a"}}], [{"spec": 3, "recordCount": "x"}]], ids=str)
def test_forged_partitions_of_a_server(script: Script, forged: Any) -> None:
    schema = {"fields": [{"id": 0, "name": "q", "type": "STRING"}], "partitionKeys": ["q"], "options": {}}
    table = {"id": "1", "name": "t", "path": "/tmp/t", "schemaId": 0, "schema": schema}
    script.answers = [(200, "{}"), (200, json.dumps(table)), (200, json.dumps({"partitions": forged}))]
    options: dict[str, Any] = {
        "metastore": "rest",
        "uri": script.address,
        "token.provider": "bear",
        "token": "x",
    }
    catalog = load_catalog("wh", **options)
    with pytest.raises(UnavailableError, match="lists no partitions"):
        catalog.partitions.list("d.t")
