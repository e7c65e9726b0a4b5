"""Commits on a table in memory: what snapshots hold, conflicts, overwrites, duplicates, races."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from lakecore.commit.duplicates import LOOK_BACK, commits_of
from lakecore.commit.request import Overwrite, Preconditions
from lakecore.errors import (
    CommitConflictError,
    CommitUncertainError,
    CorruptDataError,
    InvalidInputError,
    NotFoundError,
    UnavailableError,
)
from lakecore.metadata.manifest.data_file import EMPTY_ROW
from lakecore.metadata.snapshot import BATCH_IDENTIFIER, CommitKind
from lakecore.row.binary_row import encode_row
from tests.support.builders import commit_message, data_file, table_schema
from tests.support.commit_table import CommitTable
from tests.support.fault_fs import FaultMode, FaultyFileIO


@pytest.fixture
def table() -> CommitTable:
    return CommitTable().created()


def append(table: CommitTable, name: str, identifier: int, **arguments: Any) -> Any:
    return table.commit([commit_message(data_file(name))], identifier=identifier, **arguments)


def test_first_append(table: CommitTable) -> None:
    message = commit_message(data_file("a", rows=7), data_file("b", rows=5))
    result = table.commit([message], identifier=3, watermark=99, properties={"k": "v"})
    assert result.snapshot_ids == (1,)
    assert not result.duplicate
    found = table.snapshots.load(1)
    assert (found.commit_user, found.commit_identifier, found.commit_kind) == ("u", 3, CommitKind.APPEND)
    assert (found.total_record_count, found.delta_record_count) == (12, 12)
    assert (found.watermark, found.properties, found.version) == (99, {"k": "v"}, 3)
    assert table.manifests.read_list(found.base_manifest_list) == ()
    assert found.base_manifest_list_size == len(
        table.storage.read(table.paths.manifest(found.base_manifest_list))
    )
    assert table.live() == ["a", "b"]
    assert table.storage.read(table.paths.latest_hint) == b"1"
    assert table.storage.read(table.paths.earliest_hint) == b"1"


def test_data_then_compaction(table: CommitTable) -> None:
    append(table, "a", 1)
    message = commit_message(
        data_file("b", rows=3),
        changelog_files=(data_file("c", rows=3),),
        compact_before=(data_file("a"),),
        compact_after=(data_file("a", level=5),),
        compact_changelog=(data_file("d", rows=1),),
    )
    assert table.commit([message], identifier=2).snapshot_ids == (2, 3)
    assert table.history() == ["1 APPEND u/1", "2 APPEND u/2", "3 COMPACT u/2"]
    assert table.live() == ["a@5", "b"]
    data, compaction = table.snapshots.load(2), table.snapshots.load(3)
    assert (data.changelog_record_count, compaction.changelog_record_count) == (3, 1)
    assert (data.delta_record_count, compaction.delta_record_count) == (3, 0)
    assert compaction.total_record_count == 13
    kinds = [
        entry.kind.name
        for entry in table.manifests.read(table.manifests.read_list(compaction.delta_manifest_list)).rows()
    ]
    assert kinds == ["DELETE", "ADD"]


def test_nothing_to_commit(table: CommitTable) -> None:
    assert table.commit([], identifier=1).snapshot_ids == ()
    assert table.commit([commit_message()], identifier=1).snapshot_ids == ()
    assert table.commit([], identifier=1, overwrite=Overwrite.dynamic()).snapshot_ids == ()
    assert table.commit([], identifier=1, overwrite=Overwrite.table()).snapshot_ids == ()
    assert table.history() == []
    assert table.orphans() == set()


def test_what_is_carried_over(table: CommitTable) -> None:
    append(table, "a", 1, watermark=50, properties={"only": "here"})
    first = table.snapshots.load(1)
    table.storage.overwrite(table.paths.statistics("stat-1"), b'{"schemaId": 0}')
    carried = replace(
        first,
        index_manifest="index-manifest-1",
        statistics="stat-1",
        next_row_id=17,
        time_millis=first.time_millis + 10**9,
    )
    table.storage.overwrite(table.paths.snapshot(1), carried.to_json().encode())
    append(table, "b", 2, watermark=20)
    found = table.snapshots.load(2)
    assert (found.index_manifest, found.statistics, found.next_row_id) == ("index-manifest-1", "stat-1", 17)
    assert (found.watermark, found.properties) == (50, None)
    assert found.time_millis == carried.time_millis
    assert found.total_record_count == 20


@pytest.mark.parametrize("content", [b'{"schemaId": 7}', b"{", None])
def test_statistics_of_another_schema_are_dropped(table: CommitTable, content: bytes | None) -> None:
    append(table, "a", 1)
    first = replace(table.snapshots.load(1), statistics="stat-1")
    table.storage.overwrite(table.paths.snapshot(1), first.to_json().encode())
    if content is not None:
        table.storage.overwrite(table.paths.statistics("stat-1"), content)
    append(table, "b", 2)
    assert table.snapshots.load(2).statistics is None


def test_a_record_count_that_old_writers_left_out_is_counted(table: CommitTable) -> None:
    append(table, "a", 1)
    first = replace(table.snapshots.load(1), total_record_count=None)
    table.storage.overwrite(table.paths.snapshot(1), first.to_json().encode())
    append(table, "b", 2)
    assert table.snapshots.load(2).total_record_count == 20


def test_the_latest_schema_is_named(table: CommitTable) -> None:
    table.schemas.publish(replace(table.schema, id=1))
    append(table, "a", 1)
    assert table.snapshots.load(1).schema_id == 1


# conflicts


def test_a_compaction_of_files_that_are_gone_names_them_and_leaves_nothing(table: CommitTable) -> None:
    append(table, "a", 1)
    message = commit_message(
        compact_before=(data_file("a"), data_file("gone")), compact_after=(data_file("b", level=5),)
    )
    with pytest.raises(CommitConflictError, match=r"conflicts with snapshot 1: gone in bucket 0") as caught:
        table.commit([message], identifier=2)
    assert caught.value.files == ((EMPTY_ROW, 0, "gone"),)
    assert table.history() == ["1 APPEND u/1"]
    assert table.orphans() == set()


def test_data_stays_when_only_its_compaction_conflicts(table: CommitTable) -> None:
    message = commit_message(data_file("a"), compact_before=(data_file("gone"),))
    result = table.commit([message], identifier=1)
    assert result.snapshot_ids == (1,)
    assert result.compaction_conflict is not None
    assert result.compaction_conflict.files == ((EMPTY_ROW, 0, "gone"),)
    assert table.live() == ["a"]


def test_rows_are_added_once_where_their_place_depends_on_the_whole_table(table: CommitTable) -> None:
    """Its own rows do not refuse the compaction that comes with them, nor do those of others in between."""
    append(table, "a", 1)
    read = Preconditions(read_snapshot=table.snapshots.load(1), whole_table=True, hash_indexes={})
    message = commit_message(
        data_file("b"), compact_before=(data_file("a"),), compact_after=(data_file("a", level=5),)
    )
    rival = partial(append, table, "fast", 1, commit_user="other")
    steps: list[Callable[[], Any]] = [lambda: None, rival]
    racing = table.through(Racing(table, steps))
    result = racing.commit([message], identifier=2, preconditions=read)
    assert (result.snapshot_ids, result.compaction_conflict) == ((2, 4), None)
    assert table.live() == ["a@5", "b", "fast"]
    with pytest.raises(CommitConflictError, match="added rows, perhaps with the same keys"):
        append(table, "c", 3, preconditions=read)


def test_an_append_is_checked_when_asked(table: CommitTable) -> None:
    append(table, "a", 1)
    with pytest.raises(CommitConflictError, match="in the table already"):
        append(table, "a", 2, check_append=True)


def test_removing_files_makes_an_overwrite(table: CommitTable) -> None:
    append(table, "a", 1)
    table.commit([commit_message(data_file("b"), deleted_files=(data_file("a"),))], identifier=2)
    assert table.history()[-1] == "2 OVERWRITE u/2"
    assert table.live() == ["b"]


# cost


def manifests_read(table: CommitTable, commit: Callable[[CommitTable], Any]) -> int:
    """How many manifests (not lists) a commit reads."""
    storage = FaultyFileIO(table.storage)
    commit(table.through(storage))
    reads = [line.rpartition("/")[2] for line in storage.log if line.startswith(("read", "open_input"))]
    return sum(name.startswith("manifest-") and not name.startswith("manifest-list") for name in reads)


def test_an_append_reads_no_manifest(table: CommitTable) -> None:
    for number in range(5):
        append(table, f"f{number}", number)
    assert manifests_read(table, lambda other: append(other, "g", 9)) == 0


def test_a_compaction_reads_the_manifests_of_its_partition(partitioned: CommitTable) -> None:
    message = commit_message(
        compact_before=(data_file("x1"),), compact_after=(data_file("x2"),), partition=partition("x")
    )
    assert manifests_read(partitioned, lambda other: other.commit([message], identifier=9)) == 1
    assert partitioned.live() == ["x2", "y1", "z1"]


def test_a_retry_reads_only_what_is_new(table: CommitTable) -> None:
    for number in range(5):
        append(table, f"f{number}", number)
    message = commit_message(compact_before=(data_file("f0"),), compact_after=(data_file("g", level=5),))
    steps = [lambda: append(table, "fast", 1, commit_user="other")]
    racing = Racing(table, steps)
    table.through(racing).commit([message], identifier=9)
    names = [line.rpartition("/")[2] for line in racing.log if line.startswith("read ")]
    manifests = [n for n in names if n.startswith("manifest-") and not n.startswith("manifest-list")]
    assert len(manifests) == 5 + 1


# overwrites

PARTITIONED = table_schema(
    "k BIGINT NOT NULL, dt STRING NOT NULL, v INT", primary_keys=(), partition_keys=("dt",)
)


def partition(value: str) -> bytes:
    return encode_row((value,), PARTITIONED.partition_type)


@pytest.fixture
def partitioned() -> CommitTable:
    table = CommitTable(PARTITIONED).created()
    for number, value in enumerate("xyz"):
        message = commit_message(data_file(f"{value}1"), partition=partition(value))
        table.commit([message], identifier=number, commit_user="setup")
    return table


@pytest.mark.parametrize(
    ("overwrite", "written", "live"),
    [
        (Overwrite.dynamic(), "x", ["new", "y1", "z1"]),
        (Overwrite.static({"dt": "x"}), "x", ["new", "y1", "z1"]),
        (Overwrite.static({"dt": "x"}, {"dt": "z"}), "x", ["new", "y1"]),
        (Overwrite.static({"dt": "x"}), None, ["y1", "z1"]),
        (Overwrite.table(), "q", ["new"]),
        (Overwrite.table(), None, []),
    ],
)
def test_overwrite(
    partitioned: CommitTable, overwrite: Overwrite, written: str | None, live: list[str]
) -> None:
    messages = [commit_message(data_file("new"), partition=partition(written))] if written else []
    result = partitioned.commit(messages, identifier=2, overwrite=overwrite)
    assert len(result.snapshot_ids) == 1
    assert partitioned.history()[-1] == "4 OVERWRITE u/2"
    assert partitioned.live() == live
    assert partitioned.snapshots.load(4).total_record_count == 10 * len(live)


def test_an_overwrite_of_nothing_with_nothing_is_no_commit(partitioned: CommitTable) -> None:
    assert not partitioned.commit([], identifier=2, overwrite=Overwrite.static({"dt": "q"})).snapshot_ids
    assert partitioned.orphans() == set()


def test_new_files_outside_the_overwritten_partitions_are_refused(partitioned: CommitTable) -> None:
    message = commit_message(data_file("new"), partition=partition("y"))
    with pytest.raises(InvalidInputError, match="partitions that are not to be overwritten"):
        partitioned.commit([message], identifier=2, overwrite=Overwrite.static({"dt": "x"}))
    with pytest.raises(InvalidInputError, match="'hh' is not a partition column; partition columns: dt"):
        partitioned.commit([message], identifier=2, overwrite=Overwrite.static({"hh": 1}))


# duplicates


def test_a_repeated_commit_is_recognised_by_a_new_process(table: CommitTable) -> None:
    message = commit_message(data_file("a"), compact_after=(data_file("b", level=5),))
    first = table.commit([message], identifier=1)
    append(table, "later", 1, commit_user="other")
    again = table.commit([message], identifier=1)
    assert again.snapshot_ids == first.snapshot_ids == (1, 2)
    assert again.duplicate
    assert table.live() == ["a", "b@5", "later"]


def test_the_half_that_is_missing_is_committed(table: CommitTable) -> None:
    append(table, "a", 1)
    message = commit_message(
        data_file("a"), compact_before=(data_file("a"),), compact_after=(data_file("b"),)
    )
    result = table.commit([message], identifier=1)
    assert result.snapshot_ids == (1, 2)
    assert not result.duplicate
    assert table.live() == ["b"]


def test_other_users_identifiers_and_kinds_are_other_commits(table: CommitTable) -> None:
    append(table, "a", 1)
    append(table, "b", 2)
    append(table, "c", 1, commit_user="v")
    table.commit([commit_message(compact_after=(data_file("d"),))], identifier=1)
    assert len(table.history()) == 4
    assert [found.id for found in commits_of(table.snapshots, "u")] == [4, 2, 1]


def test_batch_identifiers_tell_nothing_apart(table: CommitTable) -> None:
    append(table, "a", BATCH_IDENTIFIER)
    append(table, "b", BATCH_IDENTIFIER)
    assert table.live() == ["a", "b"]


def test_the_search_has_a_bound(table: CommitTable) -> None:
    append(table, "a", 1)
    first = table.snapshots.load(1)
    for number in range(2, LOOK_BACK + 2):
        table.snapshots.publish(replace(first, id=number, commit_user="other"))
    storage = FaultyFileIO(table.storage)
    append(table.through(storage), "b", 1)
    assert table.live() == ["a", "b"]
    assert sum("read" in line and "snapshot-" in line for line in storage.log) <= LOOK_BACK + 3


# races


class Racing(FaultyFileIO):
    """Before each publish of a snapshot, somebody else is faster, some times."""

    def __init__(self, table: CommitTable, steps: list[Callable[[], Any]]) -> None:
        super().__init__(table.storage)
        self.steps = steps

    def publish(self, path: str, data: bytes) -> bool:
        if "/snapshot/" in path and self.steps:
            self.steps.pop(0)()
        return super().publish(path, data)


def test_a_lost_race_is_planned_again(table: CommitTable) -> None:
    append(table, "a", 1)
    steps = [lambda n=n: append(table, f"fast{n}", n, commit_user="other") for n in range(3)]
    result = append(table.through(Racing(table, steps)), "b", 2)
    assert result.snapshot_ids == (5,)
    assert table.live() == ["a", "b", "fast0", "fast1", "fast2"]
    assert table.snapshots.load(5).total_record_count == 50
    assert table.orphans() == set()
    assert len(table.clock.slept) == 3


def test_a_compaction_survives_appends_and_sees_compactions(table: CommitTable) -> None:
    append(table, "a", 1)
    compaction = commit_message(compact_before=(data_file("a"),), compact_after=(data_file("b", level=5),))
    steps = [lambda: append(table, "fast", 1, commit_user="other")]
    assert table.commit([], identifier=2).snapshot_ids == ()
    racing = table.through(Racing(table, list(steps)))
    assert racing.commit([compaction], identifier=2).snapshot_ids == (3,)
    assert table.live() == ["b@5", "fast"]
    second = commit_message(
        compact_before=(data_file("b", level=5),), compact_after=(data_file("c", level=5),)
    )
    rival = commit_message(
        compact_before=(data_file("b", level=5),), compact_after=(data_file("d", level=5),)
    )
    steps = [lambda: table.commit([rival], identifier=1, commit_user="rival")]
    with pytest.raises(CommitConflictError, match="b in bucket 0"):
        table.through(Racing(table, steps)).commit([second], identifier=3)
    assert table.live() == ["d@5", "fast"]
    assert table.orphans() == set()


def test_an_overwrite_replaces_what_came_meanwhile(partitioned: CommitTable) -> None:
    late = commit_message(data_file("late"), partition=partition("x"))
    steps = [lambda: partitioned.commit([late], identifier=1, commit_user="other")]
    racing = partitioned.through(Racing(partitioned, steps))
    message = commit_message(data_file("new"), partition=partition("x"))
    racing.commit([message], identifier=2, overwrite=Overwrite.dynamic())
    assert partitioned.live() == ["new", "y1", "z1"]


def test_our_own_twin_was_faster(table: CommitTable) -> None:
    """The scheduler started the task twice: the slower one notices while it retries."""
    result = append(table.through(Racing(table, [lambda: append(table, "twin", 1)])), "a", 1)
    assert result.duplicate
    assert table.live() == ["twin"]
    assert table.orphans() == set()


def test_giving_up(table: CommitTable) -> None:
    steps = [lambda n=n: append(table, f"fast{n}", n, commit_user="other") for n in range(5)]
    racing = table.through(Racing(table, steps))
    with pytest.raises(UnavailableError, match=r"first 3 times.*max-retries"):
        append(racing, "b", 2, options={"commit.max-retries": "2"})
    assert table.orphans() == set()


def test_a_snapshot_that_expires_while_planning(table: CommitTable) -> None:
    """Expiry removes a manifest that the plan needs, after a newer snapshot has appeared."""
    append(table, "a", 1)
    first = table.snapshots.load(1)

    class Expiring(FaultyFileIO):
        def read(self, path: str) -> bytes:
            if first.delta_manifest_list in path and len(table.history()) == 1:
                append(table, "b", 2, commit_user="other")
                raise NotFoundError(path)
            return super().read(path)

    append(table.through(Expiring(table.storage)), "c", 1, commit_user="v")
    assert table.live() == ["a", "b", "c"]


def test_a_lost_manifest_is_an_error(table: CommitTable) -> None:
    append(table, "a", 1)
    table.storage.delete(table.paths.manifest(table.snapshots.load(1).delta_manifest_list))
    with pytest.raises(
        CorruptDataError, match=r"snapshot-1: needs a file that does not exist: .*manifest-list"
    ):
        append(table, "b", 2)


# refusals and doubts


def test_no_table_here() -> None:
    with pytest.raises(NotFoundError, match="has no schema any more"):
        append(CommitTable(), "a", 1)


def test_an_uncertain_outcome_deletes_nothing_and_is_found_later(table: CommitTable) -> None:
    class Doubtful(FaultyFileIO):
        """Publishes, then loses the connection for good."""

        lost = False

        def publish(self, path: str, data: bytes) -> bool:
            super().publish(path, data)
            self.lost = True
            raise CommitUncertainError("timeout")

        def operation(self, name: str, path: str, effect: Any, torn: Any = None) -> Any:
            if self.lost:
                raise UnavailableError("no connection")
            return super().operation(name, path, effect, torn)

    with pytest.raises(CommitUncertainError, match="delete nothing"):
        append(table.through(Doubtful(table.storage)), "a", 1)
    assert table.live() == ["a"]
    assert append(table, "a", 1).duplicate


def test_a_full_disk_says_so_and_leaves_nothing(table: CommitTable) -> None:
    append(table, "a", 1)
    clean = FaultyFileIO(table.storage)
    append(table.through(clean), "b", 2)
    at = next(i for i, line in enumerate(clean.log, 1) if line.startswith("publish"))
    broken = FaultyFileIO(table.storage, at, FaultMode.ERROR)
    with pytest.raises(UnavailableError, match="injected"):
        append(table.through(broken), "c", 3)
    assert table.live() == ["a", "b"]
    assert table.orphans() == set()
