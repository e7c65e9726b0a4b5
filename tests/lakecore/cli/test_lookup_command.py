"""`lakecore lookup`: keys as arguments and JSON lines, found and absent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakecore.catalog.filesystem import load_catalog
from tests.lakecore.cli.conftest import Cli

ROWS = '{"p":"x","k":1,"v":"a"}\n{"p":"y","k":1,"v":"b"}\n{"p":"x","k":2,"v":"c"}\n'


@pytest.fixture
def filled(cli: Cli, warehouse: Path) -> Cli:
    schema = {
        "columns": ["p STRING NOT NULL", "k INT NOT NULL", "v STRING"],
        "primaryKeys": ["p", "k"],
        "partitionKeys": ["p"],
        "options": {"bucket": "2"},
    }
    load_catalog(str(warehouse), create_warehouse=True).create_table("d.t", schema)
    assert cli("write", "d.t", "-", stdin=ROWS).code == 0
    return cli


def test_keys_as_arguments(filled: Cli) -> None:
    answer = filled("lookup", "d.t", "p=x,k=2", '{"k": 1, "p": "y"}', "p=x,k=7")
    assert [json.loads(line) for line in answer.out.splitlines()] == [
        {"p": "x", "k": 2, "v": "c"},
        {"p": "y", "k": 1, "v": "b"},
    ]
    assert '{"p":"x","k":7} has no row' in answer.err


def test_json_lines(filled: Cli) -> None:
    answer = filled("--json", "lookup", "d.t", "--columns", "v", stdin='{"p":"x","k":1}\n\n{"p":"z","k":1}\n')
    assert [json.loads(line) for line in answer.out.splitlines()] == [
        {"key": {"p": "x", "k": 1}, "row": {"v": "a"}},
        {"key": {"p": "z", "k": 1}, "row": None},
    ]


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("k=1", "give p=VALUE,k=VALUE"),
        ("p=x,k=one", "one"),
        ("p=x,k=1,k=2", "give"),
        ('{"q":1}', "no column 'q'"),
    ],
    ids=["column", "value", "twice", "unknown"],
)
def test_wrong_keys_are_named(key: str, message: str, filled: Cli) -> None:
    answer = filled("lookup", "d.t", key)
    assert answer.code == 1
    assert message in answer.err


def test_later_runs_find_the_copies(filled: Cli, warehouse: Path, tmp_path: Path) -> None:
    """Without the data files, which nobody needs then."""
    shared = ["--cache-directory", str(tmp_path / "copies")]
    first = filled("lookup", "d.t", "p=x,k=2", "p=y,k=1", *shared)
    assert len(first.out.splitlines()) == 2
    data = list(warehouse.rglob("data-*"))
    for number, path in enumerate(data):
        path.rename(tmp_path / str(number))
    assert data
    assert filled("lookup", "d.t", "p=x,k=2", "p=y,k=1", *shared).out == first.out
    assert filled("lookup", "d.t", "p=x,k=2").code == 1


def test_a_cache_directory_that_cannot_be_used(filled: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    answer = filled("lookup", "d.t", "p=x,k=2", "--cache-directory", str(tmp_path / "file"))
    assert answer.code == 1
    assert f"cache directory {tmp_path / 'file'}" in answer.err
