"""Files with times that Java cannot read are written again, wherever storage fails on the way."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from lakecore.errors import LakeError
from tests.faults.test_repair_plan import apply, planned
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.killing_fs import CHANGES
from tests.support.lake import key_table, memory_catalog, put
from tests.support.maintained import History


def written_by_an_earlier_version() -> History:
    catalog = memory_catalog("repair-times")
    table = key_table(catalog, ("k INT", "t TIMESTAMP(6)"), file__format="orc")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lakecore.format.orc.writer.is_early", lambda _: False)
        put(table, [{"k": 1, "t": np.datetime64("1960-01-01T00:00:00.000001")}])
    return History.of(catalog, table)


@pytest.mark.parametrize("mode", [FaultMode.ERROR, FaultMode.DEAD_AFTER_EFFECT])
def test_a_rewrite_that_stops_anywhere_goes_on(mode: FaultMode) -> None:
    made = written_by_an_earlier_version()
    plan, counted = planned(made, deep=True), FaultyFileIO(made.catalog.file_io)
    assert [(step.action, len(step.changes)) for step in plan.steps] == [("rewrite-times", 1)]
    apply(made.through(counted), plan)
    assert made.table._stores.snapshots.latest_id() == 2
    for number, where in enumerate(counted.log, 1):
        if where.split()[0] not in CHANGES or "/.lakecore/" in where:
            continue
        made.reset()
        with contextlib.suppress(LakeError):
            apply(made.through(FaultyFileIO(made.catalog.file_io, number, mode)), plan)
        made.check_views(where, {"snapshot 2": made.rows["snapshot 1"]})
        made.check_whole(where, orphans=False)
        apply(made.catalog, plan)
        made.check_views(where, {"snapshot 2": made.rows["snapshot 1"]})
        assert made.table._stores.snapshots.latest_id() == 2, where
