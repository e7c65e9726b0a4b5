"""Every chore that publishes a snapshot, next to a writer that renames its own over it within the settle time."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from lakecore.commit.publication import Publication
from lakecore.errors import CommitConflictError, CommitUncertainError
from lakecore.fs.file_io import FileIO
from lakecore.maintain.repair import metadata, statistics
from lakecore.maintain.target import Target
from lakecore.metadata.next_snapshot import next_metadata_only
from lakecore.metadata.snapshot import CommitKind, Snapshot
from lakecore.store.manifests import ManifestStore
from lakecore.store.paths import TablePaths
from lakecore.store.schemas import SchemaStore
from tests.support.chores import CHORES
from tests.support.fault_fs import FaultyFileIO
from tests.support.lake import key_table, memory_catalog, paths_of, put
from tests.support.meddling_fs import Meddling

COMMITTING = [name for name, chore in CHORES.items() if chore.commits]


class Replacing(FaultyFileIO):
    """The first snapshot that is published here is replaced at once, by one without
    changes that was planned on the snapshot before it. `replaced`: its id and bytes.
    """

    def __init__(self, inner: FileIO) -> None:
        super().__init__(inner)
        self.replaced: tuple[int, bytes] | None = None

    def operation(self, name: str, path: str, effect: Any, torn: Any = None) -> Any:
        result = super().operation(name, path, effect, torn)
        folder, _, _ = path.rpartition("/")
        if name == "publish" and folder.endswith("/snapshot") and result and self.replaced is None:
            ours = Snapshot.from_json(self.inner.read(path), path)
            self.replaced = (ours.id, self.inner.read(path))
            self.inner.overwrite(
                path, self._rival(folder.removesuffix("/snapshot"), ours.id).to_json().encode()
            )
        return result

    def _rival(self, root: str, snapshot_id: int) -> Snapshot:
        table, _, branch = root.partition("/branch/branch-")
        paths = TablePaths(table, branch) if branch else TablePaths(table)
        path = paths.snapshot(snapshot_id - 1)
        before = Snapshot.from_json(self.inner.read(path), path)
        schema = SchemaStore(self.inner, paths).latest()
        assert schema is not None
        manifests = ManifestStore(self.inner, paths, schema)
        base = manifests.write_list(manifests.data_manifests(before))
        delta = manifests.write_list(())
        return next_metadata_only(
            before, base, delta, CommitKind.APPEND, 0, commit_user="rival", commit_identifier=1
        )


@pytest.mark.parametrize("name", COMMITTING)
def test_a_replaced_snapshot_of_a_chore_is_made_again_or_reported(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that the lost snapshot names is deleted: somebody may have built on it by then."""
    for module in ("lakecore.maintain.target", "lakecore.commit.attempt"):
        monkeypatch.setattr(f"{module}.settle_ms", lambda options, path: 200)
    chore = CHORES[name]
    made = chore.make(f"beside-{name}")
    storage = Replacing(made.catalog.file_io)
    reports: list[Any] = []
    problem = replace(chore, run=lambda lake: reports.append(chore.run(lake))).attempt(made.through(storage))
    assert storage.replaced is not None
    number, data = storage.replaced
    if problem is None:
        assert made.table._stores.snapshots.list_ids()[-1] > number
        told = [*getattr(reports[0], "notes", ()), *getattr(reports[0], "warnings", ())]
        lost = f"snapshot {number} was replaced by commit 1 of rival"
        assert told.count(lost) == 1, "the report says it, and once"
        assert lost in json.dumps(reports[0].to_json())
    else:
        assert isinstance(problem, CommitConflictError | CommitUncertainError), problem
    made.check_whole(name, orphans=False, damage=chore.damage)
    lost = Snapshot.from_json(data, "lost")
    manifests = ManifestStore(made.catalog.file_io, made.table._stores.paths, made.table.schema)
    manifests.read(manifests.data_manifests(lost))
    manifests.read_index(lost.index_manifest)
    chore.again(made.catalog)
    made.check_whole(name, orphans=False, damage=chore.damage)


def test_a_commit_to_main_while_it_is_fast_forwarded_is_not_written_over() -> None:
    """Its snapshot stays, and the second run, with writers at rest, puts it aside as it does with older ones."""
    chore = CHORES["fast-forward"]
    made = chore.make("beside-fast-forward")
    storage = made.catalog.file_io
    number = made.table.at_branch("x")._stores.snapshots.list_ids()[-1]
    path = made.table._stores.paths.snapshot(number)
    latest = made.table._stores.snapshots.latest()
    assert latest is not None
    theirs = replace(latest, id=number, commit_user="rival").to_json().encode()
    late = Meddling(storage, "publish", path, lambda: storage.overwrite(path, theirs))
    problem = chore.attempt(made.through(late))
    assert isinstance(problem, CommitConflictError)
    assert "a writer committed snapshot-" in str(problem)
    assert storage.read(path) == theirs
    chore.again(made.catalog)
    assert storage.read(path) == storage.read(path.replace("/snapshot/", "/branch/branch-x/snapshot/"))
    made.check_whole("fast-forward", orphans=False)


def test_a_snapshot_that_main_has_in_another_spelling_is_no_commit_of_a_writer() -> None:
    chore = CHORES["fast-forward"]
    made = chore.make("beside-spelling")
    storage, branch = made.catalog.file_io, made.table.at_branch("x")._stores.snapshots
    path = made.table._stores.paths.snapshot(branch.list_ids()[0])
    compact = json.dumps(json.loads(storage.read(path)), separators=(",", ":")).encode()
    storage.overwrite(path, compact)
    assert chore.attempt(made.catalog) is None
    assert made.table._stores.snapshots.latest() == branch.latest()


@pytest.mark.parametrize("step", ["totals", "statistics"])
def test_a_repair_whose_snapshot_was_replaced_deletes_nothing(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is planned again by a person; until then somebody may be building on the snapshot that is gone."""
    module = metadata if step == "totals" else statistics
    monkeypatch.setattr(
        module, "publish", lambda *_: Publication(published=False, replaced=True, note="it was replaced")
    )
    catalog = memory_catalog(f"beside-repair-{step}")
    table = key_table(catalog)
    put(table, [{"k": 1, "v": "a"}])
    target = Target(table.name, catalog.warehouse, table._stores)
    latest, before = target.snapshots.load(1), paths_of(table, "/manifest/")
    bench = SimpleNamespace(user="repair")
    entries = target.manifests.read(target.manifests.data_manifests(latest))
    publish = {
        "totals": lambda: metadata._succeed(bench, target, latest, CommitKind.OVERWRITE),
        "statistics": lambda: statistics._publish(bench, target, latest, entries, 1),
    }[step]
    with pytest.raises(CommitUncertainError, match="it was replaced; create a new plan, and delete nothing"):
        publish()
    assert len(paths_of(table, "/manifest/") - before) >= 2
