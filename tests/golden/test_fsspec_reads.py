"""Golden tables read through file systems of fsspec (memory, zip, HTTP, SFTP) as Java read them, in turns.

`LAKECORE_FSSPEC_EVERY=1` reads each table through each file system.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import lakecore
from lakecore.row.json_rows import batch_to_json
from tests.support.file_servers import http_server, sftp_server
from tests.support.golden import GoldenTable, View, canonical, golden_tables

KINDS = ("memory", "zip", "http", "sftp")
EVERY = int(os.environ.get("LAKECORE_FSSPEC_EVERY", "60"))
TABLES = golden_tables()
TURNS = [
    (kind, table)
    for number, table in enumerate(TABLES)
    for turn, kind in enumerate(KINDS)
    if (number + turn * EVERY // len(KINDS)) % EVERY == 0
]


@pytest.fixture(scope="module")
def chosen() -> list[GoldenTable]:
    return [table for _, table in TURNS]


@pytest.fixture(scope="module")
def places(
    tmp_path_factory: pytest.TempPathFactory, chosen: list[GoldenTable]
) -> Iterator[dict[str, tuple[str, dict[str, str]]]]:
    """Location and options of the parent of both warehouses, by the kind of file system."""
    fsspec: Any = pytest.importorskip("fsspec")
    top = TABLES[0].warehouse.parents[1]
    archive = tmp_path_factory.mktemp("zip") / "golden.zip"
    files = {path for table in chosen for path in table.path.rglob("*") if path.is_file()}
    memory = fsspec.filesystem("memory")
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as writer:
        for path in sorted(files):
            writer.write(path, path.relative_to(top))
            memory.pipe_file(f"/lake/{path.relative_to(top)}", path.read_bytes())
    with ExitStack() as stack:
        http, sftp = (stack.enter_context(serve(top)) for serve in (http_server, sftp_server))
        yield {
            "memory": ("fsspec+memory://lake", {}),
            "zip": ("zip://", {"fsspec.fo": str(archive)}),
            "http": (http.root, {}),
            "sftp": (sftp.root, sftp.options),  # type: ignore[attr-defined]
        }
    memory.rm("/lake", recursive=True)


@pytest.mark.parametrize(("kind", "golden"), TURNS, ids=lambda one: getattr(one, "name", one))
def test_java_rows(kind: str, golden: GoldenTable, places: dict[str, tuple[str, dict[str, str]]]) -> None:
    root, options = places[kind]
    warehouse = f"{root.rstrip('/') if root != 'zip://' else 'zip:/'}/{_below(golden)}"
    scan = lakecore.load_catalog(warehouse, **options).load_table(golden.name).scan()
    rows = scan.to_arrow()
    lines = (line for batch in rows.to_batches() for line in batch_to_json(batch, scan.row_type))
    assert canonical(lines) == golden.rows(View("rows.jsonl"))


def test_every_file_system_has_its_turn() -> None:
    assert {kind for kind, _ in TURNS} == set(KINDS)


def _below(golden: GoldenTable) -> Path:
    return golden.warehouse.relative_to(TABLES[0].warehouse.parents[1])
