"""Driver and workers of a streaming query are killed with SIGKILL again and again: every row that Java wrote to one
table is in the other exactly once, as Java reads them. `LAKECORE_KILLS` says how often (2: the query of each kind once, one of them
after a worker); `python -m tests.fuzz.stream_soak` kills for half an hour or more.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

import lakecore
from tests.support.oracle import Oracle, findings
from tests.support.stream_kills import TABLES, Kills

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("LAKECORE_KILLS", "2"))


@pytest.mark.parametrize("kind", TABLES)
def test_every_row_once(oracle: Oracle, tmp_path: Path, kind: str) -> None:
    catalog = lakecore.load_catalog(tmp_path / "lake", create_warehouse=True, **{"local.fsync": "false"})
    kills = Kills(catalog, tmp_path / "checkpoint", kind, random.Random(KILLS), oracle)
    first = list(TABLES).index(kind)
    for number in range(KILLS // 2):
        kills.kill_once(workers=(first + number) % 2)
    kills.finish()
    complaints = findings(oracle.fsck(tmp_path / "lake", "d.copy"))
    assert {one for one in complaints if not one.startswith("orphan: ")} == set()
