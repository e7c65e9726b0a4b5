"""Steps of the tests of holds: place one, damage a table, look what is on hold."""

from __future__ import annotations

from typing import Any

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.jobs import expire_snapshots, fsck, holds
from lakecore.maintain.holds.record import EndsWith
from tests.support.lake import live_files
from tests.support.maintained import OWNER, History

EXPIRE = expire_snapshots.Job(table="d.k", retain_max=1, retain_min=1, safety=OWNER)


def hold(made: History, reason: str = "look at it first") -> None:
    holds.run(
        holds.HoldTable(table=made.table.name, reason=reason, user="ann"),
        made.catalog,
        clock=made.catalog.clock,
    )


def expire(lake: FilesystemCatalog) -> Any:
    return expire_snapshots.run(EXPIRE, lake, clock=lake.clock)


def check(made: History, **how: Any) -> fsck.CheckResult:
    return fsck.run(fsck.Job(table=made.table.name, **how), made.catalog, clock=made.catalog.clock)


def on_hold(made: History) -> list[EndsWith]:
    return [one.ends_with for one in holds.holds_of(made.catalog)]


def data_path(made: History) -> str:
    return f"{made.table.path}/bucket-0/{live_files(made.table)[0].file_name}"


def lose_a_file(made: History) -> bytes:
    data: bytes = made.catalog.file_io.read(data_path(made))
    made.catalog.file_io.delete(data_path(made))
    return data


def flip_a_manifest(made: History) -> tuple[str, bytes]:
    latest = made.table._stores.snapshots.latest()
    assert latest is not None
    path = made.table._stores.paths.manifest(
        made.table._stores.manifests.data_manifests(latest)[-1].file_name
    )
    data = made.catalog.file_io.read(path)
    made.catalog.file_io.overwrite(path, data[:40] + bytes([data[40] ^ 0xFF]) + data[41:])
    return path, data


def tables_files(made: History) -> frozenset[tuple[str, bytes]]:
    return made.state()
