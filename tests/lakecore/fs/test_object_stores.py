"""Azure and Google Cloud Storage differ from other stores in locations, credentials and doubtful answers."""

from __future__ import annotations

import http.server
import json
import pickle
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.catalog_options import check_catalog_options
from lakecore.errors import (
    CommitUncertainError,
    InvalidInputError,
    InvalidOptionError,
    LakeError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
    is_secret,
)
from lakecore.fs.publish import publish_resolved
from lakecore.fs.resolve import file_io_for, plain_path
from lakecore.fs.stores import object_store, registry
from lakecore.fs.stores.azure import AzureConnection, credentials
from lakecore.fs.stores.gcs import GcsConnection
from lakecore.fs.stores.object_store import ObjectStoreFileIO
from lakecore.fs.stores.store import Store, bucket_path
from tests.support.azurite import Azurite, azurite
from tests.support.fake_clock import FakeClock

ROOT = "abfs://lake@shop.dfs.core.windows.net"
KEY = "fs.azure.account.key"
OAUTH = "fs.azure.account.oauth2.client"
SECRET = "aHVudGVyMg=="


@pytest.fixture(scope="module")
def azure() -> Iterator[Azurite]:
    with azurite() as server:
        yield server


@contextmanager
def answering(status: int, code: str, after: int = 0, then: int = 201) -> Iterator[tuple[str, list[str]]]:
    """A service that answers so, and with `then` from the request number `after` on (0: never)."""
    seen: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            seen.append(self.path)
            body = f"<Error><Code>{code}</Code></Error>".encode() if code else b""
            self.send_response(then if 0 < after <= len(seen) else status)
            self.send_header("ETag", "x")
            self.send_header("Last-Modified", "Tue, 24 Nov 2026 12:00:00 GMT")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", seen
        server.shutdown()


def storage_at(address: str) -> ObjectStoreFileIO:
    options = {"lakecore.azure.endpoint": address, "fs.azure.sas.fixed.token": f"sv=1&sig={SECRET}"}
    return ObjectStoreFileIO(AzureConnection.from_options(options))


@pytest.mark.parametrize(
    ("location", "path"),
    [
        (f"{ROOT}/a/", f"{ROOT}/a"),
        ("abfss://lake@shop.dfs.core.windows.net//a//b", f"{ROOT}/a/b"),
        ("wasbs://lake@SHOP.blob.core.windows.net/dt=a%2Fb", f"{ROOT}/dt=a%2Fb"),
        ("WASB://lake@shop.blob.core.chinacloudapi.cn", "abfs://lake@shop.dfs.core.chinacloudapi.cn"),
        ("gs://bucket//a/", "gs://bucket/a"),
    ],
)
def test_plain_path(location: str, path: str) -> None:
    assert plain_path(location) == path
    assert plain_path(path) == path


@pytest.mark.parametrize(
    "location",
    [
        "abfs:///a",
        "abfs://lake/a",
        "abfs://lake@evil.example/a",
        "abfs://La@shop.dfs.core.windows.net",
        "gs://",
    ],
)
def test_locations_that_name_no_container_or_bucket(location: str) -> None:
    with pytest.raises(InvalidInputError, match="write "):
        plain_path(location)


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({}, {}),
        ({KEY: SECRET}, {"account_key": SECRET}),
        ({KEY: "x", f"{KEY}.shop.blob.core.windows.net": SECRET}, {"account_key": SECRET}),
        ({KEY: SECRET, f"{KEY}.other.dfs.core.windows.net": "x"}, {"account_key": SECRET}),
        ({"fs.azure.sas.fixed.token": SECRET}, {"sas_key": SECRET}),
        (
            {
                "fs.azure.account.auth.type": "OAuth",
                "fs.azure.account.oauth.provider.type": "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider",
                f"{OAUTH}.id": "me",
                f"{OAUTH}.secret": SECRET,
                f"{OAUTH}.endpoint": "https://login.microsoftonline.com/tenant/oauth2/token",
            },
            {
                "client_id": "me",
                "client_secret": SECRET,
                "tenant_id": "tenant",
                "authority_host": "https://login.microsoftonline.com",
            },
        ),
        (
            {
                "fs.azure.account.auth.type": "OAuth",
                "fs.azure.account.oauth.provider.type": "MsiTokenProvider",
            },
            {},
        ),
    ],
)
def test_azure_credentials(options: dict[str, str], settings: dict[str, str]) -> None:
    found = credentials(options, "shop")
    assert {key: value for key, value in found.items() if key != "credential_type"} == settings
    check_catalog_options(options)
    assert all(is_secret(key) for key, value in options.items() if value == SECRET)
    storage = file_io_for(ROOT, options)
    assert SECRET not in repr(storage)
    assert pickle.loads(pickle.dumps(storage)) == storage


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"fs.azure.account.auth.type.shop.dfs.core.windows.net": "Custom"}, UnsupportedError),
        ({"fs.azure.account.auth.type.shop.dfs.core.windows.net": "SharedKey"}, InvalidOptionError),
        ({"fs.azure.account.auth.type": "Custom"}, UnsupportedError),
        ({"fs.azure.account.auth.type": "SAS"}, InvalidOptionError),
        ({"fs.gs.auth.type": "ACCESS_TOKEN_PROVIDER"}, UnsupportedError),
        ({"fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE"}, InvalidOptionError),
        ({"fs.gs.auth.service.account.json.keyfile": "/k.json"}, InvalidOptionError),
    ],
)
def test_credentials_that_cannot_work_are_refused(options: dict[str, str], error: type[Exception]) -> None:
    with pytest.raises(error, match=r"auth\.type"):
        file_io_for(ROOT if "azure" in next(iter(options)) else "gs://bucket", options)


@pytest.mark.parametrize(
    "key", ["fs.azure.account.keyy", f"{KEY}.shop.evil.example", "fs.gs.project.id", "fs.azure.enable.flush"]
)
def test_options_without_effect_are_refused(key: str) -> None:
    with pytest.raises(InvalidOptionError, match="would have no effect"):
        check_catalog_options({key: "x"})


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (409, "BlobAlreadyExists", False),
        (412, "ConditionNotMet", False),
        (409, "BlobImmutableDueToPolicy", CommitUncertainError),
        (404, "ContainerNotFound", NotFoundError),
        (403, "AuthenticationFailed", UnavailableError),
        (400, "InvalidHeaderValue", UnavailableError),
        (429, "", CommitUncertainError),
        (500, "InternalError", CommitUncertainError),
        (503, "ServerBusy", CommitUncertainError),
    ],
)
def test_answers_to_a_conditional_put(
    status: int, code: str, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakecore.fs.stores.client.RETRIES", {"max_retries": 0})
    with answering(status, code) as (address, _):
        if expected is False:
            assert not storage_at(address).publish(f"{ROOT}/snapshot-1", b"1")
            return
        with pytest.raises(expected, match="snapshot-1") as caught:
            storage_at(address).publish(f"{ROOT}/snapshot-1", b"1")
    shown = "".join(traceback.format_exception(caught.value))
    assert "sig" not in shown
    assert SECRET not in shown


def test_busy_services_are_asked_again() -> None:
    with answering(503, "ServerBusy", after=3) as (address, seen):
        assert storage_at(address).publish(f"{ROOT}/snapshot-1", b"1")
    assert len(seen) == 3


def test_a_name_that_is_taken_at_the_second_request_is_read_back() -> None:
    """The first request may have made the object."""
    with answering(503, "ServerBusy", after=2, then=409) as (address, seen):
        with pytest.raises(CommitUncertainError, match="409 Conflict"):
            storage_at(address).publish(f"{ROOT}/snapshot-1", b"1")
        assert len(seen) == 2


def test_a_service_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakecore.fs.stores.client.RETRIES", {"max_retries": 0})
    with pytest.raises(CommitUncertainError) as caught:
        storage_at("http://127.0.0.1:1").publish(f"{ROOT}/snapshot-1", b"1")
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"private_key": "hush"}', "missing field"),
        (json.dumps('"hush' * 50), r"invalid type: string \*\*\*\*; check"),
    ],
)
def test_a_key_file_of_something_else_is_refused_and_not_shown(
    tmp_path: Path, text: str, problem: str
) -> None:
    file = tmp_path / "key.json"
    kind = {"fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE"}
    storage = file_io_for("gs://lake", {**kind, "fs.gs.auth.service.account.json.keyfile": str(file)})
    with pytest.raises(InvalidOptionError, match=f"cannot open gs://lake: .*{file}: No such file"):
        storage.read("gs://lake/x")
    file.write_text(text)
    with pytest.raises(InvalidOptionError, match=problem) as caught:
        storage.read("gs://lake/x")
    assert "hush" not in "".join(traceback.format_exception(caught.value))


def test_a_repeated_put_that_finds_its_own_object_is_read_back(azure: Azurite) -> None:
    storage = file_io_for(azure.root, azure.options)
    path = f"{azure.root}/settled/snapshot-1"
    storage.write_new(path, b"ours")
    assert publish_resolved(storage, path, b"ours", FakeClock())
    assert not publish_resolved(storage, path, b"theirs", FakeClock())


def test_directories_of_other_programs(azure: Azurite) -> None:
    """Hadoop's drivers and accounts with a hierarchical namespace have empty blobs with a property for them."""
    import obstore

    storage = file_io_for(azure.root, azure.options)
    assert isinstance(storage, ObjectStoreFileIO)
    client, key = storage._client(f"{azure.root}/foreign/folder")
    obstore.put(client, key, b"", attributes={"hdi_isfolder": "true"})
    storage.write_new(f"{azure.root}/foreign/empty-file", b"")
    assert [(one.name, one.is_dir) for one in storage.list(f"{azure.root}/foreign")] == [
        ("empty-file", False),
        ("folder", True),
    ]
    found = storage.stat(f"{azure.root}/foreign/folder")
    assert found is not None
    assert found.is_dir
    assert not storage.make_directory(f"{azure.root}/foreign/folder")
    storage.remove_directory(f"{azure.root}/foreign/folder")
    assert [one.name for one in storage.list(f"{azure.root}/foreign")] == ["empty-file"]


def test_an_object_beside_a_directory_of_its_name_is_listed(azure: Azurite) -> None:
    storage = file_io_for(azure.root, azure.options)
    storage.write_new(f"{azure.root}/beside/x", b"1")
    storage.write_new(f"{azure.root}/beside/x/y", b"2")
    listed = [(one.name, one.is_dir) for one in storage.list(f"{azure.root}/beside/")]
    assert sorted(listed) == [("x", False), ("x", True)]


def test_a_copy_that_is_not_complete_keeps_the_original(
    azure: Azurite, monkeypatch: pytest.MonkeyPatch
) -> None:
    import obstore

    monkeypatch.setattr(object_store, "_COPY_WAITS", (0,))
    monkeypatch.setattr(
        obstore, "copy", lambda client, key, other, overwrite: obstore.put(client, other, b"")
    )
    storage = file_io_for(azure.root, azure.options)
    storage.write_new(f"{azure.root}/copied/a", b"abc")
    with pytest.raises(CommitUncertainError, match="original was kept"):
        storage.move(f"{azure.root}/copied/a", f"{azure.root}/copied/b")
    assert storage.read(f"{azure.root}/copied/a") == b"abc"


def test_a_container_that_does_not_exist(azure: Azurite) -> None:
    storage = file_io_for(azure.root, azure.options)
    other = azure.root.replace("lake@", "nowhere@")
    with pytest.raises(NotFoundError, match="container or bucket does not exist"):
        storage.read(f"{other}/x")
    with pytest.raises(InvalidInputError, match="not a path of the store abfs://"):
        storage.read("gs://bucket/x")
    with pytest.raises(UnavailableError, match="another container"):
        storage.move(f"{azure.root}/x", f"{other}/x")


def test_other_packages_register_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("cloudy", f"{__name__}:CLOUDY", "lakecore.stores")
    broken = EntryPoint("broken", "lakecore.nowhere:STORE", "lakecore.stores")
    monkeypatch.setattr(registry, "_others", lambda: {"cloudy": entry, "broken": broken})
    monkeypatch.setattr(EntryPoint, "load", lambda self: CLOUDY if self.name == "cloudy" else _missing())
    assert plain_path("CLOUDY://b//x") == "cloudy://b/x"
    assert isinstance(file_io_for("cloudy://b/x", {}), ObjectStoreFileIO)
    check_catalog_options({"cloudy.key": "x"})
    with pytest.raises(InvalidInputError, match="cannot be imported"):
        plain_path("broken://b/x")
    with pytest.raises(UnsupportedError, match=r"'nosuch'.*gs://.*broken://, cloudy://"):
        plain_path("nosuch://b/x")


def _missing() -> None:
    raise ImportError("No module named 'lakecore.nowhere'")


CLOUDY = Store(
    schemes=("cloudy",),
    example="cloudy://bucket/path",
    plain=lambda scheme, rest: bucket_path(scheme, rest, "cloudy://bucket/path"),
    open=lambda options: ObjectStoreFileIO(GcsConnection()),
    accepts=lambda key: key.startswith("cloudy."),
)


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "obstore.store", None)
    for path, extra in ((ROOT, "azure"), ("gs://bucket", "gcs")):
        with pytest.raises(LakeError, match=rf"lakecore\[{extra}\]"):
            file_io_for(path, {}).stat(f"{path}/x")
