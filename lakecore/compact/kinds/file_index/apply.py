"""This module builds the file indexes that live data files lack: it plans, runs units anywhere, commits, and
plans again.

Promises: no data file is written or removed, and in its description nothing changes but its indexes; an index
file that is not committed is removed, unless a commit's outcome is uncertain. A replaced index file stays
where it is: older snapshots need it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

from lakecore.commit.support import check_committable
from lakecore.compact.engine.attempt_files import AttemptFiles, EarlierCommits
from lakecore.compact.engine.commit_loop import CommitLoopResult
from lakecore.compact.engine.request import RunName
from lakecore.compact.engine.run_commits import CommitPlan, RunCommits, unit_results
from lakecore.compact.engine.target import RewriteTarget
from lakecore.compact.engine.work import Place, place_name
from lakecore.compact.kinds.file_index.commit import FileKey, IndexCommits, file_key
from lakecore.compact.kinds.file_index.plan import (
    Coverage,
    Head,
    IndexNeed,
    coverage,
    file_specs,
    need_of,
    pack,
)
from lakecore.compact.kinds.file_index.run import IndexUnit, Rewritten, run_unit
from lakecore.data_class import dataclass
from lakecore.errors import (
    CorruptDataError,
    LakeError,
    NotFoundError,
    UnsupportedError,
    most_severe,
)
from lakecore.executor import Executor
from lakecore.index.container import INDEX_SUFFIX
from lakecore.index.definition import IndexSpec, index_specs
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.snapshot import Snapshot
from lakecore.read.file.file_index import index_path, open_index
from lakecore.scan.filters import EVERYTHING, ScanFilter

__all__ = ["COMMIT_FILES", "IndexOutcome", "IndexRequest", "IndexRun"]

logger = logging.getLogger(__name__)

COMMIT_FILES = 4096
_MAX_ROUNDS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRequest:
    """The request says which partitions, and who commits."""

    run: RunName
    where: ScanFilter = EVERYTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexOutcome:
    """These are the figures of what is committed. `rows` counts rows read, `bytes` those of new indexes.
    `dropped` are the names of files that other commits removed.
    """

    files: int = 0
    rows: int = 0
    bytes: int = 0
    snapshots: tuple[int, ...] = ()
    dropped: tuple[str, ...] = ()


class IndexRun:
    """One run over one table, which records what it read and did, also after an exception.

    `coverage` is that at the start, and `planned` are the files to change then.
    """

    def __init__(self, target: RewriteTarget, request: IndexRequest) -> None:
        self._target = target
        self._request = request
        self._specs: tuple[IndexSpec, ...] = ()
        self._named_specs: dict[int, tuple[tuple[IndexSpec, IndexSpec], ...]] = {}
        self._commits = RunCommits(target, request.run)
        self._new_paths: set[str] = set()
        self._waiting_bytes = 0
        """The bytes of new indexes that wait for a commit."""
        self._directories: set[str] = set()
        self.coverage: tuple[Coverage, ...] = ()
        self.planned: tuple[IndexNeed, ...] = ()
        self.outcome = IndexOutcome()

    @property
    def landed(self) -> EarlierCommits:
        """Return what an earlier run of the same name had committed."""
        return self._commits.earlier

    def plan(self) -> tuple[IndexNeed, ...]:
        """Return the work, and set `coverage`; nothing is written.

        It costs a read of the head of every index file. Raises InvalidOptionError, UnsupportedError.
        """
        return self._first_plan(self._start())

    def run(self, executor: Executor, on_planned: Callable[[], None] | None = None) -> None:
        """Do it. `on_planned` is called before the first unit, if there is work (`planned`). A failed unit
        fails its files only: the rest is committed, then the first failure is raised.

        Raises UnsupportedError before anything is touched, CommitUncertainError, what units raise.
        """
        commits, stores = self._commits, self._target.stores
        names = commits.names(("",))
        needs = self._first_plan(self._start())
        if needs and on_planned is not None:
            on_planned()
        failures: list[LakeError] = []
        whole = False
        try:
            for _ in range(_MAX_ROUNDS):
                if not needs:
                    break
                lost = self._round(needs, names, executor, failures)
                if commits.stopped:
                    break
                needs = self._needs_again(lost)
            else:
                given_up = tuple(need.file.file_name for need in needs)
                self.outcome = replace(self.outcome, dropped=self.outcome.dropped + given_up)
            whole = not failures and not commits.stopped and executor.name == "local"
        finally:
            searched = () if whole else sorted(self._directories)  # attempts may have died
            commits.clean(sorted(self._new_paths), searched, lambda name: f".{names.index_token}" in name)
        if not self.outcome.snapshots:
            stores.snapshots.catch_up_latest()
        elif self._request.run.has_name:
            directories = self._target.reading.directories_of_new_files(sorted(self._directories))
            names.remove_older_indexes(stores.manifests, directories, commits.earlier, commits.published)
        if failures:
            raise most_severe(failures)

    def coverage_now(self) -> tuple[Coverage, ...]:
        """Return the coverage at the latest snapshot. It costs as much as a plan."""
        latest = self._target.stores.snapshots.latest()
        return () if latest is None else self._look(latest, self._request.where)[1]

    def _start(self) -> Snapshot | None:
        schema = self._target.reading.schema
        check_committable(schema)
        if self._target.reading.options.data_evolution:
            raise UnsupportedError(
                f"table {self._target.name}: option data-evolution.enabled=true: a file may contain "
                "some columns only, and its index must not be used for the others; compact the table instead"
            )
        self._specs = index_specs(schema)
        snapshot = self._target.stores.snapshots.latest()
        if snapshot is not None:
            self._commits.look_back(snapshot)
        return snapshot

    def _first_plan(self, snapshot: Snapshot | None) -> tuple[IndexNeed, ...]:
        if snapshot is not None:
            self.planned, self.coverage = self._look(snapshot, self._request.where)
        return self.planned

    def _needs_again(self, lost: Sequence[FileKey]) -> tuple[IndexNeed, ...]:
        """Return the files that a commit could not include and that still exist and lack an index."""
        if not lost:
            return ()
        snapshot = self._target.stores.snapshots.latest()
        assert snapshot is not None
        lost_names = set(lost)
        where = replace(
            self._request.where,
            serialized=frozenset(partition for partition, _, _ in lost_names),
            buckets=frozenset(bucket for _, bucket, _ in lost_names),
        )
        needs, _ = self._look(snapshot, where)
        again = tuple(need for need in needs if file_key(need.place, need.file) in lost_names)
        removed_names = {name for _, _, name in lost_names} - {need.file.file_name for need in again}
        self.outcome = replace(self.outcome, dropped=(*self.outcome.dropped, *sorted(removed_names)))
        return again

    def _look(
        self, snapshot: Snapshot, where: ScanFilter
    ) -> tuple[tuple[IndexNeed, ...], tuple[Coverage, ...]]:
        needs: list[IndexNeed] = []
        entries = self._target.scanner.live_entries(snapshot, where)
        coverage_result = coverage(self._files(entries.select(entries.bucket >= 0), needs), self._specs)
        return tuple(sorted(needs, key=lambda need: file_key(need.place, need.file))), coverage_result

    def _files(
        self, entries: ManifestEntries, needs: list[IndexNeed]
    ) -> Iterator[tuple[DataFile, Head, Sequence[tuple[IndexSpec, IndexSpec]]]]:
        """Yield every file with what it has and what it can have; `needs` is extended on the way."""
        reading = self._target.reading
        for entry in entries:
            file = entry.file
            directory = reading.bucket_dir(entry.partition, entry.bucket)
            head = self._head(directory, file)
            specs = self._specs_of(file.schema_id)
            place = Place(entry.partition, entry.bucket, entry.total_buckets)
            own = [stored for _, stored in specs]
            need = need_of(place, file, index_path(reading, directory, file), head, own)
            if need.is_incomplete:
                needs.append(need)
            yield file, head, specs

    def _head(self, directory: str, file: DataFile) -> Head:
        """Return what the indexes of a file are; an index file that is lost or damaged is built again."""
        try:
            with open_index(self._target.reading, directory, file) as index:
                return index.head
        except (NotFoundError, CorruptDataError) as err:
            logger.warning("%s: its indexes cannot be read and are rebuilt: %s", file.file_name, err)
            return {}

    def _specs_of(self, schema_id: int) -> tuple[tuple[IndexSpec, IndexSpec], ...]:
        if schema_id not in self._named_specs:
            reading = self._target.reading
            self._named_specs[schema_id] = file_specs(
                self._specs, reading.schema, reading.file_schema(schema_id)
            )
        return self._named_specs[schema_id]

    def _round(
        self, needs: Sequence[IndexNeed], names: AttemptFiles, executor: Executor, failures: list[LakeError]
    ) -> list[FileKey]:
        """Run and commit; return the files that other commits had touched."""
        lost: list[FileKey] = []
        plan = CommitPlan(
            commits=IndexCommits(),
            new_names=_index_names,
            on_commit=partial(self._record_commit, lost),
            most=COMMIT_FILES,
        )
        self._commits.commit_all(self._rewritten(needs, names, executor, failures), plan)
        return lost

    def _rewritten(
        self, needs: Sequence[IndexNeed], names: AttemptFiles, executor: Executor, failures: list[LakeError]
    ) -> Generator[Sequence[Rewritten]]:
        """Yield the files of each unit; `failures` gets the errors of units."""
        may_continue = self._commits.may_continue
        with closing(unit_results(executor, run_unit, self._units(needs, names), may_continue)) as results:
            for result in results:
                if isinstance(result, LakeError):
                    logger.error("%s", result)
                    failures.append(result)
                elif isinstance(result, BaseException):
                    raise result
                else:
                    self._new_paths.update(result.new_paths)
                    self._waiting_bytes += result.bytes
                    yield result.files
                if not may_continue():
                    break

    def _units(self, needs: Sequence[IndexNeed], names: AttemptFiles) -> Iterator[IndexUnit]:
        reading = self._target.reading
        for number, part in enumerate(pack(needs)):
            place = part[0].place
            directory = reading.bucket_dir(place.partition, place.bucket)
            self._directories.add(directory)
            yield IndexUnit(
                name=f"the indexes of {place_name(place, reading.schema)}, unit {number}",
                reading=reading,
                bucket_dir=directory,
                needs=part,
                token=names.index_token,
                clock=self._target.clock,
            )

    def _record_commit(self, lost: list[FileKey], landed: CommitLoopResult[Rewritten]) -> None:
        """Record what is committed; `lost` gets the files that other commits had touched."""
        size, self._waiting_bytes = self._waiting_bytes, 0
        files, before = landed.items, self.outcome
        if files and not landed.duplicate:
            self.outcome = replace(
                before,
                files=before.files + len(files),
                rows=before.rows + sum(file.after.row_count for file in files if file.need.missing),
                bytes=before.bytes + size,
                snapshots=before.snapshots + landed.snapshots,
            )
        lost += sorted(file_key(file.need.place, file.after) for file in landed.lost)


def _index_names(file: Rewritten) -> Iterator[str]:
    return (name for name in file.after.all_names if name.endswith(INDEX_SUFFIX))
