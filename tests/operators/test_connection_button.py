"""The Test button of a connection, with real servers of each catalog and the emulators of each store: it works where all is right, and
else names what is wrong and what to do. No password, key or token is in what it says, in the logs, or in the repr of the catalog.
"""

from __future__ import annotations

import json
import logging
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import boto3
import pytest

from lakecore_airflow.hooks import LakeHook
from lakecore_airflow.operators.compact import CompactTableOperator
from tests.operators.conftest import context
from tests.support import mariadb, postgres
from tests.support.azurite import KEY, azurite
from tests.support.gcs_server import gcs_server
from tests.support.hdfs_cluster import HdfsCluster
from tests.support.hive_metastore import hive_server
from tests.support.oss_server import oss_server
from tests.support.rest_server import TOKEN, rest_server
from tests.support.s3_server import S3Server, s3_server
from tests.support.sql_servers import SqlServers

pytestmark = pytest.mark.slow

NOBODY = "127.0.0.1:1"
"""Nobody listens there."""
KEYS = ("s3.access-key", "s3.secret-key")
WRONG = "hush-this-is-wrong"
SECRETS = ("hush", TOKEN, KEY, "aHVzaC1vZi1henVyZQ")
UNREACHABLE = "the service did not answer (HTTP error: error sending request); check its address"
NO_BUCKET = "the container or bucket does not exist"
FORBIDDEN = "403 Forbidden; check the credentials and the rights of this user"


@dataclass(frozen=True)
class Button:
    """The Test button of a connection. It looks for secrets in all that is said."""

    patch: pytest.MonkeyPatch
    log: pytest.LogCaptureFixture

    def connect(self, host: object, options: Mapping[str, str]) -> LakeHook:
        """Without any field of its own a store or catalog has its options among the further ones."""
        extra = {"catalog_options": json.dumps(options)}
        connection = {"conn_type": "lakecore", "host": str(host), "extra": extra}
        self.patch.setenv("AIRFLOW_CONN_LAKE_TEST", json.dumps(connection))
        return LakeHook("lake_test")

    def press(self, host: object, options: Mapping[str, str]) -> tuple[bool, str]:
        with self.log.at_level(logging.DEBUG):
            works, text = self.connect(host, options).test_connection()
        self.look_for_secrets(text)
        assert "\n" not in text
        return works, text

    def look_for_secrets(self, said: str) -> None:
        for secret in SECRETS:
            assert secret not in said + self.log.text

    def works(self, host: object, options: Mapping[str, str], database: str = "d") -> None:
        """It works, for a warehouse without and with databases; a task does, too, and says no secret."""
        works, text = self.press(host, options)
        assert works, text
        assert text.startswith(f"{host} is reachable: ")
        assert "only be read" not in text
        catalog = self.connect(host, options).catalog()
        self.look_for_secrets(repr(catalog) + str(catalog))
        catalog.create_database(database)
        catalog.create_table(f"{database}.t", {"columns": ["v INT"]})
        catalog.close()
        task = CompactTableOperator(task_id="c", table=f"{database}.t", lake_conn_id="lake_test")
        with self.log.at_level(logging.INFO):
            task.render_template_fields(context())
            self.look_for_secrets(json.dumps(task.execute(context())))
        assert "database(s)" in self.press(host, options)[1]

    def fails(self, host: object, options: Mapping[str, str], sentence: str) -> None:
        works, text = self.press(host, options)
        assert (works, sentence in text) == (False, True), text


@pytest.fixture
def button(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Button:
    return Button(monkeypatch, caplog)


@pytest.fixture(scope="module")
def servers() -> Iterator[SqlServers]:
    with ExitStack() as running:
        yield SqlServers(running)


def names_in(path: Path) -> dict[str, str]:
    return {"metastore": "jdbc", "uri": f"jdbc:sqlite:{path}", "lock.enabled": "true"}


def test_a_directory(button: Button, tmp_path: Path) -> None:
    button.works(tmp_path, {})
    button.fails(
        tmp_path / "none", {}, f"{tmp_path}/none does not exist; check the path or create the directory"
    )
    (tmp_path / "file").write_text("")
    button.fails(tmp_path / "file", {}, f"{tmp_path}/file is a file; give the directory that holds databases")


def test_sqlite(button: Button, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    button.works(lake, names_in(tmp_path / "names.db"))
    button.fails(tmp_path / "none", names_in(tmp_path / "names.db"), "none does not exist; check the path")
    button.fails(lake, names_in(tmp_path / "none" / "names.db"), "unable to open database file")
    (tmp_path / "text").write_text("this is no database" * 100)
    button.fails(lake, names_in(tmp_path / "text"), "file is not a database")


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_servers_of_databases(button: Button, tmp_path: Path, servers: SqlServers, kind: str) -> None:
    is_postgres = kind == "postgresql"
    server = servers.postgres if is_postgres else servers.mariadb
    password = postgres.PASSWORD if is_postgres else mariadb.PASSWORD
    uri = server.fresh("button")
    good = {"metastore": "jdbc", "uri": uri, "jdbc.user": "lake", "jdbc.password": password}
    button.works(tmp_path, good)
    place = uri.removeprefix(f"jdbc:{kind}://")
    refused = "authentication failed" if is_postgres else "Access denied"
    no_database = "does not exist" if is_postgres else "Unknown database"
    for change, sentence in (
        ({"jdbc.password": WRONG}, refused),
        ({"jdbc.user": "nobody"}, refused),
        ({"uri": f"{uri}?user=nobody&password={WRONG}", "jdbc.user": "", "jdbc.password": ""}, ""),
        ({"uri": f"{uri}none"}, no_database),
        ({"uri": f"jdbc:{kind}://{NOBODY}/button"}, "refused"),
    ):
        button.fails(tmp_path, good | change, sentence)
    assert (
        f"the database {kind} {place} refused" in button.press(tmp_path, good | {"jdbc.password": WRONG})[1]
    )
    button.fails(tmp_path / "none", good, "none does not exist; check the path")


@contextmanager
def with_rights(server: S3Server) -> Iterator[dict[str, str]]:
    """Let moto look at keys and signatures within the block, and yield the options of somebody with all rights."""
    clients = {"endpoint_url": server.options["s3.endpoint"], "region_name": "us-east-1"}
    people = boto3.client("iam", aws_access_key_id="test", aws_secret_access_key="test", **clients)
    people.create_user(UserName="lake")
    every = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    people.put_user_policy(UserName="lake", PolicyName="all", PolicyDocument=json.dumps(every))
    key = people.create_access_key(UserName="lake")["AccessKey"]
    _unchecked_requests(server, b"0")
    try:
        yield dict(zip(KEYS, (key["AccessKeyId"], key["SecretAccessKey"]), strict=True))
    finally:
        _unchecked_requests(server, b"inf")  # all servers of the process share this


def _unchecked_requests(server: S3Server, count: bytes) -> None:
    address = f"{server.options['s3.endpoint']}/moto-api/reset-auth"
    request = urllib.request.Request(
        address, data=count, headers={"Content-Type": "text/plain"}, method="POST"
    )
    urllib.request.urlopen(request).close()


def test_s3(button: Button, tmp_path: Path) -> None:
    names = names_in(tmp_path / "names.db")
    with s3_server() as server, with_rights(server) as keys:
        good = {**server.options, **keys}
        for number, catalog in enumerate(({}, names)):
            host = f"{server.root}/wh{number}"
            button.works(host, {**good, **catalog})
            wrong = {**good, **catalog}
            button.fails(host, {**wrong, KEYS[1]: WRONG}, FORBIDDEN)
            button.fails(host, {**wrong, KEYS[0]: "AKIAIOSFODNN7EXAMPLE"}, FORBIDDEN)
            button.fails(f"s3://none-{number}/wh", wrong, NO_BUCKET)
            button.fails(host, {**wrong, "s3.endpoint": f"http://{NOBODY}"}, UNREACHABLE)


def test_oss(button: Button) -> None:
    secret = {"fs.oss.accessKeySecret": "hush-of-oss"}  # moto accepts every one
    with oss_server() as server:
        button.works(f"{server.root}/oss", {**server.options, **secret})
        button.fails("oss://none/wh", {**server.options, **secret}, NO_BUCKET)
        button.fails(
            f"{server.root}/oss", {**server.options, "fs.oss.endpoint": f"http://{NOBODY}"}, UNREACHABLE
        )
        one_reader = {**server.options, "lakecore.oss.single-writer": "false"}
        works, text = button.press(f"{server.root}/oss", one_reader)
        assert (works, "it can only be read" in text) == (True, True)


def test_azure(button: Button) -> None:
    with azurite() as server:
        [key] = [name for name in server.options if "account.key" in name]
        button.works(f"{server.root}/wh", server.options)
        elsewhere = {"lakecore.azure.endpoint": f"http://{NOBODY}/devstoreaccount1"}
        for change, sentence in (
            ({key: "aHVzaC1vZi1henVyZQ=="}, FORBIDDEN),
            (
                {key: WRONG},
                "Invalid Access Key: Invalid symbol 45, offset 4.; check the options with the credentials",
            ),
            (elsewhere, UNREACHABLE),
        ):
            button.fails(f"{server.root}/wh", {**server.options, **change}, sentence)
        button.fails(server.root.replace("lake@", "none@"), server.options, NO_BUCKET)


def test_google(button: Button, tmp_path: Path) -> None:
    with gcs_server() as server:
        button.works(f"{server.root}/google", server.options)
        button.fails("gs://none/wh", server.options, NO_BUCKET)
        elsewhere = {"fs.gs.storage.root.url": f"http://{NOBODY}"}
        button.fails(f"{server.root}/google", {**server.options, **elsewhere}, UNREACHABLE)
        file = tmp_path / "key.json"
        with_key = {
            **server.options,
            "fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
            "fs.gs.auth.service.account.json.keyfile": str(file),
        }
        button.fails(f"{server.root}/google", with_key, f"{file}: No such file or directory")
        for text, sentence in (
            (json.dumps({"private_key": WRONG}), "missing field"),
            (json.dumps(f'"{WRONG}' * 50), "****"),
            (
                json.dumps(dict.fromkeys(("client_email", "private_key", "private_key_id"), WRONG)),
                "cannot open",
            ),
        ):
            file.write_text(text)
            button.fails(f"{server.root}/google", with_key, sentence)


def test_hdfs(button: Button, hdfs: HdfsCluster) -> None:
    button.works(f"{hdfs.root}/button", {})
    once = {"hadoop.dfs.client.failover.max.attempts": "0"}
    button.fails(f"hdfs://{NOBODY}/lake", once, "the name node or a data node did not answer")
    with hdfs.safe_mode():
        works, text = button.press(f"{hdfs.root}/button", {})
    assert (works, "it can only be read: " in text) == (True, True)


def test_rest(button: Button, tmp_path: Path) -> None:
    address = rest_server("2.0.0", str(tmp_path))
    good = {
        "metastore": "rest",
        "uri": address,
        "token.provider": "bear",
        "token": TOKEN,
        "lakecore.service-location": f"{tmp_path}/own",
    }
    button.works(tmp_path.name, good)
    for host, change, sentence in (
        (tmp_path.name, {"token": WRONG}, "give a valid token or valid keys by the options of the catalog"),
        ("none", {}, "answered 404 (no reason is given); check the warehouse, which is a name on the server"),
        (tmp_path.name, {"uri": f"http://{NOBODY}"}, "check the option uri, and that the server runs"),
    ):
        button.fails(host, good | change, sentence)


def test_hive(button: Button, tmp_path: Path) -> None:
    with hive_server("2.0.0") as hive, s3_server() as s3:
        hive.oracle.call("catalog", hive.java(), "show")
        button.works(hive.warehouse, hive.options)
        elsewhere = {"location-in-properties": "true", **hive.options, **s3.options}
        button.works(f"{s3.root}/hive", elsewhere, "e")
        button.fails(tmp_path / "none", hive.options, "none does not exist; check the path")
        button.fails("s3://none/wh", elsewhere, NO_BUCKET)
        button.fails(
            hive.warehouse,
            {**hive.options, "uri": f"thrift://{NOBODY}"},
            "check the option uri, and whether the metastore runs",
        )
