"""A rescaling whose commit is not what was proven, or whose proof is refused: for that partition alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from lakecore.compact.kinds.rescale import apply as rescale_apply
from lakecore.compact.kinds.rescale import commit as rescale_commit
from lakecore.errors import ProofError
from lakecore.jobs import rescale
from lakecore.jobs.rescale import Job
from lakecore.metadata.commit_message import CommitMessage
from lakecore.verify.fsck.check import fsck
from tests.lakecore.compact.test_rescale import keyed, totals
from tests.support.lake import memory_catalog, paths_of, rows_of

Messages = list[CommitMessage]


def without_an_old_file(found: Messages) -> Messages:
    return [replace(m, deleted_files=m.deleted_files[1:]) for m in found]


def with_a_file_twice(found: Messages) -> Messages:
    return [replace(m, new_files=m.new_files * 2) for m in found]


def into_another_bucket(found: Messages) -> Messages:
    return [replace(m, bucket=(m.bucket + 1) % m.total_buckets) if m.new_files else m for m in found]


def with_another_count(found: Messages) -> Messages:
    return [replace(m, total_buckets=m.total_buckets + 1) if m.new_files else m for m in found]


def with_another_description(found: Messages) -> Messages:
    return [replace(m, new_files=tuple(replace(f, row_count=1) for f in m.new_files)) for m in found]


FAULTS: tuple[Callable[[Messages], Messages], ...] = (
    without_an_old_file,
    with_a_file_twice,
    into_another_bucket,
    with_another_count,
    with_another_description,
)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_partition_that_is_not_what_was_proven_is_refused_alone(
    fault: Callable[[Messages], Messages], monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = memory_catalog("rescale-check")
    table = keyed(catalog, 2)
    rows, right = rows_of(table), rescale_commit._messages
    bad = next(partition for partition in totals(table) if b"x" in partition)

    def wrong(moved: Any, index_files: Any) -> Iterator[CommitMessage]:
        found = list(right(moved, index_files))
        yield from fault(found) if moved.pick.partition == bad else found

    with monkeypatch.context() as patch:
        patch.setattr(rescale_commit, "_messages", wrong)
        with pytest.raises(ProofError, match=r"p=x.*fsck --deep d\.k"):
            rescale.run(Job(table=table.name, bucket_num=3), catalog, clock=catalog.clock)
    assert {partition == bad: count for partition, count in totals(table).items()} == {True: {2}, False: {3}}
    assert rows_of(table) == rows
    assert (
        fsck(
            table._stores.file_io, table._stores.paths, now_ms=catalog.clock.now_ms(), read_data=True
        ).findings
        == ()
    )


def test_nothing_is_left_of_partitions_whose_proof_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = memory_catalog("rescale-check")
    table = keyed(catalog, 2)
    before = paths_of(table, "/bucket-")

    def refuse(*_: Any) -> Any:
        raise ProofError("p", "its outputs hold other rows")

    monkeypatch.setattr(rescale_apply, "prove_pick", refuse)
    with pytest.raises(ProofError, match="1 more picks failed, too"):
        rescale.run(Job(table=table.name, bucket_num=3), catalog, clock=catalog.clock)
    assert paths_of(table, "/bucket-") == before
