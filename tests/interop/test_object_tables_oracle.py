"""Object tables of JDBC and Hive catalogs, made by Java 2.0 and by lakecore: both list the same files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.filesystem import load_catalog as load_directory
from lakecore.catalog.hive.hive_catalog import HiveCatalog
from lakecore.catalog.registry import load_catalog
from lakecore.errors import AlreadyExistsError, InvalidInputError, InvalidOptionError, UnsupportedError
from lakecore.jobs import compact_database
from lakecore.row.json_rows import batch_to_json
from tests.support.catalog_steps import Both
from tests.support.golden import canonical
from tests.support.hive_metastore import hive_server
from tests.support.oracle import Oracle

pytestmark = pytest.mark.slow

DEFINITION: dict[str, Any] = {"options": {"type": "object-table"}, "comment": "pictures"}


@pytest.fixture(scope="module", params=["jdbc", "hive"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    if request.param == "hive":
        with hive_server("2.0.0") as server:
            server.oracle.call("catalog", server.java(), "show")  # the metastore runs from here on
            yield Both(server.oracle, server.warehouse, server.options)
        return
    folder = tmp_path_factory.mktemp("objects")
    with Oracle("2.0.0") as oracle:
        yield Both(oracle, folder / "wh", {"metastore": "jdbc", "uri": f"jdbc:sqlite:{folder}/names.db"})


def rows(catalog: Any, name: str) -> list[str]:
    scan = catalog.load_table(name).scan()
    return canonical(line for one in scan.to_batches() for line in batch_to_json(one, scan.row_type))


def test_both_list_the_same_files(both: Both) -> None:
    catalog = both.catalog
    catalog.create_database("d")
    both.oracle.call("catalog", both.java, "create", "d.java", json.dumps({"columns": [], **DEFINITION}))
    ours = catalog.create_table("d.ours", DEFINITION)
    assert catalog.create_table("d.ours", DEFINITION, if_not_exists=True).path == ours.path
    schemas = []
    for name in ("d.java", "d.ours"):
        directory = Path(catalog.load_table(name).path)
        (directory / "a").mkdir(parents=True)
        (directory / "a" / "_b c.png").write_bytes(b"123")
        (directory / "x").write_bytes(b"")
        assert rows(catalog, name) == both.oracle.read(both.java, name)
        assert sum("_b c.png" in row for row in rows(catalog, name)) == 1
        schema = json.loads((directory / "schema" / "schema-0").read_text())
        schema.pop("timeMillis")
        path = schema["options"].pop("path")
        assert path.removeprefix("file:") == str(directory)
        schemas.append(schema)
    assert schemas[0] == schemas[1]
    assert catalog.list_tables("d", table_type="object-table") == ["java", "ours"]
    assert catalog.list_tables("d", table_type="table") == []
    report = compact_database.run(
        compact_database.Job(including_tables="d\\..*", skip_unsupported=True), catalog
    )
    assert ["object table" in str(one.skipped) for one in report.tables] == [True, True]


def test_they_are_renamed_and_dropped(both: Both) -> None:
    catalog = both.catalog
    catalog.create_database("e")
    catalog.create_table("e.t", DEFINITION)
    Path(catalog.load_table("e.t").path, "x").write_bytes(b"12")
    if not isinstance(catalog, HiveCatalog):
        with pytest.raises(UnsupportedError, match="Java would list the earlier one"):
            catalog.rename_table("e.t", "e.u")
        catalog.drop_table("e.t", purge=True)
        catalog.create_table("e.u", DEFINITION)
    else:
        catalog.rename_table("e.t", "e.u")
    assert rows(catalog, "e.u") == both.oracle.read(both.java, "e.u")
    catalog.drop_table("e.u")
    assert not catalog.table_exists("e.u")
    catalog.restore_table("e.u")
    assert rows(catalog, "e.u") == both.oracle.read(both.java, "e.u")
    both.oracle.call("catalog", both.java, "drop", "e.u")
    assert catalog.list_tables("e") == []


def test_what_they_cannot_be_is_refused(both: Both, tmp_path: Path) -> None:
    catalog = both.catalog
    catalog.create_database("f")
    for definition, error in (
        ({**DEFINITION, "columns": ["k INT"]}, InvalidInputError),
        ({"options": {"type": "object-table", "bucket": "2"}}, InvalidOptionError),
        ({"options": {"type": "object-table", "primary-key": "path"}}, InvalidInputError),
    ):
        with pytest.raises(error, match=r"table 'f\.t'"):
            catalog.create_table("f.t", definition)
    if not isinstance(catalog, HiveCatalog):
        with pytest.raises(UnsupportedError, match="type=format-table"):
            catalog.create_table("f.t", {"columns": ["k INT"], "options": {"type": "format-table"}})
    with pytest.raises(UnsupportedError, match="type=object-table"):
        load_directory(tmp_path).create_table("f.t", DEFINITION)
    assert catalog.list_tables("f") == []


@pytest.mark.parametrize("both", ["jdbc"], indirect=True)  # to Hive it is an external table of the metastore
def test_a_directory_elsewhere_is_listed_as_java_does(both: Both, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"1")
    both.catalog.create_database("g")
    definition = {"columns": [], "options": {"type": "object-table", "path": str(tmp_path)}}
    both.oracle.call("catalog", both.java, "create", "g.t", json.dumps(definition))
    with pytest.raises(InvalidOptionError, match="external-roots"):
        both.catalog.load_table("g.t")
    wide = load_catalog(both.catalog.warehouse, **both.options, **{"external-roots": str(tmp_path)})
    assert rows(wide, "g.t") == both.oracle.read(both.java, "g.t")
    assert len(rows(wide, "g.t")) == 1
    with pytest.raises(UnsupportedError, match="option path"):
        wide.create_table("g.u", definition)


@pytest.mark.parametrize("both", ["hive"], indirect=True)
def test_a_hive_catalog_lists_a_directory_elsewhere(both: Both, tmp_path: Path) -> None:
    both.catalog.create_database("h")
    wide = load_catalog(both.catalog.warehouse, **both.options, **{"external-roots": str(tmp_path)})
    schemas = []
    for who in ("java", "ours"):
        (tmp_path / who).mkdir()
        (tmp_path / who / "x").write_bytes(b"1")
        definition = {"columns": [], "options": {"type": "object-table", "path": str(tmp_path / who)}}
        if who == "java":
            both.oracle.call("catalog", both.java, "create", "h.java", json.dumps(definition))
        else:
            wide.create_table("h.ours", definition)
        assert rows(wide, f"h.{who}") == both.oracle.read(both.java, f"h.{who}")
        assert len(rows(wide, f"h.{who}")) == 2
        schema = json.loads((tmp_path / who / "schema" / "schema-0").read_text())
        assert schema["options"].pop("path").removeprefix("file:") == str(tmp_path / who)
        del schema["timeMillis"]
        schemas.append(schema)
    assert schemas[0] == schemas[1]
    wide.drop_table("h.ours")
    assert sorted(one.name for one in (tmp_path / "ours").iterdir()) == ["schema", "x"]
    with pytest.raises(AlreadyExistsError, match="choose another directory"):
        wide.create_table(
            "h.again",
            {"options": {"type": "object-table", "path": str(tmp_path / "ours")}, "comment": "other"},
        )
    wide.create_table("h.again", definition)  # as after a crash between the schema and the entry
    assert rows(wide, "h.again") == both.oracle.read(both.java, "h.again")
