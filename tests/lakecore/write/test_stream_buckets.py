"""The state of buckets from commit to commit is that which the manifests of the last snapshot give."""

from __future__ import annotations

import errno
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.jobs import compact, expire_snapshots
from lakecore.jobs.versions import rollback
from lakecore.spark.data_source.batch_commits import buckets_at_start
from lakecore.table import Table
from lakecore.write.assigned import AssignedBy, StreamBuckets
from lakecore.write.buckets.local_state import LocalState
from lakecore.write.session import WriteSession
from tests.support.fault_fs import FaultyFileIO
from tests.support.lake import key_table, memory_catalog, put
from tests.support.maintained import OWNER

COLUMNS = ("k INT", "p INT", "v STRING")
FIXED, DYNAMIC = {"bucket": "2"}, {"bucket": "-1", "dynamic_bucket__target_row_num": "5"}
MOVING = {**DYNAMIC, "moves": ""}
MODES = pytest.mark.parametrize("options", [FIXED, DYNAMIC, MOVING], ids=["fixed", "dynamic", "moving keys"])


def table_of(catalog: FilesystemCatalog, options: dict[str, str]) -> Table:
    keys = ("k",) if "moves" in options else ("k", "p")
    raw = {key: value for key, value in options.items() if key != "moves"}
    return key_table(catalog, COLUMNS, keys, ("p",), **raw)


def session_of(table: Table) -> WriteSession:
    return table._session(table._with_user(None))


def rows(chance: random.Random) -> list[dict[str, Any]]:
    kinds = ["+I", "+I", "-D"]
    numbers = [chance.randrange(20) for _ in range(6)]
    return [{"k": k, "p": k % 3, "v": "x", "_kind": chance.choice(kinds)} for k in numbers]


def change(chance: random.Random, catalog: FilesystemCatalog, table: Table) -> None:
    """One change by somebody else."""
    ids = table._stores.snapshots.list_ids()
    kind = chance.choice([*["write"] * 6, "compact", "compact", "overwrite", "rollback", "expire", "nothing"])
    match kind:
        case "write":
            put(table, *(rows(chance) for _ in range(chance.randint(1, 3))))
        case "compact":
            compact.run(compact.Job(table=table.name, strategy=compact.Strategy.FULL), catalog)
        case "overwrite":
            added = pa.table({"k": pa.array([1], pa.int32()), "p": pa.array([1], pa.int32()), "v": ["x"]})
            table.overwrite(added, dynamic=chance.random() < 0.5)
        case "rollback" if len(ids) > 1:
            back = rollback.RollbackTo(table=table.name, snapshot=chance.choice(ids[:-1]), safety=OWNER)
            rollback.run(back, catalog, clock=catalog.clock)
        case "expire":
            job = expire_snapshots.Job(table=table.name, retain_max=1, retain_min=1, safety=OWNER)
            expire_snapshots.run(job, catalog, clock=catalog.clock)


def check(found: AssignedBy, table: Table) -> None:
    expected = session_of(table).bucket_state()
    assert found.snapshot == expected.snapshot
    if found.buckets is None:
        assert expected.snapshot is None
        return
    partitions = {partition for partition, _ in expected.next_sequences} | expected.hash_files.keys()
    assert found.buckets._parts.keys() == partitions
    for partition in partitions:
        assert found.buckets.total(partition) == expected.total(partition)
        assert set(found.buckets.buckets(partition)) == set(expected.buckets(partition))
        assert found.buckets.hash_files_of(partition) == expected.hash_files_of(partition)
        for bucket in expected.buckets(partition):
            known, least = (one.next_sequence(partition, bucket) for one in (found.buckets, expected))
            assert known >= least, "a lower number would let older rows win"


@MODES
@pytest.mark.parametrize("seed", range(2))
def test_beside_another_writer(options: dict[str, str], seed: int, tmp_path: Path) -> None:
    chance, catalog = random.Random(seed), memory_catalog()
    table = table_of(catalog, options)
    buckets = StreamBuckets()
    for _ in range(8 if options is MOVING else 20):
        change(chance, catalog, table)
        catalog.clock.sleep(1)
        check(buckets.latest(session_of(table)), table)
        if chance.random() < 0.7:  # else the process that has the local file misses some changes
            check(new_process(table, tmp_path).latest(session_of(table)), table)


def new_process(table: Table, directory: Path) -> StreamBuckets:
    return StreamBuckets(LocalState(table._stores.paths, str(directory)))


def manifests_read(buckets: StreamBuckets, table: Table) -> list[str]:
    files = FaultyFileIO(table._stores.file_io)
    session = session_of(replace(table, _stores=replace(table._stores, file_io=files)))
    buckets.latest(session)
    return [one for one in files.log if "/manifest/" in one]


@pytest.mark.parametrize("options", [FIXED, DYNAMIC], ids=["fixed", "dynamic"])
def test_only_changes_are_read(options: dict[str, str]) -> None:
    catalog = memory_catalog()
    table = table_of(catalog, options)
    put(table, *([{"k": k, "p": k % 3, "v": "x"}] for k in range(20)))
    buckets = StreamBuckets()
    assert len(manifests_read(buckets, table)) > 20
    dynamic = int(options is DYNAMIC)  # the index manifest
    put(table, [{"k": 1, "p": 1, "v": "y"}])
    assert len(manifests_read(buckets, table)) == 2 + dynamic, "a list and a manifest"
    assert manifests_read(buckets, table) == []
    compact.run(compact.Job(table=table.name, strategy=compact.Strategy.FULL), catalog)
    assert len(manifests_read(buckets, table)) == 2 + dynamic
    put(table, *([{"k": 1, "p": 1, "v": "z"}] for _ in range(51)))
    check(buckets.latest(session_of(table)), table)


@MODES
def test_the_process_of_the_next_commit_reads_only_changes(options: dict[str, str], tmp_path: Path) -> None:
    """Processes follow each other as with the format `lakecore`, where Spark starts two for each micro-batch."""
    catalog = memory_catalog()
    table = table_of(catalog, options)
    put(table, *([{"k": k, "p": k % 3, "v": "x"}] for k in range(20)))
    assert len(manifests_read(new_process(table, tmp_path), table)) > 20
    index = int(options is DYNAMIC)
    for number in range(3):
        put(table, [{"k": number, "p": number % 3, "v": "y"}])
        assert len(manifests_read(new_process(table, tmp_path), table)) == 2 + index
        assert len(manifests_read(new_process(table, tmp_path), table)) == index
        check(new_process(table, tmp_path).latest(session_of(table)), table)


def test_a_local_file_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs a read of all manifests. A wrong number in it would let older rows win."""
    catalog = memory_catalog()
    table = table_of(catalog, FIXED)
    put(table, [{"k": 1, "p": 1, "v": "x"}], [{"k": 2, "p": 2, "v": "x"}])
    buckets_at(table, tmp_path)
    path = Path(LocalState(table._stores.paths, str(tmp_path)).path)
    whole = path.read_bytes()
    changed = whole[:-40] + bytes([whole[-40] ^ 1]) + whole[-39:]
    for content in (b"", whole[:30], whole[:-1], changed):
        path.write_bytes(content)
        assert len(manifests_read(new_process(table, tmp_path), table)) == 4
        assert path.read_bytes() == whole
    path.parent.chmod(0o755)  # others could change it
    assert len(manifests_read(new_process(table, tmp_path), table)) == 4
    path.parent.chmod(0o700)
    assert manifests_read(new_process(table, tmp_path), table) == []

    def full_disk(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    put(table, [{"k": 1, "p": 1, "v": "y"}])
    monkeypatch.setattr("os.replace", full_disk)
    buckets_at(table, tmp_path)
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def buckets_at(table: Table, directory: Path) -> None:
    check(new_process(table, directory).latest(session_of(table)), table)


def test_streams_need_no_state_of_postponed_buckets() -> None:
    table = table_of(memory_catalog(), {"bucket": "-2", "postpone__default_bucket_num": "2"})
    put(table, [{"k": 1, "p": 1, "v": "x"}])
    assert session_of(table).bucket_state().next_sequences
    at_start = buckets_at_start(table)
    assert (at_start.snapshot, at_start.buckets) == (table.latest_snapshot(), None)
