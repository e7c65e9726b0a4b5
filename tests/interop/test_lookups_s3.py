"""Lookups of a table on an object store: local queries by lookup files, shared copies, lookup tables, the query service and the
command; the merged read of Java, of a copy of the warehouse, has the same rows.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.cli.main import main
from lakecore.jobs import compact
from lakecore.lookup.query import copy_writer
from lakecore.lookup.query.lookup_cache import LookupCache
from lakecore.service.query_service import QueryService
from lakecore.service.remote_query import RemoteTableQuery, service_manager
from lakecore.table import Table
from tests.interop.test_s3 import download
from tests.support.lake import live_files
from tests.support.oracle import Oracle, findings
from tests.support.s3_server import s3_server

pytestmark = pytest.mark.slow

DEFINITION: dict[str, Any] = {
    "columns": ["k INT", "p STRING", "v STRING"],
    "primaryKeys": ["k", "p"],
    "partitionKeys": ["p"],
    "options": {
        "bucket": "2",
        "write-only": "true",
        "changelog-producer": "lookup",
        "lookup.remote-file.enabled": "true",
    },
}
PART = "a/b=ü %20"


def put(table: Table, low: int, high: int, text: str) -> None:
    rows = [{"k": k, "p": PART if k % 2 else "b", "v": f"{text} {k}"} for k in range(low, high)]
    table.write(pa.Table.from_pylist(rows))


def test_a_table_on_an_object_store_is_looked_up(
    tmp_path: Path, oracle2: Oracle, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data_files: list[str] = []
    read_file = copy_writer.read_file
    monkeypatch.setattr(
        copy_writer,
        "read_file",
        lambda *args, **more: data_files.append(args[2].file_name) or read_file(*args, **more),
    )
    with s3_server() as server:
        warehouse = f"s3://{server.bucket}/lake house"
        catalog = load_catalog(warehouse, **server.options)
        table = catalog.create_table("db.t", DEFINITION)
        put(table, 0, 300, "zeroth")
        put(table, 0, 300, "first")
        compact.run(compact.Job(table="db.t", strategy=compact.Strategy.FULL), catalog)
        assert {len(file.extra_files) for file in live_files(table)} == {1}
        keys = pa.table(
            {"k": pa.array(range(310), pa.int32()), "p": [PART if k % 2 else "b" for k in range(310)]}
        )

        with (
            table.new_query(cache=LookupCache([str(tmp_path)], shared=True)) as query,
            QueryService(lambda: catalog.load_table("db.t")) as service,
        ):
            query.refresh()
            service.start()
            assert len(service_manager(table).service() or ()) == 1
            expected: list[str | None] = [f"first {k}" for k in range(300)] + [None] * 10
            assert query.lookup_table(keys).rows.column("v").to_pylist() == expected
            assert data_files == []  # the lookup files were read
            with RemoteTableQuery(table) as remote:
                assert remote.lookup_table(keys).rows.column("v").to_pylist() == expected
            put(table, 200, 305, "second")
            assert query.lookup_table(keys).rows.column("v").to_pylist() == expected
            compact.run(compact.Job(table="db.t", strategy=compact.Strategy.FULL), catalog)
            query.refresh()
            service.refresh()
            expected = (
                [f"first {k}" for k in range(200)] + [f"second {k}" for k in range(200, 305)] + [None] * 5
            )
            assert query.lookup_table(keys).rows.column("v").to_pylist() == expected
            with RemoteTableQuery(table) as remote, table.new_lookup(["k", "p"]) as lookup:
                assert remote.lookup_table(keys).rows.column("v").to_pylist() == expected
                assert lookup.kind == "service"
                assert lookup.lookup(keys).column("v").to_pylist() == expected[:305]
            assert data_files == []
        assert service_manager(table).service() is None
        with table.new_lookup(["v"], options={"lookup.cache": "full"}) as lookup:
            assert lookup.lookup_key("second 204")[0]["k"] == 204

        again = LookupCache([str(tmp_path)], shared=True)
        with table.new_query(cache=again) as query:
            query.refresh()
            assert query.lookup_table(keys).rows.column("v").to_pylist() == expected
        assert again.copies_written == 0

        monkeypatch.chdir(tmp_path)
        settings = {"warehouse": warehouse, **server.options}
        lines = [f'"{key}" = "{value}"' for key, value in settings.items()]
        Path("lakecore.toml").write_text("\n".join(["[catalogs.lake]", *lines]))
        monkeypatch.delenv("LAKECORE_WAREHOUSE", raising=False)
        capsys.readouterr()
        assert main(["lookup", "db.t", json.dumps({"k": 203, "p": PART})]) == 0
        assert json.loads(capsys.readouterr().out) == {"k": 203, "p": PART, "v": "second 203"}
        local = tmp_path / "copy"
        download(catalog.file_io, warehouse, local)
    rows = {row["k"]: row["v"] for row in map(json.loads, oracle2.read(local, "db.t"))}
    assert [rows.get(k) for k in range(310)] == expected
    assert findings(oracle2.fsck(local, "db.t")) == set()
