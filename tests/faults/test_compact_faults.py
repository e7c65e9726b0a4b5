"""Storage fails at operation 1, 2, 3, … of a compaction: afterwards the same rows, nothing missing, no debris.

The job run again with the same identity then finishes the work, and does none of it twice.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.compact.kinds.append import run as append_unit
from lakecore.errors import CommitUncertainError, LakeError
from lakecore.format.parquet import group_encoder, layout
from lakecore.format.parquet.splice.mode import CopyMode
from lakecore.fs.memory import MemoryFileIO
from lakecore.jobs.compact import Job, Report, Strategy, run
from lakecore.jobs.compact.task import CompactTask
from lakecore.metadata.manifest.bucket_counts import GROUP_FILES
from lakecore.metadata.options import ChangelogProducer
from lakecore.table import Table
from lakecore.verify.fsck.check import fsck
from lakecore.verify.fsck.findings import FindingKind
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.fault_turns import failing_operations
from tests.support.lake import append_table, key_table, live_files, memory_catalog, paths_of, put, rows_of

SETTLED = (FaultMode.ERROR, FaultMode.ERROR_AFTER_EFFECT)
"""Only this operation fails: what the job made must be gone again if it is not in the table."""

Shape = tuple[int, int]


@dataclass(frozen=True)
class Scenario:
    """A table ready to be compacted; `reset` puts every byte of it back."""

    catalog: FilesystemCatalog
    table: Table
    strategy: Strategy
    image: dict[str, bytes]
    copy: CopyMode = CopyMode.NONE
    group_files: int = GROUP_FILES
    first: int = 1
    """The first operation that fails."""
    threads: int = 1
    """So many threads encode, also small row groups."""

    @classmethod
    def of(cls, catalog: FilesystemCatalog, table: Table, strategy: Strategy) -> Scenario:
        return cls(catalog, table, strategy, {p: catalog.file_io.read(p) for p in paths_of(table, "")})

    def reset(self) -> None:
        storage = self.catalog.file_io
        assert isinstance(storage, MemoryFileIO)
        storage.clear()
        for path, data in self.image.items():
            storage.write_new(path, data)

    def untouched(self) -> bool:
        """Whether every byte of the table is as it was."""
        storage = self.catalog.file_io
        same = paths_of(self.table, "") == self.image.keys()
        return same and all(storage.read(path) == data for path, data in self.image.items())

    def compact(self, storage: Any = None) -> Report:
        catalog = self.catalog if storage is None else replace(self.catalog, file_io=storage)
        job = Job(
            table=self.table.name,
            strategy=self.strategy,
            copy=self.copy,
            commit_user="job",
            commit_identifier=7,
        )
        with (
            patch.object(CompactTask, "group_files", self.group_files),
            patch.object(append_unit, "core_count", lambda: self.threads),
            patch.object(group_encoder, "_WORTH_BYTES", 1),
        ):
            return run(job, catalog, clock=catalog.clock)

    def compactions(self) -> dict[int, int]:
        """Identifiers of the job's commits by snapshot, oldest first."""
        snapshots = [self.table._stores.snapshots.load(i) for i in self.table._stores.snapshots.list_ids()]
        return {s.id: s.commit_identifier for s in snapshots if s.commit_user == "job"}

    def told(self) -> list[Any]:
        """Lines of the change stream that compactions made."""
        if self.table.options.changelog_producer is not ChangelogProducer.LOOKUP:
            return []
        changes = self.catalog.load_table(self.table.name).stream(snapshot=1)
        return [row for change in changes for batch in change.to_batches() for row in batch.to_pylist()]

    def shape(self) -> list[Shape]:
        """Level and rows of every live file."""
        return sorted((file.level, file.row_count) for file in live_files(self.table))


def keyed_full() -> Scenario:
    catalog = memory_catalog("fault-compact-full")
    options = {"file-index.bitmap.columns": "v", "file-index.in-manifest-threshold": "1 b"}
    table = key_table(catalog, ("k INT", "v STRING", "b BLOB"), **options)
    put(
        table,
        [{"k": 1, "v": "a", "b": b"blob"}, {"k": 2, "v": "b"}],
        [{"k": 2, "v": None, "_kind": "-D"}, {"k": 3, "v": "c", "b": b"other"}],
    )
    return Scenario.of(catalog, table, Strategy.FULL)


def keyed_universal() -> Scenario:
    """Two partitions: one merges two files and moves a third to its level, one only merges."""
    catalog = memory_catalog("fault-compact-universal")
    columns = ("p STRING", "k INT", "v STRING")
    options = {"num_sorted_run__compaction_trigger": "2", "target_file_size": "1 b"}
    table = key_table(catalog, columns, keys=("p", "k"), partitions=("p",), **options)
    put(
        table,
        [{"p": "a", "k": 1, "v": "old"}, {"p": "b", "k": 1, "v": "old"}],
        [{"p": "a", "k": 1, "v": "new"}, {"p": "b", "k": 1, "v": None, "_kind": "-D"}],
        [{"p": "a", "k": 9, "v": "alone"}, {"p": "b", "k": 2, "v": "two"}],
    )
    return Scenario.of(catalog, table, Strategy.UNIVERSAL)


def looked_up() -> Scenario:
    """New rows are told of and mark old ones. The table is read as if level 0 were there already."""
    catalog = memory_catalog("fault-compact-lookup")
    more = {
        "lookup__remote_file__enabled": "true"
    }  # three kinds of files beside each other: rows, lookup files, vectors
    table = key_table(catalog, changelog_producer="lookup", deletion_vectors__enabled="true", **more)
    put(table, [{"k": 1, "v": "a"}, {"k": 2, "v": "b"}, {"k": 3, "v": "c"}])
    run(Job(table=table.name, strategy=Strategy.FULL, commit_user="first"), catalog, clock=catalog.clock)
    put(table, [{"k": 2, "v": "new"}, {"k": 4, "v": "d"}], [{"k": 3, "v": None, "_kind": "-D"}])
    merged = table.with_options({"deletion-vectors.merge-on-read": "true"})
    return Scenario.of(catalog, merged, Strategy.UNIVERSAL)


def moved_looked_up() -> Scenario:
    """A file leaves level 0 as it is: its rows are told of, and it gets a lookup file."""
    return _moved("fault-compact-moved", changelog_producer="lookup")


def moved_alone() -> Scenario:
    """Nothing is read but for the lookup file of a file that leaves level 0 as it is."""
    return _moved("fault-compact-moved-alone", force_lookup="true")


def _moved(name: str, **options: str) -> Scenario:
    catalog = memory_catalog(name)
    table = key_table(catalog, lookup__remote_file__enabled="true", **options)
    put(table, [{"k": 1, "v": "a"}, {"k": 2, "v": "b"}])
    (file,) = live_files(table)
    scenario = Scenario.of(catalog, table, Strategy.FULL)
    scenario.compact()
    (moved,) = live_files(table)
    assert (moved.file_name, len(moved.extra_files)) == (file.file_name, 1)
    assert moved.level > 0
    scenario.reset()
    return scenario


def clustered() -> Scenario:
    """Two commits: new rows mark old ones in files of another order, then all files are sorted together."""
    catalog = memory_catalog("fault-compact-clustered")
    options = {
        "pk_clustering_override": "true",
        "clustering__columns": "v",
        "deletion_vectors__enabled": "true",
    }
    table = key_table(catalog, **options)
    put(table, [{"k": 1, "v": "a"}, {"k": 2, "v": "b"}, {"k": 3, "v": "c"}])
    run(Job(table=table.name, strategy=Strategy.FULL, commit_user="first"), catalog, clock=catalog.clock)
    put(table, [{"k": 2, "v": "new"}, {"k": 4, "v": "d"}], [{"k": 3, "v": None, "_kind": "-D"}])
    return Scenario.of(catalog, table, Strategy.FULL)


def joined() -> Scenario:
    catalog = memory_catalog("fault-compact-append")
    table = append_table(catalog)
    put(table, *([{"v": n, "p": "x"}] for n in range(5)))
    return Scenario.of(catalog, table, Strategy.UNIVERSAL)


def encoded() -> Scenario:
    """Row groups of three files are encoded by two threads while others are decoded."""
    catalog = memory_catalog("fault-compact-encoded")
    table = append_table(catalog, file__block_size="1 kb", target_file_size="4 kb")
    rows = [{"v": v, "p": f"{v * 7919 % 10007}" * 3} for v in range(200)]
    put(table, rows[:90], rows[90:100], rows[100:])
    return replace(Scenario.of(catalog, table, Strategy.FULL), threads=2)


def copied() -> Scenario:
    """Row groups are copied, those of a file with deleted rows decoded between them."""
    catalog = memory_catalog("fault-compact-copied")
    table = append_table(catalog, deletion_vectors__enabled="true")
    put(table, *([{"v": n, "p": "x"}, {"v": n, "p": "y"}] for n in range(5)))
    table.delete("v = 2 and p = 'y'")
    return replace(Scenario.of(catalog, table, Strategy.FULL), copy=CopyMode.ALL)


def keyed_copied() -> Scenario:
    """Files whose keys no other has are copied, and two others merged between them."""
    catalog = memory_catalog("fault-compact-keyed-copied")
    table = key_table(catalog)
    firsts = (0, 10, 20, 22, 30, 40)
    put(table, *([{"k": first + n, "v": f"v{first}"} for n in range(5)] for first in firsts))
    return replace(Scenario.of(catalog, table, Strategy.FULL), copy=CopyMode.ALL)


def in_groups() -> Scenario:
    """Two groups of a partition each, and so two commits. What fails before the first one is seen elsewhere."""
    catalog = memory_catalog("fault-compact-groups")
    columns = ("p STRING", "k INT", "v STRING")
    table = key_table(catalog, columns, keys=("p", "k"), partitions=("p",))
    put(table, [{"p": p, "k": 1, "v": "old"} for p in "ab"], [{"p": p, "k": 1, "v": "new"} for p in "ab"])
    scenario = replace(Scenario.of(catalog, table, Strategy.FULL), group_files=2)
    storage = FaultyFileIO(catalog.file_io)
    scenario.compact(storage)
    published = (text.startswith("publish") and "snapshot-3" in text for text in storage.log)
    first = next(number for number, is_it in enumerate(published, 1) if is_it)
    scenario.reset()
    return replace(scenario, first=first)


def pages_copied() -> Scenario:
    """Pages of a row group are copied around the one with a late row, which is merged."""
    catalog = memory_catalog("fault-compact-pages-copied")
    table = key_table(catalog)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "_page_rows", lambda sample: 4)
        put(table, [{"k": n, "v": "old"} for n in range(20)], [{"k": 9, "v": "late"}])
    return replace(Scenario.of(catalog, table, Strategy.FULL), copy=CopyMode.ALL)


def blobs_joined() -> Scenario:
    """Ordinary files and the blob files beside them, some of which were written over."""
    catalog = memory_catalog("fault-compact-blobs")
    options = {
        "row-tracking.enabled": "true",
        "data-evolution.enabled": "true",
        "blob-compaction.enabled": "true",
    }
    options["compaction.min.file-num"] = "2"
    table = append_table(catalog, ("v INT", "b BLOB"), **options)
    put(table, *([{"v": n, "b": b"x" * n}, {"v": n, "b": None}] for n in range(2)))
    table.update_columns(pa.table({"_ROW_ID": [1], "b": [b"newer"]}))
    return Scenario.of(catalog, table, Strategy.UNIVERSAL)


def postponed() -> Scenario:
    """Rows without a bucket, for a bucket that has rows; then that bucket is compacted."""
    catalog = memory_catalog("fault-compact-postponed")
    table = key_table(catalog, bucket="-2")
    put(table, [{"k": k, "v": "real"} for k in range(4)])
    waiting = table.with_options({"postpone.batch-write-fixed-bucket": "false"})
    put(waiting, [{"k": 1, "v": "first"}, {"k": 1, "v": "second"}, {"k": 2, "v": None, "_kind": "-D"}])
    return Scenario.of(catalog, table, Strategy.FULL)


def deleted() -> Scenario:
    """Files that share index files with files that stay."""
    catalog = memory_catalog("fault-compact-deleted")
    table = append_table(catalog, deletion_vectors__enabled="true", target_file_size="1 kb")
    big = [{"v": v, "p": f"{v * 7919 % 10007}" * 9} for v in range(400)]
    put(table, *([{"v": n, "p": "x"}, {"v": n, "p": "y"}] for n in range(3)), big, big)
    table.delete("p = 'y' or v = 7")
    return Scenario.of(catalog, table, Strategy.UNIVERSAL)


def _pairs() -> list[tuple[Callable[[], Scenario], FaultMode]]:
    cases: list[tuple[Callable[[], Scenario], FaultMode]] = [
        *itertools.product((keyed_full, joined), FaultMode)
    ]
    cases.remove((joined, FaultMode.ERROR))  # as `deleted`
    cases += [(make, FaultMode.ERROR) for make in (postponed, clustered)]
    cases += [(keyed_universal, mode) for mode in (*SETTLED, FaultMode.TORN)]
    cases += [(looked_up, mode) for mode in (FaultMode.ERROR, FaultMode.TORN)]
    cases += [(moved_looked_up, mode) for mode in (FaultMode.ERROR, FaultMode.TORN)]
    cases += [(moved_alone, mode) for mode in (FaultMode.ERROR, FaultMode.DEAD_AFTER_EFFECT)]
    cases += [(deleted, mode) for mode in SETTLED]
    cases += [(make, mode) for make in (copied, keyed_copied) for mode in (FaultMode.ERROR, FaultMode.TORN)]
    cases += [(encoded, mode) for mode in (FaultMode.ERROR, FaultMode.INTERRUPTED)]
    cases += [(in_groups, mode) for mode in (FaultMode.TORN,)]
    cases += [(make, FaultMode.ERROR) for make in (blobs_joined, pages_copied)]
    return cases


PAIRS = _pairs()
CASES = [
    pytest.param(
        make,
        mode,
        id=f"{make.__name__}-{mode.value}",
        marks=[] if (make, mode) == (keyed_full, FaultMode.ERROR) else [pytest.mark.slow],
    )
    for make, mode in PAIRS
]


@pytest.mark.parametrize(("make", "mode"), CASES)
def test_every_operation_fails_once(make: Callable[[], Scenario], mode: FaultMode) -> None:
    scenario = make()
    before = rows_of(scenario.table)
    scenario.compact()
    done, commits, after = scenario.shape(), scenario.compactions(), rows_of(scenario.table)
    told = scenario.told()
    assert len(commits) > (make is in_groups)
    assert (before == after) == (make not in (postponed, clustered))
    modes = [one for other, one in PAIRS if other is make]
    for number in failing_operations(mode, modes, scenario.first):
        scenario.reset()
        storage = FaultyFileIO(scenario.catalog.file_io, fail_at=number, mode=mode)
        error = _failure(scenario, storage)
        if storage.fired and scenario.untouched():
            continue  # what the job does with these bytes is known
        where = f"operation {number} ({storage.log[number - 1 : number]}), then {error!r}"
        assert rows_of(scenario.table) in (before, after), where
        _check_files(scenario, storage, error, where)
        landed = scenario.compactions()
        again = scenario.compact()
        assert again.error is None, where
        if scenario.compactions() != landed:
            assert _stray(scenario, "/bucket-") == [], f"{where}: debris of the first try"
        assert rows_of(scenario.table) == after, where
        assert scenario.shape() == done, f"{where}: the second try"
        assert scenario.told() == told, f"{where}: the second try"
        found = scenario.compactions()
        assert list(found.values()) == list(range(7, 7 + len(found))), f"{where}: the second try"
        assert again.snapshots == tuple(found), f"{where}: the second try"
        if not storage.fired:
            assert (error, found) == (None, commits)
            assert number > 30
            return


class _Interposed:
    """Storage that lets another compaction do its whole work when the first lookup file is made."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self.waiting = True

    def open_output(self, path: str) -> Any:
        if path.endswith(".lookup") and self.waiting:
            self.waiting = False
            catalog = self._scenario.catalog
            other = Job(table=self._scenario.table.name, strategy=Strategy.FULL, commit_user="other")
            run(other, catalog, clock=catalog.clock)
        return self._scenario.catalog.file_io.open_output(path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scenario.catalog.file_io, name)


@pytest.mark.parametrize("make", [moved_looked_up, moved_alone])
def test_who_comes_late_removes_its_own_lookup_file_only(make: Callable[[], Scenario]) -> None:
    scenario = make()
    storage = _Interposed(scenario)
    _failure(scenario, storage)
    assert not storage.waiting
    (moved,) = live_files(scenario.table)
    kept = [path.rpartition("/")[2] for path in paths_of(scenario.table) if path.endswith(".lookup")]
    assert tuple(kept) == moved.extra_files
    assert _stray(scenario, "") == []


def _failure(scenario: Scenario, storage: Any) -> BaseException | None:
    try:
        scenario.compact(storage)
    except (LakeError, KeyboardInterrupt) as err:
        return err
    return None


def _check_files(scenario: Scenario, storage: FaultyFileIO, error: BaseException | None, where: str) -> None:
    """Nothing is damaged; what nobody names is gone, or could not be removed."""
    table = scenario.table
    report = fsck(
        table._stores.file_io, table._stores.paths, now_ms=scenario.catalog.clock.now_ms(), read_data=True
    )
    assert report.damage == (), where
    failed = storage.log[storage.fail_at - 1] if storage.fired else ""
    if storage.mode not in SETTLED or isinstance(error, CommitUncertainError):
        return
    stray = _stray(scenario, "")
    assert [path for path in stray if failed not in (f"delete {path}", f"abort {path}")] == [], where


def _stray(scenario: Scenario, part: str) -> list[str]:
    """Files that nothing refers to."""
    table = scenario.table
    report = fsck(table._stores.file_io, table._stores.paths, now_ms=scenario.catalog.clock.now_ms())
    return [f.path for f in report.findings if f.kind is FindingKind.ORPHAN and part in f.path]
