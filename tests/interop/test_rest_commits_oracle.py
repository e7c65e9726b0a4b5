"""Commits and chores through a REST catalog: Paimon's own server publishes them, and Java's REST catalog, on the
same server, reads the same after each.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from lakecore import Commit
from lakecore.catalog.registry import load_catalog
from lakecore.catalog.rest.client import RestClient
from lakecore.catalog.rest.rest_catalog import RestCatalog
from lakecore.clock import SystemClock
from lakecore.errors import LakeError, NotFoundError, UnsupportedError
from lakecore.jobs import analyze, compact, expire_snapshots, fsck, partitions, remove_orphan_files
from lakecore.jobs.definitions.expiry import ExpireSnapshots, RemoveOrphanFiles
from lakecore.jobs.definitions.rows import Analyze, DropPartition
from lakecore.jobs.definitions.tags import CreateTag, DeleteTag
from lakecore.jobs.definitions.versions import (
    CreateBranch,
    DeleteBranch,
    FastForward,
    RenameBranch,
    RollbackTo,
    RollbackToAsLatest,
)
from lakecore.jobs.versions import branches, rollback, tags
from tests.support.chores import FUTURE
from tests.support.golden import canonical
from tests.support.oracle import Oracle, findings
from tests.support.rest_server import TOKEN, rest_server

pytestmark = pytest.mark.slow

VERSIONS = ["1.4.2", "2.0.0"]
SCHEMA = {
    "columns": ["p INT NOT NULL", "k INT NOT NULL", "v STRING"],
    "primaryKeys": ["p", "k"],
    "partitionKeys": ["p"],
    "options": {"bucket": "1", "metastore.partitioned-table": "true", "write-only": "true"},
}


class Both:
    """One server, asked by Java and by lakecore."""

    def __init__(self, oracle: Oracle, path: Path, **more: str) -> None:
        self.oracle, self.path = oracle, path
        server = rest_server(oracle.version, str(path))
        options = {"metastore": "rest", "uri": server, "token.provider": "bear", "token": TOKEN, **more}
        self.java = "|".join([str(path), f"warehouse={path.name}", *(f"{k}={v}" for k, v in options.items())])
        catalog = load_catalog(path.name, **options, **{"lakecore.service-location": str(path / "own")})
        assert isinstance(catalog, RestCatalog)
        self.catalog = catalog
        self.catalog.create_database("d")
        self.catalog.create_table("d.t", SCHEMA)

    def put(self, key: int, name: str = "d.t", **commit: Any) -> None:
        rows = pa.table({"p": pa.array([key % 2], pa.int32()), "k": pa.array([key], pa.int32()), "v": ["x"]})
        self.catalog.load_table(name).upsert(rows, Commit(**commit))

    def java_puts(self, key: int) -> None:
        self.oracle.write(self.java, "d.t", [{"p": key % 2, "k": key, "v": "x"}])

    def keys(self, name: str = "d.t") -> list[int]:
        """The keys of all rows, as both read them."""
        ours = canonical(self.catalog.load_table(name).scan().to_arrow().to_pylist())
        assert self.oracle.read(self.java, name) == ours
        return sorted(json.loads(row)["k"] for row in ours)

    def latest(self) -> int:
        found = self.catalog.load_table("d.t").latest_snapshot()
        return 0 if found is None else found.id

    def partitions(self) -> dict[str, tuple[int, int]]:
        """Rows and files by partition, as the server counts them from what each commit said."""
        path = ("v1", "lake house", "databases", "d", "tables", "t", "partitions")
        found = self.catalog.client.list("list", path, "partitions")
        return {one["spec"]["p"]: (one["recordCount"], one["fileCount"]) for one in found}


@pytest.mark.parametrize(
    ("version", "more"), [("1.4.2", {}), ("2.0.0", {"data-token.enabled": "true"})], ids=VERSIONS
)
def test_chores_in_turns_with_java(
    oracles: dict[str, Oracle], tmp_path: Path, version: str, more: dict[str, str]
) -> None:
    """The second case has storage with tokens of the server."""
    both = Both(oracles[version], tmp_path, **more)
    both.put(1)
    both.java_puts(2)
    both.put(3)
    assert both.keys() == [1, 2, 3]
    assert both.partitions() == {"0": (1, 1), "1": (2, 2)}
    compact.run(compact.Job(table="d.t", strategy=compact.Strategy.FULL), both.catalog)
    assert both.partitions() == {"0": (1, 1), "1": (2, 1)}
    both.java_puts(4)
    both.oracle.compact(both.java, "d.t", full=True)
    assert both.keys() == [1, 2, 3, 4]
    analyze.run(Analyze(table="d.t"), both.catalog)

    tags.run(CreateTag(table="d.t", tag="x"), both.catalog)
    at = both.latest()
    branches.run(CreateBranch(table="d.t", branch="b", tag="x"), both.catalog)
    both.put(6, "d.t$branch_b")
    both.put(5)
    assert both.keys("d.t$branch_b") == [1, 2, 3, 4, 6]
    assert both.keys() == [1, 2, 3, 4, 5]
    report = rollback.run(RollbackTo(table="d.t", snapshot=at), both.catalog)
    assert "keeps none" in report.notes[0]
    assert (both.latest(), both.keys()) == (at, [1, 2, 3, 4])
    branches.run(FastForward(table="d.t", branch="b"), both.catalog)
    assert both.keys() == [1, 2, 3, 4, 6]
    branches.run(DeleteBranch(table="d.t", branch="b"), both.catalog)
    with pytest.raises(NotFoundError):
        both.catalog.load_table("d.t$branch_b")
    rollback.run(RollbackToAsLatest(table="d.t", tag="x"), both.catalog)
    assert both.keys() == [1, 2, 3, 4]

    both.java_puts(8)
    partitions.run(DropPartition(table="d.t", partitions="p=0"), both.catalog)
    assert both.keys() == [1, 3]
    assert list(both.partitions()) == ["1"]
    expire_snapshots.run(ExpireSnapshots(table="d.t", retain_max=1, retain_min=1), both.catalog)
    for tag in both.catalog.load_table("d.t").tags():
        tags.run(DeleteTag(table="d.t", tags=(tag,)), both.catalog)
    both.java_puts(7)
    left = tmp_path / "d.db" / "t" / "manifest" / "manifest-left-0"
    left.write_text("left over")
    remove_orphan_files.run(RemoveOrphanFiles(table="d.t"), both.catalog, clock=FUTURE)
    assert not left.exists()
    assert both.keys() == [1, 3, 7]
    assert findings(both.oracle.fsck(tmp_path, "d.t")) == set()
    assert not fsck.run(fsck.Job(table="d.t"), both.catalog).report.findings


def test_what_the_interface_does_not_have_is_refused(oracle2: Oracle, tmp_path: Path) -> None:
    both = Both(oracle2, tmp_path)
    both.put(1)
    both.put(3)
    tags.run(CreateTag(table="d.t", tag="x"), both.catalog)
    branches.run(CreateBranch(table="d.t", branch="b", tag="x"), both.catalog)
    with pytest.raises(UnsupportedError, match="cannot rename branches"):
        branches.run(RenameBranch(table="d.t", branch="b", target_branch="c"), both.catalog)
    without = replace(both.catalog, options={**both.catalog.options, "lakecore.service-location": ""})
    with pytest.raises(UnsupportedError, match=r"lakecore\.service-location"):
        expire_snapshots.run(ExpireSnapshots(table="d.t", retain_max=1, retain_min=1), without)
    assert both.keys() == both.keys("d.t$branch_b") == [1, 3]


class Impatient(SystemClock):
    """A clock that does not wait."""

    def sleep(self, seconds: float) -> None:
        return


class Faulty(httpx.HTTPTransport):
    """It loses the answer of request N, or the request, or lets a proxy answer 503 without the server."""

    def __init__(self, number: int, mode: str) -> None:
        super().__init__()
        self.left, self.mode, self.done = number, mode, False

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.left -= 1
        if self.left != 0:
            return super().handle_request(request)
        self.done = True
        if self.mode == "lost answer":
            super().handle_request(request).read()
            raise httpx.ReadError("the connection was closed")
        if self.mode == "lost request":
            raise httpx.ReadError("the connection was closed")
        return httpx.Response(503, text="busy")


ONE_ROW = pa.table({"p": pa.array([1], pa.int32()), "k": pa.array([1], pa.int32()), "v": ["x"]})
STEPS: dict[str, Callable[[RestCatalog, str], object]] = {
    "create-database": lambda c, d: c.create_database(d, properties={"a": "b"}),
    "alter-database": lambda c, d: c.alter_database(d, {"a": "c"}),
    "create-table": lambda c, d: c.create_table(f"{d}.t", SCHEMA),
    "alter-table": lambda c, d: c.alter_table(f"{d}.t", [{"op": "add", "name": "w", "type": "INT"}]),
    "commit": lambda c, d: c.load_table(f"{d}.t").upsert(ONE_ROW, Commit(user="me", identifier=1)),
    "rename-table": lambda c, d: c.rename_table(f"{d}.t", f"{d}.u"),
    "drop-table": lambda c, d: c.drop_table(f"{d}.u", purge=True),
    "drop-database": lambda c, d: c.drop_database(d),
}


@pytest.mark.parametrize(
    ("version", "mode"),
    [("1.4.2", "lost answer"), ("2.0.0", "lost answer"), ("2.0.0", "lost request"), ("2.0.0", "503")],
)
def test_a_fault_at_each_request(oracles: dict[str, Oracle], tmp_path: Path, version: str, mode: str) -> None:
    """One lost message changes nothing: each step succeeds, once, and Java sees that."""
    both = Both(oracles[version], tmp_path)
    done = dict.fromkeys(STEPS, 0)
    for number in range(1, 20):
        left = False
        for name, step in STEPS.items():
            transport = Faulty(number, mode)
            client = RestClient(both.catalog.client.options, Impatient())
            client.__dict__["_client"] = httpx.Client(transport=transport)
            step(replace(both.catalog, client=client), f"e{number}")
            client.close()
            left |= transport.done
            done[name] += transport.done
            if name == "commit":
                rows = both.catalog.load_table(f"e{number}.t")
                assert rows.latest_snapshot().id == 1
                assert [json.loads(row)["k"] for row in both.oracle.read(both.java, f"e{number}.t")] == [1]
        shown = both.oracle.call("catalog", both.java, "show")
        assert set(shown) == {"d"}
        if not left:
            break
    assert all(done.values()), done
    assert done["commit"] >= 4


def test_a_server_that_stays_away_leaves_the_outcome_unknown(oracle2: Oracle, tmp_path: Path) -> None:
    """The same commit, repeated under its name, finds what became of it."""
    both = Both(oracle2, tmp_path)

    class Away(httpx.HTTPTransport):
        gone = False

        def handle_request(self, request: httpx.Request) -> httpx.Response:
            if self.gone:
                raise httpx.ConnectError("nobody listens")
            found = super().handle_request(request)
            if request.url.path.endswith("/commit"):
                self.gone = True
                raise httpx.ReadError("the connection was closed")
            return found

    client = RestClient(both.catalog.client.options, Impatient())
    client.__dict__["_client"] = httpx.Client(transport=Away())
    away = replace(both.catalog, client=client)
    with pytest.raises(LakeError, match="commit again with the same user and identifier"):
        away.load_table("d.t").upsert(ONE_ROW, Commit(user="me", identifier=1))
    result = both.catalog.load_table("d.t").upsert(ONE_ROW, Commit(user="me", identifier=1))
    assert result.duplicate
    assert (both.latest(), both.keys()) == (1, [1])


@pytest.mark.parametrize("version", VERSIONS)
def test_writers_at_once_lose_nothing(oracles: dict[str, Oracle], tmp_path: Path, version: str) -> None:
    both = Both(oracles[version], tmp_path)
    writers = ((both.java_puts, range(6)), (both.put, range(10, 18)), (both.put, range(20, 28)))
    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(lambda put, keys: list(map(put, keys)), *writer) for writer in writers]:
            done.result()
    assert both.keys() == [*range(6), *range(10, 18), *range(20, 28)]
    assert both.latest() == 22
