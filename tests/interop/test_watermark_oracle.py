"""Which snapshot a watermark means, where several snapshots have the same one: Java's answer."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.errors import NotFoundError
from tests.support.oracle import Oracle, OracleError

pytestmark = pytest.mark.slow

HISTORIES = ((10, 20, 20, 20, 20, 30), (None, None, 10, 10, 20, 20, 20), (10, 10, 10, 20, 20, 20, 30, 30))


@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
def test_equal_watermarks_mean_the_snapshot_that_java_reads(
    version: str, oracles: dict[str, Oracle], tmp_path: Path
) -> None:
    """Only marks that are missing at the beginning: Java's releases fail on others (see `scan.travel`)."""
    catalog = load_catalog(tmp_path, **{"local.fsync": "false"})
    for number, marks in enumerate(HISTORIES):
        name = f"d.t{number}"
        table = catalog.create_table(name, pa.schema([("v", pa.int32())]), options={"write-only": "true"})
        for row, mark in enumerate(marks, 1):
            table.write(pa.table({"v": pa.array([row], pa.int32())}))
            path = Path(table._stores.paths.snapshot(row))
            raw = {key: value for key, value in json.loads(path.read_text()).items() if key != "watermark"}
            path.write_text(json.dumps(raw if mark is None else raw | {"watermark": mark}))
        for asked in (5, 10, 15, 20, 30, 35):
            try:
                java = oracles[version].read(tmp_path, name, options={"scan.watermark": str(asked)})
            except OracleError:
                with pytest.raises(NotFoundError, match="watermark"):
                    catalog.load_table(name).scan(watermark=asked).plan()
                continue
            ours = catalog.load_table(name).scan(watermark=asked).to_arrow()
            assert ours.num_rows == len(java), (marks, asked)
