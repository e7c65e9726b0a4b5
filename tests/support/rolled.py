"""A table that is rolled forward, commit by commit: what a chore does at each of its earlier states."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.fs.memory import MemoryFileIO
from lakecore.table import Table
from tests.support.fake_clock import FakeClock
from tests.support.lake import paths_of

__all__ = ["RolledTable", "go_back"]


def go_back(catalog: FilesystemCatalog, number: int) -> None:
    """Roll `d.k` back to a snapshot as Java does, which holds no lease: it removes the newer ones."""
    stores = catalog.load_table("d.k")._stores
    catalog.file_io.overwrite(stores.paths.latest_hint, b"%d" % number)
    for snapshot in range(max(stores.snapshots.list_ids()), number, -1):
        catalog.file_io.delete(stores.paths.snapshot(snapshot))


@dataclass(frozen=True)
class RolledTable:
    """A table in memory with the snapshots up to one, while all other files are there; `clock` is that of its catalog."""

    catalog: FilesystemCatalog
    table: Table
    snapshots: dict[int, bytes]
    tags: dict[str, tuple[int, bytes]]
    """When each tag is made, and its content."""

    @classmethod
    def of(cls, catalog: FilesystemCatalog, table: Table, tags: dict[str, int] | None = None) -> RolledTable:
        """`tags`: when each was made."""
        stores, storage = table._stores, catalog.file_io
        snapshots = {i: storage.read(stores.paths.snapshot(i)) for i in stores.snapshots.list_ids()}
        made = {name: (at, storage.read(stores.paths.tag(name))) for name, at in (tags or {}).items()}
        return cls(catalog, table, snapshots, made)

    def forward(self) -> Iterator[int]:
        """Make one snapshot after the other appear, at the time of its commit, with the tags made by then."""
        stores, storage, clock = self.table._stores, self.catalog.file_io, self.catalog.clock
        assert isinstance(storage, MemoryFileIO)
        assert isinstance(clock, FakeClock)
        times = {i: stores.snapshots.load(i).time_millis for i in self.snapshots}
        for number in self.snapshots:
            storage.delete(stores.paths.snapshot(number))
        for name in self.tags:
            storage.delete(stores.paths.tag(name))
        for hint in (stores.paths.latest_hint, stores.paths.earliest_hint):
            if storage.stat(hint) is not None:
                storage.delete(hint)
        later = dict(self.tags)
        for number, content in self.snapshots.items():
            clock.time_ms = times[number]
            storage.write_new(stores.paths.snapshot(number), content)
            storage.overwrite(stores.paths.latest_hint, str(number).encode())
            for name in [name for name, (at, _) in later.items() if at <= times[number]]:
                storage.write_new(stores.paths.tag(name), later.pop(name)[1])
            yield number

    def files(self) -> set[str]:
        return paths_of(self.table, "")
