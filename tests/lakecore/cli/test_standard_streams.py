"""Commands whose standard streams are closed: no file of a table gets what is printed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.verify.fsck.check import fsck
from tests.support.lake import key_table, put, rows_of


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
def test_closed_streams(tmp_path: Path, closed: str) -> None:
    lake = load_catalog(str(tmp_path), create_warehouse=True, **{"local.fsync": "false"})
    table = key_table(lake)
    for number in range(3):
        put(table, [{"k": number, "v": "v"}, {"k": 9, "v": f"{number}"}])
    rows = rows_of(table)
    command = (
        f"{Path(sys.executable).with_name('lakecore')} --warehouse {tmp_path} -v compact d.k --strategy full"
    )
    done = subprocess.run(["sh", "-c", f"{command} {closed}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert ("compacted" in done.stdout) is (closed == "2>&-")
    assert rows_of(table) == rows
    stores = table._stores
    assert not fsck(stores.file_io, stores.paths, now_ms=0, deep=True, read_data=True).findings
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    assert snapshot.commit_kind.value == "COMPACT"
