"""Java Paimon meets consumers of lakecore that have not read a first state to its end: their files have a field that Java
does not know.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from lakecore.catalog.filesystem import load_catalog
from tests.support.oracle import Oracle, OracleError

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("version", ["oracle", "oracle2"])
def test_java_takes_the_position_and_ignores_the_state(
    version: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    java: Oracle = request.getfixturevalue(version)
    columns = {
        "columns": ["k BIGINT NOT NULL"],
        "primaryKeys": ["k"],
        "options": {"bucket": "1", "write-only": "true"},
    }
    java.create(tmp_path, "d.t", columns)
    for number in range(1, 7):
        java.write(tmp_path, "d.t", [{"k": number}], "--identifier", number)
    table = load_catalog(tmp_path, **{"local.fsync": "false"}).load_table("d.t")
    consumers = table._stores.consumers
    for name, position in (("job", 3), ("other", 4)):
        consumers.write(name, position, reads_state=True)
    folder = Path(table.path) / "consumer"
    assert json.loads((folder / "consumer-job").read_text())["lakecore.reads-state"] is True

    listed = [json.loads(row) for row in java.read(tmp_path, "d.t$consumers")]
    assert {row["consumer_id"]: int(row["next_snapshot_id"]) for row in listed} == {"job": 3, "other": 4}
    own = table._stores.consumers.find("job")
    assert own is not None
    assert own.reads_state

    changes = java.call("stream", tmp_path, "d.t", "--option", "consumer-id=job")
    assert [row["k"] for plan in changes for row in plan["rows"]] == [3, 4, 5, 6], (
        "changes only, from the position on"
    )

    java.call("expire-snapshots", tmp_path, "d.t", "--retain-max", 1, "--retain-min", 1)
    assert sorted(one.id for one in table.snapshots()) == [3, 4, 5, 6], "expiry waits for the consumer"

    java.call("reset-consumer", tmp_path, "d.t", "job", 5)
    replaced = consumers.find("job")
    assert replaced is not None
    assert (replaced.next_snapshot, replaced.reads_state) == (5, False)
    kept = consumers.find("other")
    assert kept is not None
    assert kept.reads_state, "Java writes the file of its own consumer only"

    java.call("expire-consumers", tmp_path, "d.t", int(time.time() * 1000) + 60_000)
    assert list(folder.glob("consumer-*")) == []


@pytest.mark.parametrize("version", ["oracle", "oracle2"])
def test_java_reads_no_file_that_is_none(
    version: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """So that the test above can fail: Java reads the files of consumers."""
    java: Oracle = request.getfixturevalue(version)
    java.create(tmp_path, "d.t", {"columns": ["k BIGINT"]})
    java.write(tmp_path, "d.t", [{"k": 1}])
    folder = tmp_path / "d.db" / "t" / "consumer"
    folder.mkdir()
    (folder / "consumer-job").write_text('{"nextSnapshot": "three", "lakecore.reads-state": true}')
    with pytest.raises(OracleError):
        java.read(tmp_path, "d.t$consumers")
