"""Several catalogs at once: names with a catalog, the files that keep definitions, and secrets that stay elsewhere."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

import lakecore
from lakecore.catalog.config import read_config, resolve
from lakecore.catalog.configured.catalog_names import QualifiedName, qualified
from lakecore.catalog.configured.catalog_store import CatalogStore
from lakecore.catalog.configured.catalogs import Catalogs
from lakecore.catalog.configured.references import Reference
from lakecore.cli.main import main
from lakecore.errors import AlreadyExistsError, InvalidInputError, InvalidOptionError, NotFoundError

SCHEMA = {"columns": ["k INT"]}


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    for name in ("one", "two"):
        lakecore.load_catalog(tmp_path / name, create_warehouse=True).create_table(f"d.of_{name}", SCHEMA)
    (tmp_path / "lakecore.toml").write_text(
        f'[catalogs.one]\nwarehouse = "{tmp_path}/one"\ndefault-database = "d"\n'
        f'[catalogs.two]\nwarehouse = "{tmp_path}/two"\n'
    )
    return {
        "LAKECORE_CONFIG": str(tmp_path / "lakecore.toml"),
        "LAKECORE_CATALOG_STORE": str(tmp_path / "store"),
        "LAKECORE_CATALOG": "one",
        "HOME": str(tmp_path),
    }


@pytest.mark.parametrize(
    ("text", "database", "catalog", "rest"),
    [
        ("one.d.t", False, "one", "d.t"),
        ("d.t", False, None, "d.t"),
        ("d.t.u", False, None, "d.t.u"),
        ("one.t", False, None, "one.t"),
        ("one.d.t$branch_b.c", False, "one", "d.t$branch_b.c"),
        ("one.t$branch_b.c", False, None, "one.t$branch_b.c"),
        ("one.d.*", False, "one", "d.*"),
        ("one.d.t.u", False, "one", "d.t.u"),
        ("one.d", True, "one", "d"),
        ("d", True, None, "d"),
        ("one", True, None, "one"),
        ("one.", True, None, "one."),
    ],
)
def test_names_with_a_catalog(text: str, database: bool, catalog: str | None, rest: str) -> None:
    assert qualified(text, {"one"}, database=database) == QualifiedName(catalog, rest)


def test_tables_of_several_catalogs(environ: dict[str, str]) -> None:
    with Catalogs(environ) as catalogs:
        assert catalogs.names() == ("one", "two")
        assert catalogs.load_table("two.d.of_two").name == "d.of_two"
        assert catalogs.load_table("d.of_one").name == "d.of_one"
        assert catalogs.load_table("of_one").name == "d.of_one"
        assert catalogs.load_table("one.d.of_one$files").name == "d.of_one$files"
        assert catalogs.catalog("two") is catalogs.catalog("two")
        with pytest.raises(NotFoundError, match=r"catalog 'three' is not configured; there are: one, two"):
            catalogs.catalog("three")
    with pytest.raises(InvalidInputError, match="default-database"):
        Catalogs(environ | {"LAKECORE_CATALOG": "two"}).load_table("of_two")
    assert Catalogs(environ | {"LAKECORE_CATALOG": "two", "LAKECORE_DATABASE": "d"}).load_table("of_two")


def test_a_catalog_is_stored_read_and_dropped(environ: dict[str, str], tmp_path: Path) -> None:
    environ |= {"MY_SECRET": "geheim"}
    catalogs = Catalogs(environ)
    options = {
        "warehouse": f'{tmp_path}/"odd" \\ name\ttab',
        "default-database": "d",
        "table-default.bucket": "1",
    }
    catalogs.create("new", options)
    [path] = (tmp_path / "store").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert catalogs.names() == ("new", "one", "two")
    assert resolve("new", environ).warehouse == options["warehouse"]
    assert resolve("new", environ).options == {"table-default.bucket": "1"}
    with pytest.raises(AlreadyExistsError):
        catalogs.create("new", options)
    with pytest.raises(AlreadyExistsError):
        catalogs.create("one", options)
    (tmp_path / '"odd" \\ name\ttab').mkdir()
    catalogs.catalog("new")
    catalogs.drop("new")
    assert catalogs.names() == ("one", "two")
    with pytest.raises(NotFoundError):
        catalogs.drop("new")
    with pytest.raises(InvalidInputError, match=r"is defined in lakecore.toml"):
        catalogs.drop("one")


def test_secrets_are_references(environ: dict[str, str], tmp_path: Path) -> None:
    catalogs = Catalogs(environ)
    for key, value in (("password", "geheim"), ("uri", "jdbc:postgresql://u:geheim@h/d")):
        with pytest.raises(InvalidInputError, match="is not stored; refer to a variable") as refused:
            catalogs.create("new", {"warehouse": str(tmp_path), key: value})
        assert "geheim" not in str(refused.value)
    assert not (tmp_path / "store").exists()
    (tmp_path / "secret").write_text("geheim\n")
    store = CatalogStore.of(environ)
    options = {
        "warehouse": str(tmp_path),
        "a": Reference("env", "MY"),
        "b": Reference("file", f"{tmp_path}/secret"),
    }
    store.create("new", options)
    assert read_config(environ)["new"] == options
    assert "geheim" not in repr(read_config(environ))
    assert resolve("new", environ | {"MY": "x"}).options == {"a": "x", "b": "geheim"}
    with pytest.raises(NotFoundError, match="option a: the environment has no variable MY"):
        resolve("new", environ)
    (tmp_path / "secret").unlink()
    with pytest.raises(NotFoundError, match=r"option b: the file .*/secret cannot be read"):
        resolve("new", environ | {"MY": "x"})


def test_the_options_of_a_rest_catalog_are_stored_but_for_its_token(environ: dict[str, str]) -> None:
    options = {"warehouse": "lake", "metastore": "rest", "uri": "http://h", "token.provider": "bear"}
    with pytest.raises(InvalidInputError, match="option token: the value is a secret"):
        CatalogStore.of(environ).create("far", {**options, "token": "geheim"})
    stored = {**options, "token": Reference("env", "TOKEN")}
    CatalogStore.of(environ).create("far", stored)
    assert read_config(environ)["far"] == stored


def test_what_cannot_be_opened_is_not_stored(environ: dict[str, str], tmp_path: Path) -> None:
    catalogs = Catalogs(environ)
    (tmp_path / "file").write_text("")
    for options, error in (
        ({"warehouse": str(tmp_path), "s3.endpont": "x"}, InvalidOptionError),
        ({"warehouse": " "}, InvalidInputError),
        ({"warehouse": f"{tmp_path}\x07"}, InvalidInputError),
        ({"warehouse": str(tmp_path), "metastore": "glue"}, InvalidInputError),
    ):
        with pytest.raises(error):
            catalogs.create("new", options)
    for name in ("", "a.b", "../x", "a/b", "-x", "x" * 101, "ä"):
        with pytest.raises(InvalidInputError, match="the name of a catalog"):
            catalogs.create(name, {"warehouse": str(tmp_path)})
    assert not (tmp_path / "store").exists() or not list((tmp_path / "store").iterdir())


def test_of_racing_creators_one_succeeds(environ: dict[str, str], tmp_path: Path) -> None:
    store, outcomes = CatalogStore.of(environ), []
    barrier = threading.Barrier(8)

    def create(number: int) -> None:
        barrier.wait()
        try:
            store.create("new", {"warehouse": f"/w{number}"})
        except AlreadyExistsError:
            return
        outcomes.append(f"/w{number}")

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert [store.read()["new"]["warehouse"]] == outcomes
    assert os.listdir(store.directory) == ["new.toml"]


def test_files_that_are_no_definitions(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "not a name.toml").write_text("x")
    (tmp_path / "store" / ".draft").write_text("x")
    assert Catalogs(environ).names() == ("one", "two")
    for text in ("[", 'a = ["b"]', "a = { what = 'x' }", "\xff"):
        (tmp_path / "store" / "bad.toml").write_text(text, encoding="latin-1")
        with pytest.raises(InvalidInputError, match=r"bad.toml: this is no definition"):
            Catalogs(environ).names()
    Catalogs(environ).drop("bad")
    assert Catalogs(environ).names() == ("one", "two")


def test_commands_understand_names_with_a_catalog(
    environ: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)

    def run(*words: str) -> tuple[int, str]:
        code = main(list(words))
        shown = capsys.readouterr()
        return code, shown.out + shown.err

    assert "of_two" in run("tables", "two.d")[1]
    assert run("describe", "two.d.of_two")[0] == 0
    assert run("describe", "of_one")[0] == 0
    assert run("read", "d.of_one")[0] == 0
    assert run("read", "d.of_two")[0] == 1
    assert run("compact", "two.d.*", "--strategy", "full")[0] == 0
    assert run("rename-table", "two.d.of_two", "two.d.other")[0] == 0
    assert "several catalogs (one, two)" in run("rename-table", "two.d.other", "one.d.other")[1]
    assert "several catalogs (one, two)" in run("--catalog", "one", "read", "two.d.other")[1]
    assert run("--catalog", "two", "read", "two.d.other")[0] == 0
    assert run("--warehouse", str(tmp_path / "two"), "read", "two.d.other")[0] == 1
    location = str(tmp_path / "three")
    assert run("create-catalog", "three", "--location", location, "--option", "default-database=e")[0] == 0
    assert run("create", "three.e.t", "--schema", '{"columns": ["k INT"]}')[0] == 0
    assert run("--catalog", "three", "read", "t")[0] == 0
    assert run("tables", "three.e")[1].split()[-2:] == ["e", "t"]
    assert "three" in run("catalogs")[1]
    assert run("drop-catalog", "three")[0] == 0
    assert (tmp_path / "three" / "e.db" / "t").is_dir()
    assert "three" not in run("catalogs")[1]
