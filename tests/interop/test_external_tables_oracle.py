"""External tables: the option `path` of a new table, by Java and by lakecore on one metastore or server."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakecore.catalog.names import TableName
from lakecore.catalog.registry import load_catalog
from lakecore.errors import (
    AlreadyExistsError,
    CorruptDataError,
    InvalidInputError,
    InvalidOptionError,
    UnsupportedError,
)
from lakecore.jobs import compact, expire_snapshots, remove_orphan_files
from tests.support.hive_metastore import HiveServer, emptied, opened
from tests.support.lake import rows_of
from tests.support.oracle import Oracle, findings
from tests.support.rest_server import TOKEN, rest_server

pytestmark = pytest.mark.slow

KEYED: dict[str, Any] = {
    "columns": ["k INT NOT NULL", "v STRING"],
    "primaryKeys": ["k"],
    "options": {"bucket": "1"},
}


def at(path: Path | str, **options: str) -> dict[str, Any]:
    return {**KEYED, "options": {**KEYED["options"], **options, "path": str(path)}}


def row(key: int) -> pa.Table:
    return pa.table({"k": pa.array([key], pa.int32()), "v": [f"v{key}"]})


def shown(catalog: Any, name: str) -> dict[str, str]:
    record = catalog._metastore.table(TableName.parse(name))
    return {
        "location": record.sd.location.replace("/ours", "/java"),
        "kind": record.tableType,
        "cols": str(record.sd.cols),
        **{
            key: value.replace("/ours", "/java")
            for key, value in record.parameters.items()
            if key not in ("totalSize", "numFiles", "transient_lastDdlTime", "numFilesErasureCoded")
        },
    }


def test_a_metastore_has_the_same_external_tables_of_both(hive: HiveServer, tmp_path: Path) -> None:
    catalog, java = opened(hive, **{"external-roots": str(tmp_path)}), hive.java()
    catalog.create_database("x")
    ours = catalog.create_table("x.ours", at(tmp_path / "ours"))
    hive.oracle.call("catalog", java, "create", "x.java", json.dumps(at(tmp_path / "java")))
    assert ours.path == str(tmp_path / "ours")
    assert shown(catalog, "x.ours") == shown(catalog, "x.java")
    schemas = [json.loads((tmp_path / one / "schema" / "schema-0").read_text()) for one in ("ours", "java")]
    for schema, name in zip(schemas, ("ours", "java"), strict=True):
        assert schema["options"]["path"] == str(tmp_path / name)
        del schema["options"]["path"], schema["timeMillis"]
    assert schemas[0] == schemas[1]
    for name in ("x.ours", "x.java"):
        hive.oracle.write(java, name, [{"k": 1, "v": "v1"}])
        catalog.load_table(name).upsert(row(2))
        catalog.alter_table(name, [{"op": "set", "key": "snapshot.num-retained.min", "value": "1"}])
        hive.oracle.call(
            "catalog", java, "alter", name, json.dumps([{"op": "add", "name": "n", "type": "INT"}])
        )
        compact.run(compact.Job(table=name, strategy=compact.Strategy.FULL), catalog)
        expire_snapshots.run(expire_snapshots.Job(table=name, retain_max=1), catalog)
        orphan = Path(
            catalog.load_table(name).path, "bucket-0", "data-11111111-2222-3333-4444-555555555555-0.parquet"
        )
        orphan.write_bytes(b"x")
        os.utime(orphan, (1_600_000_000, 1_600_000_000))
        report = remove_orphan_files.run(remove_orphan_files.Job(table=name), catalog)
        assert not orphan.exists(), report
        assert rows_of(catalog.load_table(name)) == [(1, "v1", None), (2, "v2", None)]
        assert len(hive.oracle.read(java, name)) == 2
        assert findings(hive.oracle.fsck(java, name)) == set()
    catalog.rename_table("x.ours", "x.renamed")
    hive.oracle.call("catalog", java, "rename", "x.java", "x.moved")
    for name, place in (("x.renamed", "ours"), ("x.moved", "java")):
        assert catalog.load_table(name).path == str(tmp_path / place)
        assert len(hive.oracle.read(java, name)) == 2
    files = sorted(tmp_path.rglob("*"))
    with pytest.raises(UnsupportedError, match="is external"):
        catalog.drop_table("x.moved", purge=True)
    catalog.drop_table("x.moved")
    hive.oracle.call("catalog", java, "drop", "x.renamed")
    assert sorted(tmp_path.rglob("*")) == files
    # What lies there is entered again: by a definition without columns, or by one that agrees with it.
    catalog.create_table("x.again", {"options": {"path": str(tmp_path / "java")}})
    with pytest.raises(AlreadyExistsError, match="other columns or keys"):
        catalog.create_table("x.other", at(tmp_path / "ours"))
    agreeing = at(f"{tmp_path}/ours/", bucket="1")
    agreeing["columns"] = [*KEYED["columns"], "n INT"]
    with pytest.raises(AlreadyExistsError, match="format=None, not orc"):
        catalog.create_table(
            "x.other", {**agreeing, "options": {**agreeing["options"], "file.format": "orc"}}
        )
    catalog.create_table("x.other", agreeing)
    catalog.repair_table("x.other")
    for name in ("x.again", "x.other"):
        orphan = Path(
            catalog.load_table(name).path, "bucket-0", "data-11111111-2222-3333-4444-555555555555-0.parquet"
        )
        orphan.write_bytes(b"x")
        os.utime(orphan, (1_600_000_000, 1_600_000_000))
        report = remove_orphan_files.run(remove_orphan_files.Job(table=name), catalog)
        assert not orphan.exists(), report
        assert rows_of(catalog.load_table(name)) == [(1, "v1", None), (2, "v2", None)]
        assert len(hive.oracle.read(java, name)) == 2
    catalog.drop_database("x", cascade=True, purge=True)
    assert sorted(tmp_path.rglob("*")) == files
    catalog.close()


def test_places_that_do_not_do(hive: HiveServer, tmp_path: Path) -> None:
    root = tmp_path / "root"
    catalog = opened(hive, **{"external-roots": f"{root},{hive.warehouse.parent}"})
    catalog.create_database("y")
    catalog.create_database("z", properties={"location": str(root / "z")})
    catalog.create_table("y.managed", KEYED)
    catalog.create_table("y.t", at(root / "t"))
    load_catalog(root / "lone", create_warehouse=True).create_table("d.s", KEYED)
    (root / "full").mkdir()
    (root / "full" / "notes.txt").write_text("mine")
    before = sorted(tmp_path.rglob("*")), sorted(hive.warehouse.rglob("*"))
    refused = [
        (root / "t", "table 'y.t' is at"),
        (root / "t" / "bucket-0", "table 'y.t' is at"),
        (root / "lone" / "d.db" / "s" / "bucket-0", "the table at .* has this directory"),
        (root / "z" / "w", "database 'z' is at"),
        (hive.warehouse / "y.db" / "w", "the warehouse is at"),
        (hive.warehouse / "y.db" / "managed", "the warehouse is at"),
        (hive.warehouse.parent, "the warehouse is at"),
        (hive.warehouse / ".lakecore" / "w", "lakecore's own|the warehouse is at"),
        (root, "'z' is at|'y.t' is at"),
        (root / "full", "has 'notes.txt' but no table"),
        (root / "lone", "has 'd.db' but no table"),
        (tmp_path / "elsewhere", "external-roots"),
        (f"{root}/../elsewhere", "without . and .."),
        (f"{root}/a/./b", "without . and .."),
        (f"{root}//b", "without . and .."),
        ("root/w", "an absolute path"),
        ("", "an absolute path"),
    ]
    for path, text in refused:
        with pytest.raises((InvalidOptionError, CorruptDataError), match=text):
            catalog.create_table("y.w", at(path))
        assert catalog.list_tables("y") == ["managed", "t"]
    with pytest.raises(UnsupportedError, match="another storage"):
        catalog.create_table("y.w", at("s3://bucket/w"))
    with pytest.raises(InvalidInputError, match="the definition needs columns"):
        catalog.create_table("y.w", {"options": {"path": str(root / "w")}})
    with pytest.raises(AlreadyExistsError):
        catalog.create_table("y.managed", at(root / "w"))
    assert (sorted(tmp_path.rglob("*")), sorted(hive.warehouse.rglob("*"))) == before
    assert catalog.create_table("y.w", at(f"{root}/w/")).path == str(root / "w")
    emptied(catalog)
    catalog.close()
    shutil.rmtree(root)


@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
def test_a_server_has_the_same_external_tables_of_both(
    oracles: dict[str, Oracle], tmp_path: Path, version: str
) -> None:
    oracle, lake, out = oracles[version], tmp_path / "lake", tmp_path / "out"
    lake.mkdir()
    options = {
        "metastore": "rest",
        "uri": rest_server(version, str(lake)),
        "token.provider": "bear",
        "token": TOKEN,
    }
    catalog = load_catalog("lake", **options, **{"lakecore.service-location": str(tmp_path / "service")})
    named = {"warehouse": "lake", **options}
    java = "|".join([str(lake), *(f"{key}={value}" for key, value in named.items())])
    catalog.create_database("d")
    ours = catalog.create_table("d.ours", at(out / "ours"))
    # Java needs a schema at the path, which neither its client nor this server publishes.
    load_catalog(out, create_warehouse=True).create_table("f.java", KEYED)
    oracle.call("catalog", java, "create", "d.java", json.dumps(at(out / "f.db" / "java")))
    assert ours.path == str(out / "ours")
    for name in ("d.ours", "d.java"):
        oracle.write(java, name, [{"k": 1, "v": "v1"}])
        catalog.load_table(name).upsert(row(2))
        compact.run(compact.Job(table=name, strategy=compact.Strategy.FULL), catalog)
        assert rows_of(catalog.load_table(name)) == [(1, "v1"), (2, "v2")]
        assert len(oracle.read(java, name)) == 2
    catalog.rename_table("d.ours", "d.renamed")
    assert catalog.load_table("d.renamed").path == str(out / "ours")
    files = sorted(out.rglob("*"))
    with pytest.raises(UnsupportedError, match="is external"):
        catalog.drop_table("d.java", purge=True)
    catalog.drop_table("d.java")
    oracle.call("catalog", java, "drop", "d.renamed")
    assert sorted(out.rglob("*")) == files
    assert catalog.list_tables("d") == []
    for path, text in (
        (out / "ours" / "bucket-0", "the table at .* has this directory"),
        (out, "has '.*' but no table"),
        (f"{out}/../x", "without . and .."),
    ):
        with pytest.raises(InvalidOptionError, match=text):
            catalog.create_table("d.w", at(path))
    with pytest.raises(InvalidInputError, match="the definition needs columns"):
        catalog.create_table("d.w", {"options": {"path": str(out / "none")}})
    assert not (out / "none").exists()
    catalog.create_table("d.again", {"options": {"path": str(out / "ours")}})
    oracle.call("catalog", java, "create", "d.too", json.dumps(at(out / "f.db" / "java")))
    for name in ("d.again", "d.too"):
        assert rows_of(catalog.load_table(name)) == [(1, "v1"), (2, "v2")]
        assert len(oracle.read(java, name)) == 2
    catalog.drop_database("d", cascade=True, purge=True)
    assert sorted(out.rglob("*")) == files
    catalog.close()
