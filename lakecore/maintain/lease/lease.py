"""An advisory lease a table: two lakecore chores do not work on one table at once.

Leases are numbered files, `<warehouse>/.lakecore/leases/<table>/<number>`; the highest counts. Each is
created atomically, so of several that want to follow an expired one, one gets it.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field

from lakecore.clock import Clock
from lakecore.data_class import dataclass
from lakecore.errors import BusyError, InvalidInputError, LakeError, NotFoundError, UnsupportedError
from lakecore.fs.confined import service_files
from lakecore.fs.file_io import FileIO
from lakecore.fs.publish import publish_resolved
from lakecore.maintain.lease.process import ProcessMark, has_ended, this_process
from lakecore.maintain.table_key import file_name, table_key
from lakecore.metadata.json_record import json_object, whole_number

__all__ = ["LONGEST_LEASE_MS", "Lease", "LeaseTimes", "holder", "leased"]

logger = logging.getLogger(__name__)

LONGEST_LEASE_MS = 86_400_000
"""A lease ends a day after the last sign of life at the latest."""
_POLL_SECONDS = 1.0
_MOST_LEASES = 10**15
"""Nobody has taken so many: a file of a higher number is forged, and there would be no number after it."""


@dataclass
class Lease:
    """This process holds this lease, for `millis` since the last sign of life."""

    file_io: FileIO
    path: str
    owner: str
    clock: Clock
    millis: int
    process: ProcessMark | None = None
    waited: bool = False
    """It tells whether another run held the table first: it may have changed since it was read."""
    published_ms: int = 0
    """It was published at this time or later, by the clock of this machine."""
    _released: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def renew(self) -> None:
        """Renew the lease. This does nothing once the lease is released, because it must not become valid
        again.
        """
        with self._lock:
            if not self._released:
                self.file_io.overwrite(self.path, self._text(self.clock.now_ms() + self.millis))

    def clock_ahead_ms(self) -> int:
        """Return by how much the clock of this machine is ahead of that of storage, by the time of the file
        of the lease; 0 where it is not ahead, or storage tells no time. After a renewal it is less. This is
        one stat.
        """
        with self._lock:
            status = self.file_io.stat(self.path)
        return max(0, self.published_ms - status.mtime_ms) if status and status.mtime_ms else 0

    def release(self) -> None:
        """Release the lease, so that the next owner need not wait."""
        with self._lock:
            self._released = True
            self.file_io.overwrite(self.path, self._text(0))

    def publish(self) -> bool:
        """Create the record. False means that another run has this number."""
        self.published_ms = self.clock.now_ms()
        first = self._text(self.published_ms + self.millis)
        return publish_resolved(self.file_io, self.path, first, self.clock)

    def _text(self, until_ms: int) -> bytes:
        record = {"owner": self.owner, "until_ms": until_ms}
        if self.process is not None:
            record["process"] = self.process.to_json()
        return json.dumps(record).encode()


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """It says how long a lease is valid without a sign of life, and how long a run waits for it."""

    lease_ms: int
    """It is the wait after a killed run, where it cannot be seen that its process has ended: on another
    machine or in another container. A run that shows no sign of life for longer can be overtaken, which costs
    work, not data.
    """
    wait_ms: int = 0


@contextmanager
def leased(
    file_io: FileIO,
    warehouse: str,
    table: str,
    owner: str,
    clock: Clock,
    times: LeaseTimes,
) -> Iterator[Lease]:
    """Hold the table's lease within the block. Raises BusyError when another run holds it for longer than
    this one waits, InvalidInputError for a lease longer than `LONGEST_LEASE_MS`.
    """
    millis, wait_ms = times.lease_ms, times.wait_ms
    if not 0 < millis <= LONGEST_LEASE_MS:
        raise InvalidInputError(f"a lease of {millis} ms is not possible; use more than 0 and at most a day")
    places = _Places(service_files(file_io, warehouse), warehouse, table)
    lease = _acquire_in_time(places, owner, clock, millis, wait_ms)
    try:
        yield lease
    finally:
        _release(lease)


def _acquire_in_time(places: _Places, owner: str, clock: Clock, millis: int, wait_ms: int) -> Lease:
    started = clock.monotonic()
    waited = False
    while True:
        try:
            lease = _acquire(places, owner, clock, millis)
            lease.waited = waited
            return lease
        except BusyError as err:
            seconds_left = wait_ms / 1000 - (clock.monotonic() - started)
            if seconds_left <= 0:
                if waited:
                    raise BusyError(f"{err}; the job waited {wait_ms / 1000:g} s for the lease") from err
                raise
            if not waited:
                logger.info("%s; this job waits for it up to %g s", err, wait_ms / 1000)
            waited = True
            clock.sleep(min(_POLL_SECONDS, seconds_left))


def _acquire(places: _Places, owner: str, clock: Clock, millis: int) -> Lease:
    numbers = places.numbers()
    if numbers:
        _check_free(places, numbers[-1], owner, clock.now_ms())
    token = f"{owner} {clock.fresh_id()}"
    number = (numbers[-1] if numbers else 0) + 1
    lease = Lease(places.file_io, places.path(number), token, clock, millis, this_process())
    if not lease.publish():
        raise _overtaken(places)
    if places.numbers()[-1:] != [number]:
        # The number was free only because its lease has come and gone meanwhile: another one counts by now.
        _forget(places.file_io, lease.path)
        raise _overtaken(places)
    for older in numbers:
        _forget(places.file_io, places.path(older))
    return lease


def _overtaken(places: _Places) -> BusyError:
    return BusyError(f"{places.table}: another job took its lease just now; run again when that job is done")


def holder(file_io: FileIO, warehouse: str, table: str, now_ms: int) -> str | None:
    """Return who holds the table's lease now."""
    places = _Places(file_io, warehouse, table)
    numbers = places.numbers()
    record = _current_record(file_io, places.path(numbers[-1])) if numbers else _NOBODY
    return record.owner.rpartition(" ")[0] if record.holds(now_ms) else None


@dataclass(frozen=True, slots=True)
class _Places:
    """The paths of the leases of one table."""

    file_io: FileIO
    warehouse: str
    table: str

    @property
    def folder(self) -> str:
        name = file_name(table_key(self.table))
        return f"{self.warehouse.rstrip('/')}/.lakecore/leases/{name}"

    def numbers(self) -> list[int]:
        """Return the numbers in order."""
        numbers = (whole_number(status.name) for status in self.file_io.list(self.folder))
        return sorted(number for number in numbers if number is not None and number < _MOST_LEASES)

    def path(self, number: int) -> str:
        return f"{self.folder}/{number}"


@dataclass(frozen=True, slots=True)
class _Record:
    """What a file says: who holds the lease, until when, and in which process."""

    owner: str
    until_ms: int
    process: ProcessMark | None = None

    def holds(self, now_ms: int) -> bool:
        """Return whether the record holds the lease. A time that is too far away for a lease does not count,
        and an ended process holds nothing.
        """
        if not now_ms < self.until_ms <= now_ms + 2 * LONGEST_LEASE_MS:
            return False
        return not has_ended(self.process)


_NOBODY = _Record("", 0)


def _current_record(file_io: FileIO, path: str) -> _Record:
    """Return the record of a lease. Nobody holds a lease that was released, is half written by a process that
    ended, or is a link.
    """
    try:
        raw = json_object(file_io.read(path))
        mark = ProcessMark.from_json(raw.get("process"))
        return _Record(str(raw["owner"]), int(raw["until_ms"]), mark)
    except (NotFoundError, UnsupportedError, ValueError, KeyError, TypeError, OverflowError):
        return _NOBODY


def _check_free(places: _Places, number: int, asking: str, now_ms: int) -> None:
    record = _current_record(places.file_io, places.path(number))
    if not record.holds(now_ms) or record.owner.rpartition(" ")[0] == asking:
        return
    seconds = (record.until_ms - now_ms) // 1000
    error = BusyError(
        f"{places.table} is being maintained by {record.owner} (its lease lasts {seconds} s more): run again "
        "later, or wait for it"
    )
    error.add_note(f"if that process is dead, delete {places.path(number)}")
    raise error


def _forget(file_io: FileIO, path: str) -> None:
    try:
        file_io.delete(path)
    except LakeError:
        return  # an old number does not count: it only costs a line of the listing


def _release(lease: Lease) -> None:
    try:
        lease.release()
    except LakeError:
        return  # it runs out by itself
