"""This module stores the consumers of one branch: named positions of streaming reads in
`consumer/consumer-<id>`.

A position is the first snapshot still needed: expiry must keep it and all that follow. An unreadable file is
an error, never "no consumer": expiry would delete what somebody still has to read.
"""

from __future__ import annotations

from dataclasses import field

from lakecore.clock import Clock, SystemClock
from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, NotFoundError
from lakecore.fs.file_io import FileIO, FileStatus
from lakecore.metadata.consumer import Consumer
from lakecore.store.paths import TablePaths

__all__ = ["ConsumerStore"]

_PREFIX = "consumer-"
_TRIES = 5
_WAIT = 0.1


@dataclass(frozen=True)
class ConsumerStore:
    """It stores the consumers of a branch, in its directory `consumer/`."""

    file_io: FileIO
    paths: TablePaths
    clock: Clock = field(default_factory=SystemClock)

    def list(self) -> tuple[Consumer, ...]:
        """Return all consumers, by name. Those deleted meanwhile are left out. Raises CorruptDataError."""
        statuses = [status for status in self.file_io.list(self.paths.consumer_dir) if not status.is_dir]
        consumers = [status for status in statuses if status.name.startswith(_PREFIX)]
        consumers_read = (self._read(status.name.removeprefix(_PREFIX), status) for status in consumers)
        return tuple(consumer for consumer in consumers_read if consumer is not None)

    def find(self, consumer_id: str) -> Consumer | None:
        """Return the consumer, None if there is none of that name. Raises CorruptDataError."""
        status = self.file_io.stat(self.paths.consumer(consumer_id))
        return None if status is None else self._read(consumer_id, status)

    def load(self, consumer_id: str) -> Consumer:
        """Return the consumer. Raises NotFoundError that names the existing consumers, CorruptDataError."""
        stored_consumer = self.find(consumer_id)
        if stored_consumer is None:
            names = ", ".join(consumer.id for consumer in self.list()) or "none"
            raise NotFoundError(
                f"consumer {consumer_id!r} of {self.paths.root} does not exist; available consumers: {names}"
            )
        return stored_consumer

    def write(self, consumer_id: str, next_snapshot: int, *, reads_state: bool = False) -> None:
        """Create the consumer, or move it, also backwards. Readers see the old or the new position.
        `reads_state`: the state of that snapshot is still to be read.
        """
        consumer = Consumer(id=consumer_id, next_snapshot=next_snapshot, reads_state=reads_state)
        self.file_io.overwrite(self.paths.consumer(consumer_id), consumer.to_json().encode())

    def delete(self, consumer_id: str) -> None:
        """Delete the consumer; it may be missing."""
        self.file_io.delete(self.paths.consumer(consumer_id))

    def _read(self, consumer_id: str, status: FileStatus) -> Consumer | None:
        """Read a consumer. A file of which only half can be read is read again, because other writers of the
        format replace it in place.
        """
        path = self.paths.consumer(consumer_id)
        for last in (False,) * (_TRIES - 1) + (True,):
            try:
                data = self.file_io.read(path)
                return Consumer.from_json(data, path, consumer_id=consumer_id, updated_ms=status.mtime_ms)
            except NotFoundError:
                return None
            except CorruptDataError:
                if last:
                    raise
                self.clock.sleep(_WAIT)
        raise AssertionError("unreachable")
