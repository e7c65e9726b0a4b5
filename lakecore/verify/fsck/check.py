"""This module checks whether a table is intact: hints, snapshots, manifests, data files, totals, levels, and
files that nothing refers to.

It reads only; shares no code with readers, writers and merges. Cost: each snapshot and manifest list is read
once, each manifest once or twice, each directory listed once; about 80 us and 1 kB of memory a data file
(measured with 100 k files). A table of more than PASS_ENTRIES files is checked in groups of its buckets: its
memory is that of one group, and metadata are read again for each group. With data: one open a file, and for
primary-key tables the key, sequence and kind columns. See `fsck` for the modes.
"""

from __future__ import annotations

import logging

from lakecore.data_class import dataclass
from lakecore.errors import LakeError, NotFoundError, UnavailableError
from lakecore.fs.file_io import FileIO
from lakecore.metadata.schema import TableSchema
from lakecore.store.branches import BranchStore
from lakecore.store.paths import TablePaths
from lakecore.store.schemas import SchemaStore
from lakecore.store.snapshots import SnapshotStore
from lakecore.verify.fsck.bucket_counts import BucketCounts
from lakecore.verify.fsck.data_files import DataFileCheck
from lakecore.verify.fsck.findings import Finding, FindingKind, Findings, FsckReport
from lakecore.verify.fsck.hash_indexes import HashIndexCheck
from lakecore.verify.fsck.inventory import Inventory
from lakecore.verify.fsck.lineage import Lineage, PassState
from lakecore.verify.fsck.passes import CheckPass, OnePass, Survey, TooManyFilesError
from lakecore.verify.fsck.references import References, bucket_directory
from lakecore.verify.fsck.totals import Totals

__all__ = ["PASS_ENTRIES", "Finding", "FindingKind", "FsckReport", "fsck"]

logger = logging.getLogger(__name__)

PASS_ENTRIES = 1 << 20
"""A table with more entries in its manifests, those of all snapshots together, is checked in groups of its
buckets. A group has at most so many, unless one bucket has more.
"""


def fsck(
    file_io: FileIO,
    paths: TablePaths,
    *,
    now_ms: int,
    deep: bool = False,
    read_data: bool = False,
    older_than_ms: int | None = None,
) -> FsckReport:
    """Check a table with all its branches and tags. `paths`: of the main branch.

    `read_data` opens every data file: row counts, for primary-key tables also key order, bounds, sequence
    numbers and deletes. `deep` checks the state at every snapshot on its own instead of following changes,
    and with `read_data` compares every column with its statistics, and the keys of dynamic buckets with
    their indexes. `now_ms`: for the age of orphans; those that are not older than `older_than_ms` (since the
    epoch) are counted only. For a table that is written at the same time see `verify.settled`. Raises
    NotFoundError when there is no table, UnavailableError when storage does not answer; damage is in the
    report.
    """
    settings = _Settings(now_ms, deep, read_data, older_than_ms)
    try:
        return _Check(file_io, paths, settings).in_one_pass(PASS_ENTRIES)
    except TooManyFilesError:
        logger.info("%s: its files are checked in groups of buckets", paths.root)
    return _Check(file_io, paths, settings).in_groups(PASS_ENTRIES)


@dataclass(frozen=True, slots=True)
class _Settings:
    now_ms: int
    deep: bool
    read_data: bool
    older_than_ms: int | None


class _Check:
    """It is one check of a table, in one pass or several, with what is not of a bucket."""

    def __init__(self, file_io: FileIO, paths: TablePaths, settings: _Settings) -> None:
        self._file_io, self._settings = file_io, settings
        self._schema = _latest_schema(file_io, paths)
        self._branches = [paths, *map(paths.with_branch, BranchStore(file_io, paths).list())]
        self._ids = self._list_ids()
        self._findings, self._totals = Findings(), Totals()
        self._references = References(bucket_directory(paths, self._schema), paths)
        self._bucket_counts = BucketCounts(self._findings, self._references.directory)
        self._inventory = Inventory(file_io, paths, self._findings, settings.now_ms, settings.older_than_ms)
        rows = DataFileCheck(file_io, self._findings, bool(self._schema.primary_keys), settings.deep)
        self._open_file = rows.check if settings.read_data else None

    def in_one_pass(self, most: int) -> FsckReport:
        """Check all files together. Raises TooManyFilesError if manifests have more than `most` entries."""
        self._look(OnePass(most))
        return self._report(1)

    def in_groups(self, most: int) -> FsckReport:
        """Check the files of at most `most` entries of manifests at a time, but always those of a bucket."""
        directory, findings = self._references.directory, self._findings
        survey = Survey(lambda partition: directory(partition, 0))
        self._look(survey)
        snapshots, manifests = findings.snapshots, findings.manifests
        groups = survey.groups(most)
        for group in groups:
            self._look(group)
        findings.snapshots, findings.manifests = snapshots, manifests  # each is read by several passes
        return self._report(1 + len(groups))

    def _look(self, check_pass: CheckPass) -> None:
        """Check the files of a pass."""
        settings, references, findings = self._settings, self._references, self._findings
        state = PassState(check_pass, self._totals)
        for branch, ids in zip(self._branches, self._ids, strict=True):
            own = _branch_schema(self._file_io, branch, self._schema)
            lineage = Lineage(self._file_io, branch, own, references, findings, settings.deep, state)
            lineage.check(ids)
            if lineage.latest is not None:
                place, schemas = references.directory, lineage.schemas
                check = HashIndexCheck(self._file_io, branch, own, schemas, place, findings)
                check.check(*lineage.latest, read_data=settings.read_data and settings.deep)
                self._bucket_counts.add(branch, own, lineage.latest[1])
        if check_pass.has_buckets:
            self._inventory.check_buckets(references, self._open_file)

    def _report(self, passes: int) -> FsckReport:
        self._inventory.check_rest()
        self._totals.report(self._findings, passes)
        self._bucket_counts.report()
        return self._findings.report(moved=self._ids != self._list_ids())

    def _list_ids(self) -> list[tuple[int, ...]]:
        return [SnapshotStore(self._file_io, branch).list_ids() for branch in self._branches]


def _latest_schema(file_io: FileIO, paths: TablePaths) -> TableSchema:
    """Return the newest schema that can be read: a damaged newer one is found where it is needed."""
    store = SchemaStore(file_io, paths)
    ids = store.list_ids()
    problem: LakeError = NotFoundError(f"there is no table at {paths.root}: the directory has no schema")
    for schema_id in reversed(ids):
        try:
            return store.load(schema_id)
        except UnavailableError:
            raise
        except LakeError as err:
            problem = err
    raise problem


def _branch_schema(file_io: FileIO, paths: TablePaths, main: TableSchema) -> TableSchema:
    try:
        return _latest_schema(file_io, paths)
    except UnavailableError:
        raise
    except LakeError:
        return main
