"""Names of databases and tables that confuse file systems, SQL, shells or readers: each is refused, or everything works with it and
nothing lies outside of the warehouse.
"""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakecore.catalog.catalog import Catalog
from lakecore.catalog.registry import load_catalog
from lakecore.errors import InvalidInputError
from lakecore.jobs import compact, expire_snapshots, holds
from lakecore.jobs.runner.chore import Safety
from lakecore.maintain.table_key import file_name
from tests.support.lake import rows_of

COMPOSED, DECOMPOSED = "\u00e9", unicodedata.normalize("NFD", "\u00e9")
CHINESE = "\u660e" * 40
"""Percent-encoded, no file system takes it for the name of a file."""
GOOD = [
    *(
        "a%2fb",
        "a..b",
        "x.",
        "default",
        "T",
        "%",
        "_",
        "=",
        "a=b",
        "con",
        "-rf",
        "~",
        "a:b",
        "#",
        "a?b",
        "a*?[b]",
    ),
    *(
        "'; DROP TABLE x;--",
        'q"q',
        "`t`",
        "{x}",
        "a\u202eb",
        "\u200b",
        "\ufeff",
        "\U0001f600",
        "snapshot",
        "0",
        "null",
    ),
    *(COMPOSED, DECOMPOSED, CHINESE, "\u00e9" * 100, "a" * 200),
]
BAD = [
    *(
        "",
        ".",
        "..",
        "../x",
        "a/b",
        "a\\b",
        ".lakecore",
        " x",
        "x ",
        "\u00a0",
        "\t",
        "a\nb",
        "\x7f",
        "\x85",
        "\u2028",
    ),
    *("\ud800", "a\udfffb", "a" * 241, "\u660e" * 81),
]


def opened(kind: str, path: Path) -> Catalog:
    more: dict[str, Any] = (
        {"metastore": "jdbc", "uri": f"jdbc:sqlite:{path}/names.db"} if kind == "jdbc" else {}
    )
    return load_catalog(path / "wh", create_warehouse=True, **more)


@pytest.mark.parametrize("kind", ["filesystem", "jdbc"])
def test_what_is_taken_works_and_stays_inside(tmp_path: Path, kind: str) -> None:
    lake = opened(kind, tmp_path)
    lake.create_database("d")
    row = pa.table({"k": pa.array([1], pa.int32()), "p": ["a"]})
    names = GOOD if kind == "filesystem" else GOOD[-14:]
    for name in names:
        table = f"d.{name}"
        lake.create_database(name)
        made = {
            "columns": ["k INT", "p STRING"],
            "partitionKeys": ["p"],
            "options": {"bucket": "-1", "lakecore.commit.settle-time": "0"},
        }
        lake.create_table(table, made)
        for _ in range(2):
            lake.load_table(table).append(row)
        compact.run(compact.Job(table=table, strategy=compact.Strategy.FULL), lake)
        holds.run(holds.HoldTable(table=table, reason="look"), lake)
        assert [one.table for one in holds.holds_of(lake)] == [table]
        holds.run(holds.ReleaseTable(table=table), lake)
        job = expire_snapshots.Job(
            table=table, retain_max=1, retain_min=1, safety=Safety(owner="me", quarantine=True)
        )
        assert expire_snapshots.run(job, lake).error is None
        lake.rename_table(table, "d.other")
        lake.rename_table("d.other", table)
        lake.drop_table(table)
        lake.restore_table(table)
        assert rows_of(lake.load_table(table)) == [(1, "a")] * 2
    assert set(names) <= set(lake.list_databases())
    assert set(lake.list_tables("d")) == set(names)
    assert {one.name for one in tmp_path.iterdir()} <= {"wh", "names.db", "names.db-wal", "names.db-shm"}
    lake.close()


@pytest.mark.parametrize("kind", ["filesystem", "jdbc"])
def test_what_is_refused_leaves_nothing(tmp_path: Path, kind: str) -> None:
    lake = opened(kind, tmp_path)
    lake.create_database("d")
    lake.create_table("d.t", {"columns": ["k INT"]})
    before = sorted(tmp_path.rglob("*"))
    for name in BAD:
        for change in (
            lambda name=name: lake.create_database(name),
            lambda name=name: lake.create_table(f"d.{name}", {"columns": ["k INT"]}),
            lambda name=name: lake.create_table(f"{name}.t", {"columns": ["k INT"]}),
            lambda name=name: lake.rename_table("d.t", f"d.{name}"),
            lambda name=name: lake.drop_table(f"d.{name}"),
            lambda name=name: lake.load_table(f"d.t$branch_{name}"),
        ):
            with pytest.raises(InvalidInputError):
                change()
    assert sorted(tmp_path.rglob("*")) == before
    lake.close()


def test_names_of_records_are_those_of_earlier_releases_where_they_fit() -> None:
    """The longer form is for names of which no file system took the earlier one."""
    assert file_name("d.t e") == "d.t%20e"
    assert file_name("u", "d.t") == "u@d.t"
    assert file_name("d." + "\u660e" * 28) == "d." + "%E6%98%8E" * 28
    assert file_name("d.%" + "\u660e" * 29) == "d.%25" + "\u660e" * 29
    assert len(file_name("d." + CHINESE, is_folder=False).encode()) < 200
