"""Each catalog and each store of the examples of docs/catalogs.md and docs/stores.md is opened as the page says, by a server of the tests
in the place of the address of the page; a table there is created, written and read.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest

from lakecore.catalog.configured.catalogs import Catalogs
from lakecore.catalog.registry import load_catalog
from tests.support.azurite import ACCOUNT, KEY, azurite
from tests.support.file_servers import sftp_server
from tests.support.gcs_server import gcs_server
from tests.support.hdfs_cluster import HdfsCluster
from tests.support.hive_metastore import HiveServer, emptied, opened
from tests.support.lake import rows_of
from tests.support.oss_server import cosn_server, obs_server, oss_server
from tests.support.postgres import PASSWORD
from tests.support.rest_server import TOKEN, rest_server
from tests.support.s3_server import s3_server
from tests.support.sql_servers import SqlServers

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = {
    f"{page}.{name}": text
    for page in ("catalogs", "stores")
    for block in re.findall(r"```toml\n(.*?)```", (DOCS / f"{page}.md").read_text(), re.DOTALL)
    for name, text in re.findall(r"^(?=\[catalogs\.(\w+)\])(.*?)(?=^\[|\Z)", block, re.DOTALL | re.MULTILINE)
}
"""The sections of catalogs, by page and name."""
DEFINITION = {"columns": ["k INT NOT NULL", "v STRING"], "primaryKeys": ["k"], "options": {"bucket": "1"}}


@contextmanager
def example(
    tmp_path: Path, name: str, places: Mapping[str, str], environ: Mapping[str, str], **more: str
) -> Iterator[Any]:
    """Open the catalog of an example. Each text of `places` that the page has is replaced; `more` are further options, by their keys."""
    text = EXAMPLES[name]
    for written, real in places.items():
        assert written in text, f"{name} has no {written} any more"
        text = text.replace(written, real)
    file = tmp_path / "lakecore.toml"
    file.write_text(
        text + "".join(f"{json.dumps(key)} = {json.dumps(value)}\n" for key, value in more.items())
    )
    with closing(Catalogs({"LAKECORE_CONFIG": str(file), **environ})) as catalogs:
        catalog = catalogs.catalog(name.partition(".")[2])
        said = repr(catalog) + str(catalog)
        assert not any(value in said for value in environ.values())
        yield catalog


def used(catalog: Any) -> str:
    """Create a table, write and read it, and return its name; the emulators of a process share their buckets."""
    database = f"shop_{uuid.uuid4().hex}"
    catalog.create_database(database)
    table = catalog.create_table(f"{database}.orders", DEFINITION)
    table.upsert(pa.table({"k": pa.array([1, 2], pa.int32()), "v": ["a", "b"]}))
    assert rows_of(catalog.load_table(table.name)) == [(1, "a"), (2, "b")]
    return table.name


def test_all_examples_are_here() -> None:
    catalogs = ("names", "prod", "lake")
    stores = ("lake", "azure", "google", "hangzhou", "beijing", "guiyang", "hadoop", "archive")
    assert set(EXAMPLES) == {f"catalogs.{name}" for name in catalogs} | {f"stores.{name}" for name in stores}


def test_jdbc(tmp_path: Path, servers: SqlServers) -> None:
    (tmp_path / "lake").mkdir()
    places = {
        "/lake/warehouse": f"{tmp_path}/lake",
        "jdbc:postgresql://db.example:5432/paimon": servers.postgres.fresh("paimon"),
    }
    environ = {"LAKECORE_CATALOG__NAMES__JDBC__PASSWORD": PASSWORD}
    with example(tmp_path, "catalogs.names", places, environ) as catalog:
        used(catalog)


def test_hive(tmp_path: Path, hive: HiveServer) -> None:
    emptied(opened(hive))
    with s3_server() as s3:
        places = {"thrift://meta1:9083,thrift://meta2:9083": f"thrift://127.0.0.1:1,{hive.uri}"}
        more = {**s3.options, "location-in-properties": "true"}  # the metastore has no client of S3
        with example(tmp_path, "catalogs.prod", places, {}, **more) as catalog:
            used(catalog)
    emptied(opened(hive))


def test_rest(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    places = {
        "https://catalog.example:8080": rest_server("2.0.0", str(lake)),
        "/lake/lakecore": f"{tmp_path}/own",
    }
    with example(tmp_path, "catalogs.lake", places, {"LAKECORE_CATALOG__LAKE__TOKEN": TOKEN}) as catalog:
        used(catalog)


def test_s3(tmp_path: Path) -> None:
    with s3_server() as server:
        places = {"http://minio:9000": server.options["s3.endpoint"]}
        environ = {"LAKE_KEY": "hush-key", "LAKE_SECRET": "hush-secret"}
        with example(tmp_path, "stores.lake", places, environ) as catalog:
            used(catalog)


def test_azure(tmp_path: Path) -> None:
    with azurite() as server:
        places = {"shop.dfs": f"{ACCOUNT}.dfs"}
        more = {"lakecore.azure.endpoint": server.options["lakecore.azure.endpoint"]}
        with example(tmp_path, "stores.azure", places, {"SHOP_KEY": KEY}, **more) as catalog:
            used(catalog)


def test_google(tmp_path: Path) -> None:
    file = tmp_path / "service-account.json"
    key = {"client_email": "", "private_key": "hush-key", "private_key_id": "", "disable_oauth": True}
    file.write_text(json.dumps(key))
    with gcs_server() as server:
        places = {"/etc/lakecore/service-account.json": str(file)}
        more = {"fs.gs.storage.root.url": server.options["fs.gs.storage.root.url"]}
        with example(tmp_path, "stores.google", places, {}, **more) as catalog:
            used(catalog)


def test_oss(tmp_path: Path) -> None:
    with oss_server() as server:
        places = {"oss-cn-hangzhou.aliyuncs.com": server.options["fs.oss.endpoint"]}
        environ = {"OSS_KEY_ID": "hush-key", "OSS_KEY_SECRET": "hush-secret"}
        more = {"lakecore.oss.single-writer": "true"}
        with example(tmp_path, "stores.hangzhou", places, environ, **more) as catalog:
            used(catalog)


def test_cos(tmp_path: Path) -> None:
    with cosn_server() as server:
        address = server.options["fs.cosn.bucket.endpoint_suffix"]
        keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
        boto3.client("s3", endpoint_url=address, **keys).create_bucket(Bucket="lake-1250000000")
        more = {"fs.cosn.bucket.endpoint_suffix": address, "lakecore.cosn.single-writer": "true"}
        environ = {"COS_ID": "hush-key", "COS_KEY": "hush-secret"}
        with example(tmp_path, "stores.beijing", {}, environ, **more) as catalog:
            used(catalog)


def test_obs(tmp_path: Path) -> None:
    with obs_server() as server:
        places = {"obs.cn-southwest-2.myhuaweicloud.com": server.options["fs.obs.endpoint"]}
        environ = {"OBS_KEY_ID": "hush-key", "OBS_KEY_SECRET": "hush-secret"}
        more = {"lakecore.obs.single-writer": "true"}
        with example(tmp_path, "stores.guiyang", places, environ, **more) as catalog:
            used(catalog)


def test_hdfs(tmp_path: Path, hdfs: HdfsCluster) -> None:
    properties = {
        "dfs.ha.namenodes.prod": "one",
        "dfs.namenode.rpc-address.prod.one": f"127.0.0.1:{hdfs.port}",
        **hdfs.options,
    }
    entries = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in properties.items()
    )
    (tmp_path / "hdfs-site.xml").write_text(f"<configuration>{entries}</configuration>")
    with example(tmp_path, "stores.hadoop", {"/etc/hadoop/conf": str(tmp_path)}, {}) as catalog:
        used(catalog)


def test_a_file_system_of_fsspec(tmp_path: Path) -> None:
    lake = tmp_path / "files" / "warehouse"
    name = used(load_catalog(lake, create_warehouse=True))
    with sftp_server(tmp_path / "files") as server:
        places = {"files.example.com": f"127.0.0.1:{server.port}"}
        with example(tmp_path, "stores.archive", places, {"ARCHIVE_PASSWORD": server.password}) as catalog:
            assert rows_of(catalog.load_table(name)) == [(1, "a"), (2, "b")]
