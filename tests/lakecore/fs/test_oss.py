"""OSS through its S3 interface: it is read only unless one writer at a time is certain."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.errors import AlreadyExistsError, InvalidOptionError, UnsupportedError
from lakecore.fs.resolve import file_io_for, plain_path
from lakecore.fs.stores.oss import OssConnection
from tests.support.oss_server import OssServer, oss_server

ONE = pa.table({"k": pa.array([1], pa.int32())})
OPTIONS = {
    "fs.oss.endpoint": "oss-cn-hangzhou.aliyuncs.com",
    "fs.oss.accessKeyId": "me",
    "fs.oss.accessKeySecret": "hunter2",
    "fs.oss.securityToken": "hunter3",
}


@pytest.fixture(scope="module")
def server() -> Iterator[OssServer]:
    with oss_server() as started:
        yield started


def test_nothing_is_written_without_the_word_of_the_user(server: OssServer) -> None:
    lake = load_catalog(f"{server.root}/lake", **server.options)
    table = lake.create_table("d.t", {"columns": ["k INT"]})
    table.append(ONE)
    files = {one.path for one in lake.file_io.list(table.path)}
    options = {key: text for key, text in server.options.items() if key != "lakecore.oss.single-writer"}
    reader = load_catalog(f"{server.root}/lake", **options)
    assert reader.load_table("d.t").scan().to_arrow().to_pylist() == [{"k": 1}]
    for change in (
        lambda: reader.load_table("d.t").append(ONE),
        lambda: reader.create_table("d.u", {"columns": ["k INT"]}),
        lambda: reader.create_database("e"),
        lambda: reader.drop_table("d.t"),
    ):
        with pytest.raises(UnsupportedError, match=r"lakecore\.oss\.single-writer=true"):
            change()
    assert {one.path for one in lake.file_io.list(table.path)} == files
    assert lake.list_databases() == ["d"]


def test_no_request_has_a_condition(server: OssServer) -> None:
    """The server answers 501 to one. A name that is taken is found by a look before."""
    storage = file_io_for(server.root, server.options)
    assert storage.publish(f"{server.root}/x", b"1")
    assert not storage.publish(f"{server.root}/x", b"2")
    with pytest.raises(AlreadyExistsError):
        storage.write_new(f"{server.root}/x", b"2")
    assert storage.read(f"{server.root}/x") == b"1"


@pytest.mark.parametrize(
    ("endpoint", "config"),
    [
        ("oss-cn-hangzhou.aliyuncs.com", ("https://lake.s3.oss-cn-hangzhou.aliyuncs.com", "cn-hangzhou")),
        (
            "https://s3.oss-eu-central-1-internal.aliyuncs.com/",
            ("https://lake.s3.oss-eu-central-1-internal.aliyuncs.com", "eu-central-1"),
        ),
        ("http://127.0.0.1:1", ("http://127.0.0.1:1", "us-east-1")),
    ],
)
def test_the_bucket_is_in_the_host_of_alibaba(endpoint: str, config: tuple[str, str]) -> None:
    client = OssConnection.from_options({**OPTIONS, "fs.oss.endpoint": endpoint}).connect("lake")
    made: dict[str, Any] = dict(client.config)
    assert (made["endpoint"], made["region"]) == config
    assert str(made["virtual_hosted_style_request"]).lower() == str("lake." in config[0]).lower()
    assert made["token"] == "hunter3" if "token" in made else made["session_token"] == "hunter3"


def test_options_in_lower_case_are_those_of_spark() -> None:
    lower = {key.lower(): text for key, text in OPTIONS.items()}
    assert OssConnection.from_options(lower) == OssConnection.from_options(OPTIONS)


def test_secrets_are_not_shown() -> None:
    assert plain_path("oss://b//x/") == "oss://b/x"
    storage = file_io_for("oss://b", OPTIONS)
    assert "hunter" not in repr(storage)
    assert pickle.loads(pickle.dumps(storage)) == storage


@pytest.mark.parametrize("missing", list(OPTIONS)[:3])
def test_what_is_missing_is_named(missing: str) -> None:
    with pytest.raises(InvalidOptionError, match=rf"option {missing} is missing"):
        file_io_for("oss://b", {key: text for key, text in OPTIONS.items() if key != missing})
