"""JDBC catalogs on MariaDB: which databases Java and lakecore can open, names that differ in case only, characters
that its columns cannot store, and the lock.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from sqlalchemy import text

from lakecore.catalog.jdbc.jdbc_catalog import JdbcCatalog
from lakecore.catalog.registry import load_catalog
from lakecore.errors import (
    InvalidInputError,
    InvalidOptionError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from tests.support.catalog_steps import Both
from tests.support.certificates import Authority
from tests.support.lake import rows_of
from tests.support.mariadb import PASSWORD
from tests.support.oracle import Oracle, OracleError
from tests.support.sql_servers import SqlServers, options_of

pytestmark = pytest.mark.slow

ONE_COLUMN = {"columns": ["v INT"], "options": {"bucket": "-1"}}
EMOJI = "\N{GRINNING FACE}"
TABLES = ("paimon_tables", "paimon_database_properties", "paimon_table_properties", "paimon_views")


def java_of(path: Path, options: dict[str, str]) -> str:
    return "|".join([str(path), *(f"{key}={value}" for key, value in options.items())])


def run(servers: SqlServers, options: dict[str, str], *statements: str) -> None:
    database = options["uri"].partition("?")[0].rpartition("/")[2]
    with servers.mariadb.connect(database) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
def test_java_cannot_create_its_tables_in_utf8mb4_and_uses_those_of_lakecore(
    oracles: dict[str, Oracle], tmp_path: Path, servers: SqlServers, version: str
) -> None:
    options = options_of("mariadb", tmp_path, servers)
    options["uri"] += "?nullDatabaseMeansCurrent=true"
    java = java_of(tmp_path, options)
    with pytest.raises(OracleError, match="key was too long; max key length is 3072 bytes"):
        oracles[version].call("catalog", java, "show")
    run(servers, options, "DROP TABLE paimon_tables", "DROP TABLE paimon_database_properties")
    load_catalog(tmp_path, **options).close()
    assert oracles[version].call("catalog", java, "show") == {}


def test_tables_of_java_that_ignore_case_are_refused_until_they_are_converted(
    oracles: dict[str, Oracle], tmp_path: Path, servers: SqlServers
) -> None:
    oracle = oracles["2.0.0"]
    options = options_of("mariadb", tmp_path, servers, "latin1")
    options["uri"] += "?nullDatabaseMeansCurrent=true"
    java = java_of(tmp_path, options)
    oracle.call("catalog", java, "create-database", "d")
    oracle.call("catalog", java, "create", "d.t", json.dumps(ONE_COLUMN))
    with pytest.raises(OracleError, match="exist"):
        oracle.call("catalog", java, "create", "d.T", json.dumps(ONE_COLUMN))
    with pytest.raises(UnsupportedError, match=r"collation latin1_swedish_ci.*ALTER TABLE \S+ CONVERT TO"):
        load_catalog(tmp_path, **options)
    run(
        servers,
        options,
        *(f"ALTER TABLE {one} CONVERT TO CHARACTER SET utf8mb3 COLLATE utf8mb3_bin" for one in TABLES),
    )
    both = Both(oracle, tmp_path, options)
    assert both.java_runs("create", "d.T", json.dumps(ONE_COLUMN))
    both.catalog.load_table("d.T").append(pa.table({"v": pa.array([1], pa.int32())}))
    both.catalog.drop_table("d.t")
    assert both.catalog.list_tables("d") == ["T"]
    assert list(oracle.call("catalog", java, "show")["d"]["tables"]) == ["T"]


def test_lakecore_works_on_tables_that_java_created_with_an_exact_collation(
    oracles: dict[str, Oracle], tmp_path: Path, servers: SqlServers
) -> None:
    options = options_of("mariadb", tmp_path, servers, "utf8mb3 COLLATE utf8mb3_bin")
    options["uri"] += "?nullDatabaseMeansCurrent=true"
    oracles["2.0.0"].call("catalog", java_of(tmp_path, options), "create-database", "d", '{"owner": "x"}')
    both = Both(oracles["2.0.0"], tmp_path, options)
    assert both.catalog.get_database("d").properties["owner"] == "x"
    assert both.java_runs("create", "d.t", json.dumps(ONE_COLUMN))
    assert both.catalog.list_tables("d") == ["t"]


def test_characters_of_four_bytes_are_refused_before_anything_is_written(
    tmp_path: Path, servers: SqlServers
) -> None:
    catalog = load_catalog(tmp_path, **options_of("mariadb", tmp_path, servers))
    catalog.create_database("d", properties={"owner": "Å\N{HIRAGANA LETTER A}"})
    assert catalog.get_database("d").properties["owner"] == "Å\N{HIRAGANA LETTER A}"
    catalog.create_table("d.t", ONE_COLUMN)
    before = sorted((tmp_path / "d.db").rglob("*"))
    for call in (
        lambda: catalog.create_database(EMOJI),
        lambda: catalog.create_database("e", properties={"owner": EMOJI}),
        lambda: catalog.alter_database("d", {EMOJI: "x"}),
        lambda: catalog.create_table(f"d.{EMOJI}", ONE_COLUMN),
        lambda: catalog.rename_table("d.t", f"d.{EMOJI}"),
    ):
        with pytest.raises(InvalidInputError, match="cannot store"):
            call()
    assert sorted((tmp_path / "d.db").rglob("*")) == before
    assert {one.name for one in tmp_path.iterdir()} <= {"d.db", ".lakecore"}
    for name in (f"d.{EMOJI}", f"{EMOJI}.t"):
        with pytest.raises(NotFoundError):
            catalog.load_table(name)
    catalog.alter_table("d.t", [{"op": "set", "key": "note", "value": EMOJI}])
    assert catalog.load_table("d.t").schema.options["note"] == EMOJI
    catalog.close()


def test_a_lock_is_taken_over_by_its_age_and_a_deadlock_is_waited_for(
    oracles: dict[str, Oracle], tmp_path: Path, servers: SqlServers
) -> None:
    options = options_of("mariadb", tmp_path, servers)
    both = Both(oracles["2.0.0"], tmp_path / "wh", {**options, "lock-acquire-timeout": "4 s"})
    assert isinstance(both.catalog, JdbcCatalog)
    both.catalog.create_database("d")
    both.catalog.create_table("d.t", ONE_COLUMN)

    def append(number: int) -> None:
        both.catalog.load_table("d.t").append(pa.table({"v": pa.array([number], pa.int32())}))

    died = "INSERT INTO paimon_distributed_locks VALUES ('jdbc.d.t', NOW() - INTERVAL 1 HOUR, 3598)"
    run(servers, options, died)
    append(1)
    run(servers, options, died)
    oracles["2.0.0"].write(both.java, "d.t", [{"v": 2}])
    run(servers, options, "SET GLOBAL innodb_lock_wait_timeout = 1")
    both.catalog.close()  # the timeout is that of new sessions
    with servers.mariadb.connect(options["uri"].rpartition("/")[2]) as other, other.cursor() as cursor:
        other.begin()
        cursor.execute("INSERT INTO paimon_distributed_locks (lock_id) VALUES ('jdbc.d.t')")
        end = threading.Timer(1.5, other.rollback)
        end.start()
        append(4)
        end.join()
    run(servers, options, "SET GLOBAL innodb_lock_wait_timeout = 50")
    assert rows_of(both.catalog.load_table("d.t")) == [(1,), (2,), (4,)]
    both.catalog.close()


def encrypted(
    options: dict[str, str], mode: str, store: Path | None = None, host: str = "127.0.0.1"
) -> dict[str, str]:
    """The same options with TLS, which Java and lakecore read alike."""
    uri = f"{options['uri']}?nullDatabaseMeansCurrent=true&sslMode={mode}".replace("127.0.0.1", host)
    if store is not None:
        uri += f"&trustCertificateKeyStoreUrl=file:{store}&trustCertificateKeyStoreType=PKCS12"
        uri += f"&trustCertificateKeyStorePassword={PASSWORD}"
    return {**options, "uri": uri}


def test_connections_are_encrypted_and_certificates_verified_as_java_does(
    oracles: dict[str, Oracle], tmp_path: Path, servers: SqlServers
) -> None:
    plain, oracle = options_of("mariadb", tmp_path, servers), oracles["2.0.0"]
    trusted = servers.mariadb.trusted
    wrong = Authority.of("another").key_store(tmp_path / "wrong.p12", PASSWORD)
    cases = [
        (encrypted(plain, "DISABLED"), False, None),
        (encrypted(plain, "REQUIRED"), True, None),
        (encrypted(plain, "VERIFY_CA", trusted), True, None),
        (encrypted(plain, "VERIFY_IDENTITY", trusted), True, None),
        (encrypted(plain, "VERIFY_CA", trusted, "localhost"), True, None),
        (
            encrypted(plain, "VERIFY_IDENTITY", trusted, "localhost"),
            True,
            "certificate verify failed: Hostname",
        ),
        (encrypted(plain, "VERIFY_CA", wrong), True, "certificate verify failed"),
        (encrypted(plain, "VERIFY_IDENTITY", wrong), True, "certificate verify failed"),
        (encrypted(plain, "VERIFY_CA"), True, "certificate verify failed"),
    ]
    for number, (options, is_encrypted, refusal) in enumerate(cases):
        if refusal is not None:
            with pytest.raises(UnavailableError, match=refusal) as caught:
                load_catalog(tmp_path, **options)
            assert PASSWORD not in str(caught.value)
            with pytest.raises(OracleError):
                oracle.call("catalog", java_of(tmp_path, options), "show")
            continue
        catalog = load_catalog(tmp_path, **options)
        assert isinstance(catalog, JdbcCatalog)
        assert PASSWORD not in repr(catalog)
        with catalog.connection.transaction("look") as database:
            cipher = database.execute(text("SHOW STATUS LIKE 'Ssl_cipher'")).one()[1]
        assert bool(cipher) is is_encrypted
        catalog.create_database(f"d{number}")
        catalog.close()
        databases = {f"d{one}" for one in range(number + 1)}
        assert set(oracle.call("catalog", java_of(tmp_path, options), "show")) == databases


def test_damaged_key_stores_are_named(tmp_path: Path, servers: SqlServers) -> None:
    plain = options_of("mariadb", tmp_path, servers)
    (tmp_path / "text.p12").write_text("no key store")
    with pytest.raises(InvalidOptionError, match=r"text\.p12 is no file of PKCS #12"):
        load_catalog(tmp_path, **encrypted(plain, "VERIFY_CA", tmp_path / "text.p12"))
    with pytest.raises(NotFoundError, match=r"missing\.p12 cannot be read"):
        load_catalog(tmp_path, **encrypted(plain, "VERIFY_CA", tmp_path / "missing.p12"))
