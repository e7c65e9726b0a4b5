"""Options, hive-site.xml, types and lost connections of a Hive catalog. A real metastore judges the rest (tests/interop)."""

from __future__ import annotations

import pickle
import socket
import struct
import threading
from pathlib import Path

import pytest

from lakecore.catalog.column_text import parse_type_text as parse_type
from lakecore.catalog.hive.column_types import hive_type
from lakecore.catalog.hive.connection import MetastoreConnection
from lakecore.catalog.hive.entries import EntryRules
from lakecore.catalog.hive.locations import with_scheme_of
from lakecore.catalog.hive.options import HiveOptions, MetastoreAddress
from lakecore.catalog.hive.partition_options import check_partition_options
from lakecore.catalog.names import TableName
from lakecore.catalog.registry import load_catalog
from lakecore.catalog.remote.lost_answer import LostAnswerError
from lakecore.errors import (
    InvalidInputError,
    InvalidOptionError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from lakecore.metadata.schema import TableSchema
from lakecore.types.datatypes import DataField
from tests.support.fake_clock import FakeClock
from tests.support.silent_port import silent_port

SITE = "<configuration>{}</configuration>"
PROPERTY = "<property><name>{}</name><value>{}</value></property>"


def site(folder: Path, **properties: str) -> str:
    text = "".join(PROPERTY.format(key.replace("__", "."), value) for key, value in properties.items())
    (folder / "hive-site.xml").write_text(SITE.format(text))
    return str(folder)


def test_hive_site_has_what_the_options_do_not_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = site(
        tmp_path,
        hive__metastore__uris="thrift://a:9083, thrift://[::1]:9084",
        metastore__warehouse__dir="s3a://lake/wh",
        hive__metastore__client__socket__timeout="90s",
        javax__jdo__option__ConnectionPassword="${secret}",
    )
    monkeypatch.setenv("HIVE_CONF_DIR", folder)
    options = HiveOptions.from_options({})
    assert options.addresses == (MetastoreAddress("a", 9083), MetastoreAddress("::1", 9084))
    assert (options.warehouse, options.timeout_ms) == ("s3a://lake/wh", 90_000)
    given = {"uri": "thrift://b:1", "hive.metastore.client.socket.timeout": "7", "hive-conf-dir": folder}
    options = HiveOptions.from_options(given)
    assert (options.addresses, options.timeout_ms) == ((MetastoreAddress("b", 1),), 7_000)


@pytest.mark.parametrize(
    ("properties", "error", "text"),
    [
        ({"hive__metastore__sasl__enabled": "true"}, UnsupportedError, "sasl.enabled=true"),
        ({"hive__metastore__use__SSL": "TRUE"}, UnsupportedError, "use.SSL=true"),
        ({"hive__metastore__uris": "${host}"}, InvalidOptionError, "does not replace variables"),
        ({"a": "b"}, InvalidOptionError, "catalog option uri is missing"),
        ({"a": "</value>"}, InvalidOptionError, "no configuration of Hive"),
    ],
)
def test_a_site_file_that_does_not_do(
    tmp_path: Path, properties: dict[str, str], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        HiveOptions.from_options({"hive-conf-dir": site(tmp_path, **properties)})


def test_a_site_file_is_missing_or_declares_entities(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="correct hive-conf-dir"):
        HiveOptions.from_options({"hive-conf-dir": str(tmp_path)})
    (tmp_path / "hive-site.xml").write_text('<!DOCTYPE a [<!ENTITY b "c">]><configuration/>')
    with pytest.raises(InvalidOptionError, match="declares entities"):
        HiveOptions.from_options({"hive-conf-dir": str(tmp_path)})


@pytest.mark.parametrize(
    "uri", ["http://u:geheim@h", "thrift://h", "thrift://u:geheim@h:1", "thrift://h:99999", ","]
)
def test_an_address_that_does_not_do_is_not_shown(uri: str) -> None:
    with pytest.raises(InvalidOptionError, match="thrift://HOST:PORT") as caught:
        HiveOptions.from_options({"uri": uri})
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("key", ["hadoop-conf-loader", "metastore.client.class", "client-pool-cache.keys"])
def test_an_option_without_effect_is_refused_by_name(tmp_path: Path, key: str) -> None:
    with pytest.raises(UnsupportedError, match=f"catalog option {key}: it would have no effect: "):
        load_catalog(tmp_path, metastore="hive", uri="thrift://127.0.0.1:1", **{key: "x"})


@pytest.mark.parametrize(
    ("paimon", "hive"),
    [
        ("CHAR(255)", "char(255)"),
        ("CHAR(256)", "string"),
        ("VARCHAR(65535)", "varchar(65535)"),
        ("VARCHAR(65536)", "string"),
        ("TIME(0)", "string"),
        ("TIMESTAMP(9) WITH LOCAL TIME ZONE", "timestamp with local time zone"),
        ("ARRAY<MAP<INT, DECIMAL(38, 18)>>", "array<map<int,decimal(38,18)>>"),
    ],
)
def test_types(paimon: str, hive: str) -> None:
    assert hive_type(parse_type(paimon)) == hive


def _schema(*columns: DataField, **rest: object) -> TableSchema:
    return TableSchema(
        id=0, fields=columns, highest_field_id=len(columns), options=rest.pop("options", {}), **rest
    )  # type: ignore[arg-type]


def test_what_a_metastore_cannot_hold() -> None:
    name, rules = TableName("d", "t"), EntryRules(False, True)
    comment = DataField(0, "a", parse_type("INT"), "x\n" * 200)
    entry = rules.new_entry(name, _schema(comment), "/w", external=False, owner="me", now_ms=0)
    assert entry.sd.cols[0].comment == ("x " * 126) + "..."
    tag = {"metastore.tag-to-partition": "A"}
    with pytest.raises(InvalidInputError, match="a column has this name"):
        rules.new_entry(name, _schema(comment, options=tag), "/w", external=False, owner="me", now_ms=0)
    with pytest.raises(InvalidInputError, match="a table with partitions cannot have it"):
        rules.new_entry(
            name,
            _schema(comment, options=tag, partition_keys=("a",)),
            "/w",
            external=False,
            owner="me",
            now_ms=0,
        )


@pytest.mark.parametrize(
    "options", [{"metastore.partitioned-table": "true"}, {"metastore.tag-to-partition": "dt"}], ids=str
)
def test_the_partition_columns_of_an_entry_do_not_change(options: dict[str, str]) -> None:
    column = DataField(0, "a", parse_type("INT"))
    plain = _schema(column, partition_keys=("a",))
    new = _schema(column, partition_keys=("a",), options=options)
    check_partition_options("d.t", new)
    check_partition_options("d.t", new, new)
    for one, other in ((plain, new), (new, plain)):
        with pytest.raises(UnsupportedError, match=r"table d\.t: .* create a table with them"):
            check_partition_options("d.t", one, other)


def test_locations_keep_the_scheme_of_the_metastore() -> None:
    assert with_scheme_of("s3://b/x", "s3a://b/db") == "s3a://b/x"
    assert with_scheme_of("s3://b/x", "s3://b/db") == "s3://b/x"
    assert with_scheme_of("/w/x", "file:/w") == "file:/w/x"
    assert with_scheme_of("/w/x", "/w") == "/w/x"
    assert with_scheme_of("/w/x", None) == "/w/x"


def _connection(*ports: int) -> MetastoreConnection:
    addresses = tuple(MetastoreAddress("127.0.0.1", port) for port in ports)
    return MetastoreConnection(addresses, "me", 500, 1, FakeClock())


def test_an_unreachable_metastore_is_named_and_nothing_is_pickled() -> None:
    with silent_port() as port:
        connection = _connection(port)
        with pytest.raises(UnavailableError, match=rf"no metastore could be reached \(127.0.0.1:{port}"):
            connection.read("look", "get_all_databases")
        assert len(pickle.dumps(connection)) < 1000
        connection.close()


def test_a_server_that_never_answers_is_not_waited_for_as_a_metastore(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The answers of a metastore have ten minutes, but not the first one."""
    monkeypatch.setattr("lakecore.catalog.hive.connection._GREETING_MS", 20)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = MetastoreAddress("127.0.0.1", silent.getsockname()[1])
        connection = MetastoreConnection((address,), "me", 600_000, 1, FakeClock())
        with pytest.raises(UnavailableError, match="check the option uri, and whether the metastore runs"):
            connection.read("look", "get_all_databases")


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\xff" * 64])
def test_a_server_that_is_no_metastore(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with client:
                    client.recv(1 << 16)
                    client.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        connection = _connection(server.getsockname()[1])
        with pytest.raises(UnavailableError):
            connection.read("look", "get_all_databases")
        with pytest.raises(UnavailableError) as caught:
            connection.change("change", "drop_table", "d", "t", False)
        assert not isinstance(caught.value, LostAnswerError)  # nothing was sent
        server.shutdown(socket.SHUT_RDWR)


def _message(call: bytes, body: bytes) -> bytes:
    """An answer in the binary protocol of thrift."""
    return struct.pack("!II", 0x80010002, len(call)) + call + struct.pack("!I", 0) + body


@pytest.mark.parametrize(
    "body",
    [
        b"\x0f\x00\x00\x0b\xff\xff\xff\xfb\x00",  # a list of -5 texts
        b"\x0f\x00\x00\x08\x00\x00\x00\x01\x00\x00\x00\x03\x00",  # a list of numbers
        b"\x77\x00\x00\x00",  # no type
        b"\x0f\x00\x00\x0b\x00\x00\x00\x01\x00\x00\x00\x09ab",  # it ends too early
    ],
)
def test_a_damaged_answer_is_no_answer(body: bytes) -> None:
    """The outcome of a change is not known then."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with client:
                    client.recv(1 << 16)
                    client.sendall(_message(b"set_ugi", b"\x0f\x00\x00\x0b\x00\x00\x00\x00\x00"))
                    client.recv(1 << 16)
                    client.sendall(_message(b"get_all_databases", body))

        threading.Thread(target=serve, daemon=True).start()
        connection = _connection(server.getsockname()[1])
        with pytest.raises(UnavailableError, match="the metastore did not answer"):
            connection.read("look", "get_all_databases")
        with pytest.raises(LostAnswerError):
            connection.change("change", "get_all_databases")
        server.shutdown(socket.SHUT_RDWR)
