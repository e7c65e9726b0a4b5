"""Tables on an object store, from the first write to a compaction; then Java Paimon reads and checks a copy."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.cli.main import main
from lakecore.fs.file_io import FileIO
from lakecore.jobs import compact
from lakecore.metadata.snapshot import CommitKind
from lakecore.table import Table
from lakecore.verify.fsck.check import fsck
from tests.support.oracle import Oracle, findings
from tests.support.s3_server import S3Server, s3_server

pytestmark = pytest.mark.slow

KEYED: dict[str, Any] = {
    "columns": ["k INT", "p STRING", "v STRING"],
    "primaryKeys": ["k", "p"],
    "partitionKeys": ["p"],
    "options": {"bucket": "2", "write-only": "true", "changelog-producer": "input"},
}
APPEND: dict[str, Any] = {
    "columns": ["k INT", "p STRING", "v STRING"],
    "partitionKeys": ["p"],
    "options": {"write-only": "true", "compaction.min.file-num": "3", "file.format": "orc"},
}
Row = Mapping[str, Any]


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as started:
        yield started


@pytest.fixture
def warehouse(server: S3Server) -> str:
    return f"s3://{server.bucket}/{uuid.uuid4().hex}/lake house"


@pytest.fixture
def catalog(server: S3Server, warehouse: str) -> FilesystemCatalog:
    return load_catalog(warehouse, **server.options)


@pytest.fixture
def judged(
    warehouse: str, server: S3Server, oracles: dict[str, Oracle], tmp_path: Path
) -> Callable[[str], list[Row]]:
    """Rows of a table as both versions of Java read them, in a local copy that they find nothing wrong with."""

    def judge(name: str) -> list[Row]:
        storage = load_catalog(warehouse, **server.options).file_io
        local = tmp_path / "copy"
        download(storage, warehouse, local)
        readings = [[json.loads(line) for line in java.read(local, name)] for java in oracles.values()]
        for java in oracles.values():
            assert findings(java.fsck(local, name)) == set()
        assert all(rows == readings[0] for rows in readings)
        return in_order(readings[0])

    return judge


def download(storage: FileIO, folder: str, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for status in storage.list(folder):
        if status.is_dir:
            download(storage, status.path, target / status.name)
        else:
            (target / status.name).write_bytes(storage.read(status.path))


def in_order(rows: list[Any]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["k"], row["p"], row["v"]))


def some_rows(commit: int) -> list[Row]:
    """Keys of one commit overlap with those of the next; partitions have names that need care."""
    return [{"k": k, "p": "a/b=c" if k % 2 else "ü %20", "v": f"{commit}"} for k in range(commit, commit + 6)]


def ours(table: Table, **arguments: Any) -> list[Row]:
    return in_order(table.scan(**arguments).to_arrow().to_pylist())


def checked(table: Table) -> None:
    report = fsck(
        table._stores.file_io,
        table._stores.paths,
        now_ms=table._stores.clock.now_ms(),
        deep=True,
        read_data=True,
    )
    assert not report.findings


@pytest.mark.parametrize("keys", [[], ["k"]], ids=["append", "keys"])
def test_row_groups_are_copied_from_objects_to_objects(
    keys: list[str], catalog: FilesystemCatalog, judged: Callable[[str], list[Row]]
) -> None:
    options = {"bucket": "1", "bucket-key": "k", "write-only": "true", "compaction.min.file-num": "2"}
    definition = {"columns": ["k INT", "p STRING", "v STRING"], "primaryKeys": keys, "options": options}
    table = catalog.create_table("db.t", definition)
    for number in range(3):
        numbers = range(number * 10_000, (number + 1) * 10_000)
        table.write(
            pa.table(
                {
                    "k": pa.array(numbers, pa.int32()),
                    "p": ["p"] * 10_000,
                    "v": [f"{one % 50} of {number}" for one in numbers],
                }
            )
        )
    expected = ours(table)
    report = compact.run(compact.Job(table="db.t", strategy=compact.Strategy.FULL), catalog)
    assert (report.files_copied, report.files_out, report.decoded_because) == (3, 1, {})
    assert ours(table) == expected
    checked(table)
    assert judged("db.t") == expected


@pytest.mark.parametrize("definition", [KEYED, APPEND], ids=["keys", "append"])
def test_write_read_compact_check(
    definition: dict[str, Any], catalog: FilesystemCatalog, judged: Callable[[str], list[Row]]
) -> None:
    keyed = "primaryKeys" in definition
    table = catalog.create_table("db.t", definition)
    rows: list[Row] = []
    for commit in range(6):
        new = some_rows(commit)
        table.write(pa.Table.from_pylist(new, schema=table.scan().to_arrow().schema))
        fresh = {row["k"] for row in new} if keyed else set()
        rows = [row for row in rows if row["k"] not in fresh] + new
    if keyed:
        table.upsert(pa.table({"k": [5], "p": ["a/b=c"], "v": ["x"], "_kind": ["-D"]}))
        rows = [row for row in rows if row["k"] != 5]

    expected = in_order(rows)
    assert ours(table) == expected
    one = [row for row in expected if row["p"] == "a/b=c" and row["v"] >= "3"]
    assert ours(table, where="p = 'a/b=c' and v >= '3'") == one
    assert ours(table, snapshot=1) == in_order(some_rows(0))
    assert judged("db.t") == expected

    strategy = compact.Strategy.FULL if keyed else compact.Strategy.UNIVERSAL
    report = compact.run(compact.Job(table="db.t", strategy=strategy), catalog)
    assert report.files_in > report.files_out > 0
    assert ours(catalog.load_table("db.t")) == expected
    checked(table)
    assert judged("db.t") == expected

    table.overwrite(pa.table({"k": [1], "p": ["a/b=c"], "v": ["new"]}))
    expected = in_order([{"k": 1, "p": "a/b=c", "v": "new"}, *(r for r in expected if r["p"] != "a/b=c")])
    assert ours(table) == judged("db.t") == expected
    checked(table)


def test_threads_commit_at_once(catalog: FilesystemCatalog, judged: Callable[[str], list[Row]]) -> None:
    """Every commit lands once, beside a compaction too."""
    catalog.create_table("db.t", KEYED)

    def writing(number: int) -> None:
        table = catalog.load_table("db.t")
        for i in range(4):
            rows = {"k": [10 * number + i, 99], "p": ["p", "p"], "v": [f"{number}", f"{number}-{i}"]}
            table.upsert(pa.table(rows))

    with ThreadPoolExecutor(2) as pool:
        writers = [pool.submit(writing, number) for number in (1, 2)]
        compact.run_many([compact.Job(table="db.t", strategy=compact.Strategy.FULL)] * 2, catalog)
    for writer in writers:
        writer.result()

    table = catalog.load_table("db.t")
    snapshots = [table._stores.snapshots.load(number) for number in table._stores.snapshots.list_ids()]
    assert [snapshot.id for snapshot in snapshots] == list(range(1, len(snapshots) + 1))
    assert sum(snapshot.commit_kind is CommitKind.APPEND for snapshot in snapshots) == 8
    assert [row["k"] for row in ours(table)] == [*range(10, 14), *range(20, 24), 99]
    assert judged("db.t") == ours(table)
    checked(table)


@pytest.mark.parametrize("times", [1, 4])
def test_a_commit_whose_answer_is_lost_lands_once(
    times: int, server: S3Server, catalog: FilesystemCatalog, judged: Callable[[str], list[Row]]
) -> None:
    """Once: the client asks again and finds its own snapshot. Four times: the client gives up."""
    table = catalog.create_table("db.t", KEYED)
    rows = [{"k": k, "p": "p", "v": "1"} for k in range(3)]
    table.upsert(pa.Table.from_pylist(rows))
    with server.losing_answers("snapshot-2", times):
        table.upsert(pa.table({"k": [1], "p": ["p"], "v": ["2"]}))
    rows[1]["v"] = "2"
    assert table._stores.snapshots.list_ids() == (1, 2)
    with server.losing_answers("snapshot-3", times):
        report = compact.run(compact.Job(table="db.t", strategy=compact.Strategy.FULL), catalog)
    assert report.snapshots == (3,)
    assert ours(table) == judged("db.t") == rows
    checked(table)


@pytest.mark.parametrize("configured", ["file", "environment"])
def test_the_command_line_reaches_it(
    configured: str,
    server: S3Server,
    warehouse: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    judged: Callable[[str], list[Row]],
) -> None:
    options = {"warehouse": warehouse, **server.options}
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAKECORE_WAREHOUSE", raising=False)
    if configured == "file":
        lines = [f'"{key}" = "{value}"' for key, value in options.items()]
        Path("lakecore.toml").write_text("\n".join(["[catalogs.lake]", *lines]))
    else:
        monkeypatch.setenv("LAKECORE_CATALOG", "lake")
        for key, value in options.items():
            name = key.upper().replace(".", "__").replace("-", "_")
            monkeypatch.setenv(f"LAKECORE_CATALOG__LAKE__{name}", value)

    def run(*arguments: str, stdin: str = "") -> Any:
        monkeypatch.setattr("lakecore.cli.tables.input_files._stdin", lambda: io.BytesIO(stdin.encode()))
        capfd.readouterr()
        code = main([*arguments, "--json"])
        out, err = capfd.readouterr()
        assert code == 0, err
        return out

    run("create", "db.t", "--schema", json.dumps(KEYED))
    for v in "abcdef":
        run("write", "db.t", "-", stdin=json.dumps({"k": 1, "p": "p", "v": v}) + '\n{"k": 2, "p": "p"}')
    assert json.loads(run("tables"))
    run("compact", "db.t", "--engine", "local", "--strategy", "full")
    read = [json.loads(line) for line in run("read", "db.t", "--where", "v is not null").splitlines()]
    assert [(row["k"], row["v"]) for row in read] == [(1, "f")]
    run("fsck", "db.t", "--deep")
    assert [row["v"] for row in judged("db.t")] == ["f", None]
