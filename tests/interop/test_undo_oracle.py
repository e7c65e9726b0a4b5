"""lakecore undoes runs on tables from which Java has deleted the tags that shared files with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.jobs import expire_snapshots, quarantine
from lakecore.jobs.definitions.repair import Undo
from lakecore.jobs.runner.chore import Safety
from tests.support.oracle import Oracle

pytestmark = pytest.mark.slow

_KEYED = {"bucket": "1", "num-sorted-run.compaction-trigger": "2"}
_VECTORS = {"bucket": "1", "deletion-vectors.enabled": "true"}


@pytest.mark.parametrize(("options", "last"), [(_KEYED, 4), (_VECTORS, 5)], ids=["keyed", "vectors"])
def test_an_undone_expiry_is_sound_although_java_deleted_a_tag_meanwhile(
    options: dict[str, str], last: int, tmp_path: Path, oracle: Oracle, oracle2: Oracle
) -> None:
    """Java deletes what no snapshot needs that it sees: files of later snapshots in the quarantine, too."""
    warehouse = tmp_path / "wh"
    columns = ["k BIGINT NOT NULL", "v STRING"]
    oracle.create(warehouse, "d.t", {"columns": columns, "primaryKeys": ["k"], "options": options})
    for number in range(5):
        oracle.write(warehouse, "d.t", [{"k": k, "v": str(number)} for k in range(4)], "--identifier", number)
    catalog = load_catalog(str(warehouse), **{"local.fsync": "false"})
    rows = {
        snapshot.id: oracle.read(warehouse, "d.t", snapshot=snapshot.id)
        for snapshot in catalog.load_table("d.t").snapshots()
    }
    oracle.call("create-tag", warehouse, "d.t", "t", "--snapshot", 4)
    safety = Safety(owner="t", quarantine=True)
    job = expire_snapshots.Job(table="d.t", retain_max=1, retain_min=1, safety=safety)
    run = expire_snapshots.run(job, catalog).run or ""
    oracle.call("delete-tag", warehouse, "d.t", "t")
    report = quarantine.run(Undo(run_id=run), catalog)
    assert any(f"up to snapshot {last} stay in the quarantine" in note for note in report.notes)
    restored = sorted(snapshot.id for snapshot in catalog.load_table("d.t").snapshots())
    assert restored == list(range(last + 1, max(rows) + 1))
    for java in (oracle, oracle2):
        assert java.fsck(warehouse, "d.t")["errors"] == []
        assert {number: java.read(warehouse, "d.t", snapshot=number) for number in restored} == {
            number: rows[number] for number in restored
        }
    oracle.write(warehouse, "d.t", [{"k": 9, "v": "after"}], "--identifier", 99)
    assert len(oracle2.read(warehouse, "d.t")) == 5
