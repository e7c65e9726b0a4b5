"""A root outside the table is looked at when it is the table's alone, whatever its name begins with."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.maintain.orphans.external import ExternalRoots, external_roots, is_created_by_writers

NAME = "data-0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f-0.parquet"


@pytest.mark.parametrize(
    ("own", "other", "alone"),
    [
        ("out", "elsewhere", True),
        ("out", "out-of-another", True),
        ("out-of-mine", "out", True),
        ("out", "out", False),
        ("out", "out/below", False),
        ("out/below", "out", False),
    ],
)
def test_a_root_that_another_table_names_is_left_alone(
    own: str, other: str, alone: bool, tmp_path: Path
) -> None:
    catalog = load_catalog(tmp_path / "wh", create_warehouse=True)
    for name, root in (("d.mine", own), ("d.other", other)):
        options = {"bucket": "1", "data-file.external-paths": f"file://{tmp_path}/{root}"}
        catalog.create_table(name, {"columns": ["k INT"], "primaryKeys": ["k"], "options": options})
    mine = catalog.load_table("d.mine")
    found = external_roots(catalog.file_io, catalog.warehouse, mine.path, mine.schema)
    if alone:
        assert found == ExternalRoots((f"{tmp_path}/{own}",))
    else:
        assert found.own == ()
        assert "d.db/other lies in it or names it" in found.skipped[0]


def test_only_fresh_names_are_those_of_writers() -> None:
    assert is_created_by_writers(NAME)
    assert not any(is_created_by_writers(name) for name in ("notes.txt", "data-1.parquet", NAME[:-12]))
