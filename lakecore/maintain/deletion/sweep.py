"""This module removes what a chore planned: roots first, then the files that no root reaches any more.

The package says why in this order. Every step can be interrupted anywhere and started again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from itertools import islice
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import (
    AlreadyExistsError,
    CorruptDataError,
    InvalidOptionError,
    LakeError,
    NotFoundError,
    UnavailableError,
)
from lakecore.executor import Executor, SerialExecutor
from lakecore.fs.file_io import FileIO
from lakecore.maintain.deletion.candidates import PlannedDeletion
from lakecore.maintain.deletion.hashed_names import name_set, within
from lakecore.maintain.deletion.latest import check_latest
from lakecore.maintain.deletion.places import check_removable
from lakecore.maintain.deletion.reachable import Reach
from lakecore.maintain.deletion.root_guard import check_roots, checked_roots
from lakecore.maintain.deletion.roots import Root, RootSet, read_roots
from lakecore.maintain.deletion.runs import Removal, RunRecord, RunState, RunStore
from lakecore.maintain.deletion.table_creation import table_created
from lakecore.maintain.holds.gate import HoldGate
from lakecore.maintain.holds.plan import HoldEffect
from lakecore.maintain.target import THREADS, Target, in_threads
from lakecore.metadata.manifest.byte_words import hash_bytes

__all__ = ["RootSteps", "SweepResult", "Sweeper", "do_nothing", "split_by_reach"]

logger = logging.getLogger(__name__)

_BATCH = 500
_LARGEST_BATCH = 5000


def do_nothing() -> None:
    """Do nothing; for a chore without work between two steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """This is the result of a removal. `roots` and `files` are numbers; `size` is in bytes, as far as it
    was recorded.
    """

    run: str | None = None
    roots: int = 0
    files: int = 0
    size: int = 0
    still_referenced: tuple[str, ...] = ()
    """These planned files were kept, because a new root reaches them."""

    def to_json(self) -> dict[str, Any]:
        """Convert the result for the ledger, where `files` counts roots too, as reports do."""
        files = self.roots + self.files
        return {"files": files, "roots": self.roots, "bytes": self.size, "spared": len(self.still_referenced)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RootSteps:
    """It has what is done around the removal of roots."""

    prepare: Callable[[], None] = do_nothing
    """It runs before the first root is removed."""
    settle: Callable[[], None] = do_nothing
    """It runs after the last root is removed."""


NO_STEPS = RootSteps()


@dataclass(frozen=True)
class Sweeper:
    """It removes files of one table. Many are deleted on the executor, in batches, each with several
    threads.
    """

    target: Target
    runs: RunStore
    executor: Executor
    gate: HoldGate
    """It says whether anything may be removed from the table now."""
    alive: Callable[[], None] = field(default=do_nothing)
    """It is called between steps, to renew a lease."""

    def needs_engine(self, files: int) -> bool:
        """Return whether so many files are worth the start of an engine; this process removes fewer."""
        return files > _BATCH

    def sweep(
        self,
        job: str,
        removal: Removal,
        remaining: RootSet,
        *,
        quarantine: bool = False,
        steps: RootSteps = NO_STEPS,
        parameters: Mapping[str, Any] | None = None,
    ) -> SweepResult:
        """Record the run, prepare, remove the roots, settle (see `steps`), read all roots again and remove
        the files.

        `remaining` are the roots that must still exist afterwards; none of them reaches `removal.files`. With
        `quarantine` the files move there. Raises UnavailableError when roots are missing or others than
        planned: then no file is touched, and the next run on the table continues. Raises OnHoldError when the
        table is on hold, or is put on hold meanwhile; CorruptDataError when its latest snapshot cannot be
        read: then nothing is removed. Before anything is written it raises the errors of `check_removable`.
        """
        check_removable(self.target, removal)
        self._may_remove(removal, quarantine=quarantine)
        estimate = {"files": len(removal), "roots": len(removal.roots), "bytes": removal.size}
        if quarantine:
            parameters = {**(parameters or {}), **table_created(self.target)}
        record = self.runs.begin(
            self.target.name, job, removal, quarantine=quarantine, parameters=parameters, estimate=estimate
        )
        check_roots(self.target, removal.roots[:1], remaining)
        steps.prepare()
        number = 0
        for batch in checked_roots(self.target, removal.roots, remaining):
            for deletion in batch:
                self._remove_root(record, number, deletion)
                number += 1
        steps.settle()
        self.alive()
        files = removal.files
        still_referenced: tuple[PlannedDeletion, ...] = ()
        if files:
            self.gate.check(quarantine=quarantine)
            files, still_referenced = self._not_referenced(files, remaining)
        return self._finish(record, removal, files, still_referenced)

    def resume(self, *, roots_only: bool = False) -> list[SweepResult]:
        """Finish the files of interrupted runs; roots that still exist stay, and keep their files.
        `roots_only` takes runs that remove nothing else; for these the table need not be readable.

        A record that is damaged, or asks for the removal of files that do not belong to the table, is logged
        and skipped: what it was to remove stays, and `remove-orphan-files` finds it.
        """
        finished = []
        for record in self.runs.pending(self.target.name):
            removal = self._removal_of(record)
            if removal is None:
                continue
            if roots_only and removal.files:
                continue
            logger.info("%s: the interrupted run %s is completed first", self.target.name, record.id)
            if record.keeps:
                self._drop_second_name(record, removal)
            files: tuple[PlannedDeletion, ...] = ()
            still_referenced: tuple[PlannedDeletion, ...] = ()
            if removal.files:
                current = read_roots(self.target.file_io, self.target.paths)
                if not current.roots:
                    raise UnavailableError(
                        f"{self.target.name}: run {record.id} was interrupted, but the table has no "
                        "snapshot now, so nothing is removed; run fsck"
                    )
                files, still_referenced = split_by_reach(removal.files, Reach(self.target), current.roots)
            finished.append(self._finish(record, removal, files, still_referenced, resumed=True))
        return finished

    def _removal_of(self, record: RunRecord) -> Removal | None:
        try:
            removal = self.runs.removal(record)
            check_removable(self.target, removal)
        except (CorruptDataError, InvalidOptionError) as err:
            logger.warning(
                "%s: the interrupted run %s cannot be completed: %s; look at %s and delete it",
                self.target.name, record.id, err, self.runs.folder(record),
            )  # fmt: skip
            return None
        return removal

    def _may_remove(self, removal: Removal, *, quarantine: bool) -> None:
        if not len(removal):
            return
        self.gate.check(quarantine=quarantine)
        if self.gate.effect is not HoldEffect.QUARANTINE_ONLY:
            check_latest(self.target)

    def _remove_root(self, record: RunRecord, number: int, deletion: PlannedDeletion) -> None:
        if not record.keeps:
            self.target.file_io.delete(deletion.path)
            return
        try:
            self.target.file_io.move(deletion.path, self.runs.quarantine_path(record, number, deletion.path))
        except NotFoundError:
            logger.info("%s does not exist any more", deletion.path)
        except AlreadyExistsError:
            self.target.file_io.delete(deletion.path)  # a killed move left it under both names

    def _drop_second_name(self, record: RunRecord, removal: Removal) -> None:
        """Remove the quarantine copy of a root whose move was interrupted.

        Roots are removed one after another: it is the first that still exists, unless the run has put another
        file in its place. This costs a look a root.
        """
        storage = self.target.file_io
        for number, deletion in enumerate(removal.roots):
            if storage.stat(deletion.path) is None:
                continue
            copy = self.runs.quarantine_path(record, number, deletion.path)
            if storage.stat(copy) is not None and storage.read(copy) == storage.read(deletion.path):
                storage.delete(copy)
            return

    def _not_referenced(
        self, files: Sequence[PlannedDeletion], remaining: RootSet
    ) -> tuple[tuple[PlannedDeletion, ...], tuple[PlannedDeletion, ...]]:
        """Read the roots again: no root may have vanished; files that new ones reach are kept."""
        current = read_roots(self.target.file_io, self.target.paths)
        before, now = remaining.identities(), current.identities()
        lost = sorted(path for path, *_ in before - now)
        if lost or not current.roots:
            text = ", ".join(lost[:3]) or "all"
            raise UnavailableError(
                f"{self.target.name}: snapshots or tags disappeared while the job ran ({text}): "
                "another job removed them, or storage answered wrongly; no file was removed, and "
                "the next run continues"
            )
        fresh = [root for root in current.roots if root.identity not in before]
        return split_by_reach(files, Reach(self.target), fresh)

    def _finish(
        self,
        record: RunRecord,
        removal: Removal,
        files: Sequence[PlannedDeletion],
        still_referenced: Sequence[PlannedDeletion],
        *,
        resumed: bool = False,
    ) -> SweepResult:
        numbers = {deletion.path: number for number, deletion in enumerate(removal)} if record.keeps else {}
        self._remove_files(record, files, numbers)
        swept = SweepResult(
            run=record.id,
            roots=len(removal.roots),
            files=len(files),
            size=sum(deletion.size for deletion in (*removal.roots, *files)),
            still_referenced=tuple(deletion.path for deletion in still_referenced),
        )
        moved = bool(removal.roots or files or (resumed and removal.files))  # resumed: perhaps before
        state = RunState.QUARANTINED if record.keeps and moved else RunState.DONE
        self.runs.finish(record, state, swept.to_json() | ({"resumed": True} if resumed else {}))
        return swept

    def _remove_files(
        self, record: RunRecord, files: Sequence[PlannedDeletion], numbers: Mapping[str, int]
    ) -> None:
        """Remove the files. Raises the first failure after all batches were tried."""
        pairs: Iterator[tuple[str, str | None]]
        if record.keeps:
            pairs = ((d.path, self.runs.quarantine_path(record, numbers[d.path], d.path)) for d in files)
        else:
            pairs = ((d.path, None) for d in files)
        failures: list[BaseException] = []
        few = not self.needs_engine(len(files))
        size = _BATCH if few else _batch_size(len(files), self.executor.parallelism)
        engine = SerialExecutor() if few else self.executor
        batches_left = -(-len(files) // size)
        for result in engine.run(_remove_batch, _batches(self.target.file_io, pairs, size)):
            self.alive()
            batches_left -= 1
            if isinstance(result, BaseException):
                failures.append(result)
        if failures:
            first = failures[0]
            if isinstance(first, LakeError):
                raise first
            raise UnavailableError(f"{self.target.name}: files could not be removed: {first}") from first
        if batches_left:
            raise UnavailableError(
                f"{self.target.name}: the job stopped before all files were removed; run again"
            )


def split_by_reach(
    files: Sequence[PlannedDeletion], reach: Reach, roots: Sequence[Root]
) -> tuple[tuple[PlannedDeletion, ...], tuple[PlannedDeletion, ...]]:
    """Return the files that no root reaches, and those that one does reach: by path, by name, or as an extra
    file.
    """
    if not roots:
        return tuple(files), ()
    metadata = reach.metadata(roots)
    hashes = hash_bytes([_name(deletion.path).encode() for deletion in files])
    owners = hash_bytes([owner_of(_name(deletion.path)).encode() for deletion in files])
    live = reach.data(roots, name_set([hashes, owners]))
    is_live = within(hashes, live.names)
    free: list[PlannedDeletion] = []
    still_referenced: list[PlannedDeletion] = []
    for deletion, reached in zip(files, is_live.tolist(), strict=True):
        is_needed = reached or deletion.path in metadata or _name(deletion.path) in live.extras
        (still_referenced if is_needed else free).append(deletion)
    return tuple(free), tuple(still_referenced)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def owner_of(name: str) -> str:
    """Return the data file of an extra file: `<data file>.index`, `<data file>-1.index`, `<data
    file>.<…>.lookup`.
    """
    for suffix in (".index", ".lookup"):
        if name.endswith(suffix):
            stem = name.removesuffix(suffix)
            return _stem(stem, suffix)
    return name


def _stem(stem: str, suffix: str) -> str:
    if suffix == ".lookup":  # `.<length>.<processor>.<version>` follow the data file's name
        return ".".join(stem.split(".")[:-3])
    head, dash, number = stem.rpartition("-")
    return head if dash and number.isdigit() else stem


Task = tuple[FileIO, tuple[tuple[str, str | None], ...]]


def _batch_size(files: int, parallelism: int) -> int:
    """Return the size of a batch, such that each thread gets two; the lease is renewed after each batch, so
    it must not take long.
    """
    return min(max(-(-files // (2 * parallelism)), _BATCH), _LARGEST_BATCH)


def _batches(file_io: FileIO, pairs: Iterable[tuple[str, str | None]], size: int) -> Iterator[Task]:
    waiting = iter(pairs)
    while batch := tuple(islice(waiting, size)):
        yield file_io, batch


def _remove_batch(task: Task) -> int:
    """Remove the files of one unit of work on the executor."""
    file_io, pairs = task
    step = -(-len(pairs) // THREADS)
    parts = [pairs[low : low + step] for low in range(0, len(pairs), step)]
    return sum(in_threads(partial(_remove_all, file_io), parts))


def _remove_all(file_io: FileIO, pairs: Sequence[tuple[str, str | None]]) -> int:
    """Remove the files of one thread: many small deletions cost less than handing each to a thread."""
    return sum(_remove(file_io, pair) for pair in pairs)


def _remove(file_io: FileIO, pair: tuple[str, str | None]) -> int:
    path, keep = pair
    if keep is None:
        file_io.delete(path)
        return 1
    try:
        file_io.move(path, keep)
    except NotFoundError:
        return 0
    except AlreadyExistsError:
        file_io.delete(path)  # a killed move left it under both names
    return 1
