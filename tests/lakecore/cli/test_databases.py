"""Commands on databases, and those that drop, restore and rename tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakecore.catalog.registry import load_catalog
from lakecore.cli.main import main
from tests.lakecore.cli.conftest import Cli

SCHEMA = '{"columns": ["k INT"], "options": {}}'


def run(capsys: pytest.CaptureFixture[str], warehouse: Path, *words: str) -> tuple[int, str]:
    code = main(["--warehouse", str(warehouse), "--json", *words])
    taken = capsys.readouterr()
    return code, taken.out or taken.err


def test_databases_and_tables_come_and_go(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    warehouse = tmp_path / "wh"
    assert run(capsys, warehouse, "create-database", "d")[0] == 0
    assert run(capsys, warehouse, "create-database", "d")[0] != 0
    assert run(capsys, warehouse, "create-database", "d", "--if-not-exists")[0] == 0
    code, text = run(capsys, warehouse, "alter-database", "d", "--property", "a=b")
    assert code != 0
    assert "stores no properties" in text
    assert run(capsys, warehouse, "create", "d.t", "--schema", SCHEMA)[0] == 0
    assert run(capsys, warehouse, "create", "d.t", "--schema", SCHEMA, "--if-not-exists")[0] == 0
    assert run(capsys, warehouse, "rename-table", "d.t", "d.u")[0] == 0
    code, text = run(capsys, warehouse, "drop-table", "d.u")
    drop = json.loads(text)["drop"]
    assert load_catalog(warehouse).list_tables("d") == []
    assert [row["drop"] for row in json.loads(run(capsys, warehouse, "dropped-tables")[1])] == [drop]
    assert run(capsys, warehouse, "restore-table", "d.u", "--drop", drop)[0] == 0
    assert run(capsys, warehouse, "drop-database", "d")[0] != 0
    assert run(capsys, warehouse, "drop-database", "d", "--cascade", "--purge")[0] == 0
    assert load_catalog(warehouse).list_databases() == []
    assert json.loads(run(capsys, warehouse, "dropped-tables", "d.u")[1]) == []
    assert run(capsys, warehouse, "drop-table", "d.u")[0] != 0
    assert json.loads(run(capsys, warehouse, "drop-table", "d.u", "--if-exists")[1])["drop"] is None
    assert run(capsys, warehouse, "drop-database", "d", "--if-exists")[0] == 0


def test_configured_catalogs_are_listed_without_their_secrets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lakecore.toml").write_text(
        '[catalogs.names]\nwarehouse = "/lake"\nmetastore = "jdbc"\n'
        'uri = "jdbc:postgresql://u:geheim@h/d?user=u&password=geheim"\n"jdbc.password" = "geheim"\n'
    )
    monkeypatch.setenv("LAKECORE_CONFIG", str(tmp_path / "lakecore.toml"))
    monkeypatch.setenv("LAKECORE_CATALOG__OTHER__WAREHOUSE", "s3://bucket/lake")
    assert main(["catalogs"]) == 0
    text = capsys.readouterr().out
    assert "jdbc:postgresql://" in text
    assert "geheim" not in text
    assert main(["--json", "catalogs"]) == 0
    text = capsys.readouterr().out
    assert "geheim" not in text
    rows = json.loads(text)
    assert [(row["catalog"], row["metastore"], row["warehouse"]) for row in rows] == [
        ("names", "jdbc", "/lake"),
        ("other", "filesystem", "s3://bucket/lake"),
    ]
    assert rows[0]["options"]["jdbc.password"] == "****"


def test_users_and_privileges(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = tmp_path / "wh"
    (tmp_path / "lakecore.toml").write_text(
        f'[catalogs.ann]\nwarehouse = "{warehouse}"\nuser = "ann"\n'
        f'[catalogs.root]\nwarehouse = "{warehouse}"\nuser = "root"\n'
    )
    monkeypatch.setenv("LAKECORE_CONFIG", str(tmp_path / "lakecore.toml"))
    monkeypatch.setenv("LAKECORE_CATALOG__ANN__PASSWORD", "geheim-ann")
    monkeypatch.setenv("LAKECORE_CATALOG__ROOT__PASSWORD", "geheim-root")
    assert run(capsys, warehouse, "create", "d.t", "--schema", SCHEMA)[0] == 0
    monkeypatch.setenv("LAKECORE_NEW_PASSWORD", "geheim-root")
    assert run(capsys, warehouse, "init-file-based-privilege")[0] == 0
    monkeypatch.setenv("LAKECORE_NEW_PASSWORD", "geheim-ann")

    def by(name: str, *words: str) -> tuple[int, str]:
        code = main(["--catalog", name, "--json", *words])
        taken = capsys.readouterr()
        assert "geheim" not in taken.out + taken.err
        return code, taken.out or taken.err

    assert by("root", "create-privileged-user", "ann")[0] == 0
    code, text = by("ann", "read", "d.t")
    assert (code, "privilege SELECT on table d.t" in text) == (1, True)
    assert by("root", "grant-privilege-to-user", "ann", "select", "--table", "d.t")[0] == 0
    assert by("root", "grant-privilege-to-user", "ann", "select", "--table", "d.nothing")[0] == 1
    assert by("ann", "read", "d.t")[0] == 0
    assert by("ann", "compact", "d.t")[0] == 1
    assert json.loads(by("ann", "privileges")[1]) == [{"user": "ann", "privilege": "SELECT", "on": "d.t"}]
    assert json.loads(by("root", "revoke-privilege-from-user", "ann", "select")[1])[0]["revoked"] == 1
    assert by("ann", "read", "d.t")[0] == 1
    assert by("root", "drop-privileged-user", "ann")[0] == 0
    assert by("ann", "tables", "d")[0] == 1
    assert run(capsys, warehouse, "init-file-based-privilege")[0] == 1
    assert by("root", "catalogs")[0] == 0


def test_partitions(cli: Cli, parted: str) -> None:
    (one,) = cli("partitions", parted, "--partition", "p=a", "--json").json
    assert (one["spec"], one["record_count"], one["is_done"]) == ({"p": "a"}, 1, False)
    lines = cli("partitions", parted, "--where", "p = 'b'").out
    assert "p=b" in lines
    assert "p=a" not in lines
    assert cli("partitions", parted, "--where", "n = 1").code == 1
