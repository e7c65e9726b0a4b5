"""Snapshots of one branch: the store finds, loads and publishes them.

The hints LATEST and EARLIEST only save a listing: they may be stale, missing or ahead, and are never
trusted without a check of the snapshot files themselves.
"""

from __future__ import annotations

import logging
import re
from contextlib import nullcontext
from dataclasses import field

from lakecore.clock import Clock, SystemClock
from lakecore.data_class import dataclass
from lakecore.errors import CommitUncertainError, CorruptDataError, LakeError, NotFoundError
from lakecore.fs.file_io import FileIO
from lakecore.fs.publish import publish_resolved
from lakecore.metadata.json_record import whole_number
from lakecore.metadata.snapshot import Snapshot
from lakecore.store.numbered import numbered
from lakecore.store.paths import TablePaths
from lakecore.store.table_lock import TableLock
from lakecore.store.version_management import VersionManagement

__all__ = ["SnapshotStore"]

logger = logging.getLogger(__name__)

_SNAPSHOT = re.compile(r"snapshot-([0-9]+)")
_EARLIEST_TRIES = 4


@dataclass(frozen=True)
class SnapshotStore:
    """This is the directory `snapshot/` of a branch. It holds no state of its own and can be pickled."""

    file_io: FileIO
    paths: TablePaths
    clock: Clock = field(default_factory=SystemClock)
    lock: TableLock | None = None
    """It is held while a snapshot is published; None where the catalog has no lock."""
    versions: VersionManagement | None = None
    """This is the server that knows the newest snapshot and commits; None where files are published."""

    def latest(self) -> Snapshot | None:
        """Return the newest snapshot, None before the first. It costs three reads, of which one finds
        nothing; a listing without hints. With a server it costs one request.

        Rule of the format: LATEST counts only if the next id does not exist. Raises CorruptDataError.
        """
        if self.versions is not None:
            return self.versions.latest(self.paths.branch)
        hint = self._hint(self.paths.latest_hint)
        if hint is not None and self._read(hint + 1) is None:  # on object stores a stat would list, too
            snapshot = self.find(hint)
            if snapshot is not None:
                return snapshot
        return self._newest_listed()

    def latest_id(self) -> int | None:
        """Return the id of `latest()`."""
        snapshot = self.latest()
        return None if snapshot is None else snapshot.id

    def earliest(self) -> Snapshot | None:
        """Return the oldest snapshot that still exists. It tolerates expiry going on at the same time."""
        hint = self._hint(self.paths.earliest_hint)
        if hint is not None:
            for snapshot_id in range(hint, hint + _EARLIEST_TRIES):
                snapshot = self.find(snapshot_id)
                if snapshot is not None:
                    return snapshot
        for snapshot_id in self.list_ids():
            snapshot = self.find(snapshot_id)
            if snapshot is not None:
                return snapshot
        return None

    def load(self, snapshot_id: int) -> Snapshot:
        """Return a snapshot. Raises NotFoundError that names the available range, CorruptDataError."""
        snapshot = self.find(snapshot_id)
        if snapshot is None:
            raise self._missing(snapshot_id)
        return snapshot

    def find(self, snapshot_id: int) -> Snapshot | None:
        """Return the snapshot, or None if it does not exist (expired, or not yet there). Raises
        CorruptDataError.
        """
        return self._read(snapshot_id)

    def _read(self, snapshot_id: int) -> Snapshot | None:
        path = self.paths.snapshot(snapshot_id)
        try:
            snapshot = Snapshot.from_json(self.file_io.read(path), path)
        except NotFoundError:
            return None
        if snapshot.id != snapshot_id:
            raise CorruptDataError(path, f"contains the id {snapshot.id} of another snapshot")
        return snapshot

    def exists(self, snapshot_id: int) -> bool:
        """Return whether the snapshot file exists now."""
        return self.file_io.stat(self.paths.snapshot(snapshot_id)) is not None

    def list_ids(self) -> tuple[int, ...]:
        """Return the ids of all snapshot files, ascending; there may be gaps. It costs a listing."""
        return numbered(_SNAPSHOT, self.file_io.list(self.paths.snapshot_dir))

    def publish(self, snapshot: Snapshot) -> bool:
        """Make `snapshot` the newest. It returns False if another commit took its id.

        Use `lakecore.commit.publication.publish`, which also guards against writers that replace files.
        Raises UnavailableError (nothing happened) or CommitUncertainError (it may have landed).
        """
        path, data = self.paths.snapshot(snapshot.id), snapshot.to_json().encode()
        is_published: bool | None = None
        try:
            with nullcontext() if self.lock is None else self.lock.acquire():
                is_published = publish_resolved(self.file_io, path, data, self.clock)
        except CommitUncertainError:
            if is_published is not False:
                raise
        return is_published is True

    def holds(self, snapshot: Snapshot) -> bool:
        """Return whether the file of its id has exactly the bytes with which `snapshot` was published."""
        try:
            return self.file_io.read(self.paths.snapshot(snapshot.id)) == snapshot.to_json().encode()
        except NotFoundError:
            return False

    def write_hints(self, latest_id: int) -> None:
        """Write LATEST, and EARLIEST if there is none. Hints are advisory: a failure is logged, not
        raised.
        """
        try:
            self.file_io.overwrite(self.paths.latest_hint, str(latest_id).encode())
            if self.file_io.stat(self.paths.earliest_hint) is None:
                ids = self.list_ids()
                if ids:
                    self.file_io.overwrite(self.paths.earliest_hint, str(ids[0]).encode())
        except LakeError as err:
            logger.warning("the hints in %s could not be written: %s", self.paths.snapshot_dir, err)

    def catch_up_latest(self, snapshot_id: int | None = None) -> None:
        """Raise the hint LATEST to at least `snapshot_id` (None: the newest), because a commit killed
        after it published left it behind.

        It is advisory, as `write_hints` is. It costs a read; without an id two checks more, and a listing
        if the hint is behind. A hint that is missing, no number or ahead is left unchanged, and none is
        raised to a snapshot that a rollback removed: Java trusts hints.
        """
        try:
            hint = self._hint(self.paths.latest_hint)
            if hint is None:
                return
            if snapshot_id is None and (self.exists(hint + 1) or not self.exists(hint)):
                snapshot_id = max(self.list_ids(), default=None)
            is_behind = snapshot_id is not None and hint < snapshot_id and self.exists(snapshot_id)
        except LakeError as err:
            logger.warning("the hints in %s could not be read: %s", self.paths.snapshot_dir, err)
            return
        if is_behind and snapshot_id is not None:
            self.write_hints(snapshot_id)

    def correct_latest(self) -> None:
        """Write LATEST anew where it names a snapshot that does not exist, or remove it where there is none:
        the snapshot was removed while it was being published. It is advisory, as `write_hints` is.
        """
        try:
            hint = self._hint(self.paths.latest_hint)
            if hint is None or self.exists(hint):
                return
            ids = self.list_ids()
            if ids:
                self.file_io.overwrite(self.paths.latest_hint, str(ids[-1]).encode())
            else:
                self.file_io.delete(self.paths.latest_hint)
        except LakeError as err:
            logger.warning("the hints in %s could not be corrected: %s", self.paths.snapshot_dir, err)

    def missing_file(self, snapshot_id: int, err: NotFoundError) -> LakeError:
        """Return the error to raise when a file that snapshot `snapshot_id` names is gone; `err` says which.

        NotFoundError when the table was renamed or dropped meanwhile (a drop begins with the schemas), or the
        snapshot was expired (readers race with expiry, which deletes files before the snapshot itself), else
        CorruptDataError: the newest snapshot has lost a file.
        """
        if not self.file_io.list(self.paths.schema_dir):
            return NotFoundError(
                f"{self.paths.root} has no schema any more ({err}): the table was renamed or dropped, or its "
                "files were removed; load it by the name that it has now, or bring its files back"
            )
        latest = self.latest_id()
        exists = self.exists(snapshot_id)
        if exists and latest is not None and snapshot_id < latest:
            return NotFoundError(
                f"snapshot {snapshot_id} of {self.paths.root} has lost a file ({err}): it is being expired, "
                "or it is damaged; read a newer snapshot, or run fsck"
            )
        if exists:
            return CorruptDataError(
                self.paths.snapshot(snapshot_id), f"needs a file that does not exist: {err}"
            )
        return NotFoundError(
            f"snapshot {snapshot_id} of {self.paths.root} was expired while it was being read ({err}); "
            f"{self._range()}: read again, or keep snapshots longer (snapshot.time-retained, or a tag)"
        )

    def _missing(self, snapshot_id: int) -> NotFoundError:
        ids = self.list_ids()
        why = "does not exist"
        if ids and 1 <= snapshot_id < ids[0]:
            why = "was expired"
        return NotFoundError(f"snapshot {snapshot_id} of {self.paths.root} {why}; {self._range(ids)}")

    def _range(self, ids: tuple[int, ...] | None = None) -> str:
        ids = self.list_ids() if ids is None else ids
        return f"the available snapshots are {ids[0]}-{ids[-1]}" if ids else "the table has no snapshots"

    def _newest_listed(self) -> Snapshot | None:
        for snapshot_id in reversed(self.list_ids()):
            snapshot = self.find(snapshot_id)
            if snapshot is not None:
                return snapshot
        return None

    def _hint(self, path: str) -> int | None:
        """Return the number in a hint file, or None when it is missing or not a number."""
        try:
            text = self.file_io.read(path)
        except NotFoundError:
            return None
        return whole_number(text)
