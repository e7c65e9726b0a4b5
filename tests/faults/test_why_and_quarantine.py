"""What keeps a snapshot or file is named; the quarantine is emptied by age and by size."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakecore.errors import LakeError
from lakecore.jobs import expire_snapshots, quarantine, why
from lakecore.jobs.chore import Report, Safety
from tests.support.maintained import History, history


@pytest.fixture
def made(request: pytest.FixtureRequest) -> History:
    return history(f"why-{request.node.name}")


def test_why_names_what_holds_a_file_and_a_snapshot(made: History) -> None:
    store = made.table.snapshots
    manifest = store.load(2).base_manifest_list
    job = expire_snapshots.Job(table="d.k", retain_max=2, retain_min=1, safety=Safety(quarantine=True))
    expire_snapshots.run(job, made.catalog, clock=made.catalog.clock)

    def ask(subject: str | None) -> Report:
        return why.run(why.Job(table="d.k", subject=subject), made.catalog, clock=made.catalog.clock)

    assert ask(manifest).names == ("tag a", "snapshot 2 in quarantine")
    assert ask("2").names == ("tag a",)
    assert ask("nothing.parquet").nothing_to_do
    assert [name.split(" keeps")[0] for name in ask(None).names] == ["tag a", "tag b"]


def test_the_quarantine_is_emptied_by_age_and_by_size(made: History) -> None:
    report = expire_snapshots.run(
        expire_snapshots.Job(table="d.k", retain_max=2, retain_min=1, safety=Safety(quarantine=True)),
        made.catalog,
        clock=made.catalog.clock,
    )
    kept = made.quarantined()
    assert kept == report.files
    purge = quarantine.Purge(ttl_ms=10**12, cap=10**12)
    assert quarantine.run(purge, made.catalog, clock=made.catalog.clock).nothing_to_do
    quarantine.run(replace(purge, cap=0), made.catalog, clock=made.catalog.clock)
    assert made.quarantined() == 0
    with pytest.raises(LakeError, match="purged"):
        quarantine.run(quarantine.Undo(run_id=str(report.run)), made.catalog, clock=made.catalog.clock)
