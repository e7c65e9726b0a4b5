"""An advisory lease a table: two lakecore chores do not work on one table at once.

Leases are numbered files, `<warehouse>/.lakecore/leases/<table>/<number>`; the highest counts. Each is
created atomically, so of several that want to follow an expired one, one gets it.
"""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lakecore.clock import Clock
from lakecore.errors import BusyError, LakeError, NotFoundError
from lakecore.fs.confined import service_files
from lakecore.fs.file_io import FileIO
from lakecore.fs.publish import publish_resolved
from lakecore.maintain.runs import table_key
from lakecore.metadata.json_record import json_object, whole_number

_MOST_LEASES = 10**15
"""Nobody has taken so many: a file of a higher number is forged, and there would be no number after it."""

__all__ = ["Lease", "holder", "leased"]


@dataclass
class Lease:
    """A lease that this process holds, for `millis` since the last sign of life."""

    file_io: FileIO
    path: str
    owner: str
    clock: Clock
    millis: int

    def renew(self) -> None:
        """A sign of life."""
        self.file_io.overwrite(self.path, _text(self.owner, self.clock.now_ms() + self.millis))

    def release(self) -> None:
        """The next one need not wait."""
        self.file_io.overwrite(self.path, _text(self.owner, 0))


@contextmanager
def leased(
    file_io: FileIO, warehouse: str, table: str, owner: str, clock: Clock, millis: int
) -> Iterator[Lease]:
    """Hold the table's lease within the block. Raises BusyError while somebody else holds it.

    `millis` is the wait after a killed run; a run that shows no sign of life for longer can be overtaken,
    which costs work, not data.
    """
    file_io = service_files(file_io, warehouse)
    folder, numbers = _numbered(file_io, warehouse, table)
    if numbers:
        _check_free(file_io, f"{folder}/{numbers[-1]}", table, owner, clock.now_ms())
    token = f"{owner} {clock.fresh_id()}"
    path = f"{folder}/{(numbers[-1] if numbers else 0) + 1}"
    if not publish_resolved(file_io, path, _text(token, clock.now_ms() + millis), clock):
        raise BusyError(f"{table}: another chore took its lease just now; run again when it is done")
    lease = Lease(file_io, path, token, clock, millis)
    for number in numbers:
        _forget(file_io, f"{folder}/{number}")
    try:
        yield lease
    finally:
        _release(lease)


def holder(file_io: FileIO, warehouse: str, table: str, now_ms: int) -> str | None:
    """Who holds the table's lease now."""
    folder, numbers = _numbered(file_io, warehouse, table)
    owner, until = _held(file_io, f"{folder}/{numbers[-1]}") if numbers else ("", 0)
    return owner.rpartition(" ")[0] if until > now_ms else None


def _numbered(file_io: FileIO, warehouse: str, table: str) -> tuple[str, list[int]]:
    """The folder of the table's leases, and their numbers in order."""
    folder = f"{warehouse.rstrip('/')}/.lakecore/leases/{urllib.parse.quote(table_key(table), safe='')}"
    found = (whole_number(status.name) for status in file_io.list(folder))
    return folder, sorted(number for number in found if number is not None and number < _MOST_LEASES)


def _held(file_io: FileIO, path: str) -> tuple[str, int]:
    """Owner and end of a lease; none for one that was released, or half written by a process that is gone."""
    try:
        raw = json_object(file_io.read(path))
        return str(raw["owner"]), int(raw["until_ms"])
    except (NotFoundError, ValueError, KeyError, TypeError):
        return "", 0


def _check_free(file_io: FileIO, path: str, table: str, asking: str, now_ms: int) -> None:
    owner, until = _held(file_io, path)
    if until > now_ms and owner.rpartition(" ")[0] != asking:
        raise BusyError(
            f"{table} is being maintained by {owner} (lease for {(until - now_ms) // 1000} s more): run "
            "again "
            f"later; if that process is dead, delete {path}"
        )


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


def _text(owner: str, until_ms: int) -> bytes:
    return json.dumps({"owner": owner, "until_ms": until_ms}).encode()
