"""A compaction job whose merge or writer is broken: the proof refuses, nothing is committed, no file is left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakecore
from lakecore.errors import ProofError
from lakecore.fs.local import LocalFileIO
from lakecore.jobs import compact
from lakecore.jobs.compact import Job, ProofMode, Strategy
from lakecore.merge import sorted_merge
from lakecore.store.paths import TablePaths
from lakecore.verify.fsck.check import fsck
from lakecore.write.files.rolling import RollingWriter
from tests.support.golden import golden_table

EACH = tuple(ProofMode)
Patch = Callable[[pytest.MonkeyPatch], None]


def verdicts(change: Callable[[Any, Any, Any], None]) -> Patch:
    """The merge's decisions, spoilt: change(kinds, lost, dropped)."""
    right = sorted_merge._verdicts

    def wrong(kinds: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        lost, dropped = right(kinds, *args, **kwargs)
        change(kinds, lost, dropped)
        return lost, dropped

    return lambda monkeypatch: monkeypatch.setattr(sorted_merge, "_verdicts", wrong)


def writes(change: Callable[[pa.RecordBatch], pa.RecordBatch]) -> Patch:
    """What reaches the writer, spoilt."""
    right = RollingWriter.write
    return lambda monkeypatch: monkeypatch.setattr(
        RollingWriter, "write", lambda self, batch: right(self, change(batch))
    )


def older_row_wins(_kinds: Any, lost: Any, _dropped: Any) -> None:
    at = int(np.flatnonzero(lost)[0])
    lost[[at, at + 1]] = False, True


def live_row_dropped(kinds: Any, lost: Any, dropped: Any) -> None:
    dropped[np.flatnonzero(~lost & (kinds == 0))[0]] = True


def live_row_lost(kinds: Any, lost: Any, _dropped: Any) -> None:
    lost[np.flatnonzero(~lost & (kinds == 0))[0]] = True


def nothing_lost(_kinds: Any, lost: Any, _dropped: Any) -> None:
    lost[:] = False


def without_a_row(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.slice(1)


def with_a_row_twice(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.take(pa.array([0, *range(batch.num_rows)]))


def with_values_reversed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The last column belongs to other rows."""
    place = batch.num_columns - 1
    values = batch.column(place).take(pa.array(range(batch.num_rows - 1, -1, -1)))
    return batch.set_column(place, batch.schema.field(place), values)


FAULTS: dict[str, tuple[Patch, tuple[ProofMode, ...]]] = {
    "the older row wins": (verdicts(older_row_wins), EACH),
    "a live row is dropped as a delete": (verdicts(live_row_dropped), EACH),
    "a live row counts as replaced": (verdicts(live_row_lost), EACH),
    "rows of a key are all kept": (verdicts(nothing_lost), EACH),
    "a row is not written": (writes(without_a_row), EACH),
    "a row is written twice": (writes(with_a_row_twice), EACH),
    "values move to other rows": (writes(with_values_reversed), (ProofMode.SAMPLED, ProofMode.FULL)),
}


def state(path: Path) -> dict[str, int]:
    return {str(file.relative_to(path)): file.stat().st_size for file in path.rglob("*") if file.is_file()}


def run(warehouse: Path, mode: ProofMode, table: str) -> compact.Report:
    job = Job(table=table, strategy=Strategy.FULL, proof=mode, commit_user="test", commit_identifier=1)
    return compact.run(job, lakecore.load_catalog(str(warehouse)))


@pytest.mark.parametrize("mode", EACH)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_compaction_is_refused(
    fault: str, mode: ProofMode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch, modes = FAULTS[fault]
    table = golden_table("g1.a_pk_dedup_l0").copy_to(tmp_path)
    before = state(table.path)
    with monkeypatch.context() as patched:
        patch(patched)
        if mode not in modes:
            assert "key, sequence number, row kind" in run(tmp_path, mode, table.name).proof
            return
        with pytest.raises(ProofError) as caught:
            run(tmp_path, mode, table.name)
    assert caught.value.unit
    assert state(table.path) == before
    assert run(tmp_path, mode, table.name).rows_out > 0
    report = fsck(LocalFileIO(), TablePaths(str(table.path)), now_ms=0, deep=True, read_data=True)
    assert report.findings == ()


@pytest.mark.parametrize("mode", EACH)
def test_a_broken_append_compaction_is_refused(
    mode: ProofMode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = golden_table("g1.a_append_unaware").copy_to(tmp_path)
    before = state(table.path)
    for change in (without_a_row, with_a_row_twice):
        with monkeypatch.context() as patched:
            writes(change)(patched)
            with pytest.raises(ProofError):
                run(tmp_path, mode, table.name)
        assert state(table.path) == before


def test_the_snapshot_records_the_proof(tmp_path: Path) -> None:
    table = golden_table("g1.a_pk_dedup_l0").copy_to(tmp_path)
    run(tmp_path, ProofMode.KEYS, table.name)
    latest = lakecore.load_catalog(str(tmp_path)).load_table(table.name)._stores.snapshots.latest()
    assert latest is not None
    assert latest.properties is not None
    assert latest.properties["lakecore.proof"] == "keys"
    assert latest.properties["lakecore.proof.version"] == "2"
