"""A fast-forward gives main the schemas of the branch, and `undo` those that main had."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import AlreadyExistsError, CorruptDataError
from lakecore.fs.walk import files_below
from lakecore.jobs import quarantine
from lakecore.jobs.definitions.repair import Undo
from lakecore.jobs.versions import branches, tags
from lakecore.metadata.schema_change import AddColumn
from lakecore.types.datatypes import parse_type
from tests.support.lake import key_table, memory_catalog, put, rows_of
from tests.support.maintained import OWNER
from tests.support.meddling_fs import Meddling

MAIN, BRANCH = "d.k", "d.k$branch_b"


def parted(name: str) -> FilesystemCatalog:
    """A table with one row, and branch `b` of it."""
    catalog = memory_catalog(f"forward-schemas-{name}")
    put(key_table(catalog), [{"k": 1, "v": "x"}])
    tags.run(tags.CreateTag(table=MAIN, tag="t", safety=OWNER), catalog, clock=catalog.clock)
    branches.run(branches.CreateBranch(table=MAIN, branch="b", tag="t"), catalog, clock=catalog.clock)
    return catalog


def alter(catalog: FilesystemCatalog, name: str, columns: str) -> None:
    for column in columns.split():
        catalog.alter_table(name, [AddColumn(path=(column,), type=parse_type("INT"))])


def forward(catalog: FilesystemCatalog) -> Undo:
    job = branches.FastForward(table=MAIN, branch="b", safety=OWNER)
    report = branches.run(job, catalog, clock=catalog.clock)
    return Undo(run_id=str(report.run), safety=OWNER)


def schemas(catalog: FilesystemCatalog, name: str) -> dict[int, bytes]:
    stores = catalog.load_table(name)._stores
    return {number: stores.file_io.read(stores.paths.schema(number)) for number in stores.schemas.list_ids()}


CHANGES = [("", "c d"), ("m n", ""), ("m n o", "c d"), ("m n", "c d e")]


@pytest.mark.parametrize(("on_main", "on_branch"), CHANGES)
def test_main_has_the_schemas_of_the_branch(on_main: str, on_branch: str) -> None:
    catalog = parted(f"copy-{on_main}-{on_branch}")
    put(catalog.load_table(BRANCH), [{"k": 2, "v": "of the branch"}])
    alter(catalog, MAIN, on_main)
    alter(catalog, BRANCH, on_branch)
    expected = schemas(catalog, BRANCH)
    forward(catalog)
    assert schemas(catalog, MAIN) == expected
    empty = (None,) * len(on_branch.split())
    assert rows_of(catalog.load_table(MAIN)) == [(1, "x", *empty), (2, "of the branch", *empty)]


@pytest.mark.parametrize(("on_main", "on_branch"), CHANGES)
def test_undo_gives_main_its_schemas_again(on_main: str, on_branch: str) -> None:
    """They belong to the snapshots of main: without them, these could not be read, or had other columns."""
    catalog = parted(f"undo-{on_main}-{on_branch}")
    alter(catalog, MAIN, on_main)
    alter(catalog, BRANCH, on_branch)
    more = dict.fromkeys(on_main.split(), 7)
    put(catalog.load_table(MAIN), [{"k": 3, "v": "y", **more}])
    expected = schemas(catalog, MAIN), rows_of(catalog.load_table(MAIN))
    undo = forward(catalog)
    assert len(rows_of(catalog.load_table(MAIN))) == 1
    quarantine.run(undo, catalog, clock=catalog.clock)
    assert (schemas(catalog, MAIN), rows_of(catalog.load_table(MAIN))) == expected
    assert rows_of(catalog.load_table(BRANCH)) == [(1, "x", *(None,) * len(on_branch.split()))]


def test_undo_replaces_no_schema_that_came_since() -> None:
    catalog = parted("since")
    alter(catalog, MAIN, "m")
    put(catalog.load_table(MAIN), [{"k": 3, "v": "y", "m": 7}])
    undo = forward(catalog)
    alter(catalog, MAIN, "later")
    before = schemas(catalog, MAIN)
    with pytest.raises(AlreadyExistsError, match=r"schema 1 is another one than run .* left"):
        quarantine.run(undo, catalog, clock=catalog.clock)
    assert schemas(catalog, MAIN) == before
    assert rows_of(catalog.load_table(MAIN)) == [(1, "x", None)]
    stores = catalog.load_table(MAIN)._stores
    stores.file_io.delete(stores.paths.schema(1))
    quarantine.run(undo, catalog, clock=catalog.clock)
    assert rows_of(catalog.load_table(MAIN)) == [(1, "x", None), (3, "y", 7)]


def test_undo_replaces_no_schema_that_comes_meanwhile() -> None:
    catalog = parted("meanwhile")
    alter(catalog, MAIN, "m")
    put(catalog.load_table(MAIN), [{"k": 3, "v": "y", "m": 7}])
    undo = forward(catalog)
    storage = Meddling(catalog.file_io, "delete", "snapshot/EARLIEST", lambda: alter(catalog, MAIN, "later"))
    with pytest.raises(AlreadyExistsError, match=r"schema 1 is another one than run .* left"):
        quarantine.run(undo, replace(catalog, file_io=storage), clock=catalog.clock)
    assert catalog.load_table(MAIN).schema.row_type.names == ("k", "v", "later")
    assert rows_of(catalog.load_table(MAIN)) == [(1, "x", None)]


@pytest.mark.parametrize(
    "forged", [5, {"1": "x"}, {"x": [None, None]}, {"1": ["{}", None]}, {"0": [5, None]}]
)
def test_a_forged_schema_is_refused(forged: Any) -> None:
    catalog = parted("forged")
    alter(catalog, MAIN, "m")
    put(catalog.load_table(MAIN), [{"k": 3, "v": "y", "m": 7}])
    undo = forward(catalog)
    storage = catalog.file_io
    runs = files_below(storage, f"{catalog.warehouse}/.lakecore/runs")
    [path] = [path for path in runs if path.endswith(f"{undo.run_id}/run.json")]
    record = json.loads(storage.read(path))
    record["parameters"]["schemas"] = forged
    storage.overwrite(path, json.dumps(record).encode())
    before = schemas(catalog, MAIN)
    with pytest.raises(CorruptDataError):
        quarantine.run(undo, catalog, clock=catalog.clock)
    assert schemas(catalog, MAIN) == before
