"""Two that give one name to tags: the second hears of it, and no tag is lost."""

from __future__ import annotations

import pytest

from lakecore.errors import AlreadyExistsError
from lakecore.jobs.versions import tags
from lakecore.maintain.tags.apply import aged_tags
from lakecore.maintain.target import Target
from tests.support.lake import append_table, memory_catalog, put
from tests.support.maintained import history
from tests.support.meddling_fs import Meddling


def test_a_tag_that_is_renamed_leaves_one_alone_that_has_just_got_the_name() -> None:
    made = history("tags-renamed")
    storage, paths = made.catalog.file_io, made.table._stores.paths
    others = storage.read(paths.tag("b"))

    def meanwhile() -> None:
        storage.write_new(paths.tag("new"), others)

    lake = made.through(Meddling(storage, "publish", paths.tag("new"), meanwhile))
    with pytest.raises(AlreadyExistsError, match="new"):
        tags.run(tags.RenameTag(table="d.k", tag="a", target_tag="new"), lake, clock=lake.clock)
    assert storage.read(paths.tag("new")) == others
    assert made.table._stores.tags.load("a").id == 2


def test_the_age_of_a_tag_counts_from_the_wall_clock_of_its_writer() -> None:
    made = history("tags-aged")
    job = tags.CreateTag(table="d.k", tag="aged", snapshot=2, time_retained_ms=1000)
    tags.run(job, made.catalog, clock=made.catalog.clock)
    table = made.table
    target = Target(table.name, made.catalog.warehouse, table._stores)
    (here,) = [tag for tag in aged_tags(target, 0) if tag.name == "aged"]
    (there,) = [tag for tag in aged_tags(target, 7_200_000) if tag.name == "aged"]
    assert here.created_ms is not None
    assert there.created_ms == here.created_ms - 7_200_000
    assert here.retained_ms == there.retained_ms == 1000


def test_a_tag_of_a_time_is_of_the_first_snapshot_at_or_after_it() -> None:
    lake = memory_catalog("tags-at-times")
    table = append_table(lake, ("v INT",))
    for number in range(3):
        put(table, [{"v": number}])
        lake.clock.time_ms += 10
    second = table._stores.snapshots.load(2).time_millis
    for name, time in (("at", second), ("after", second + 1)):
        tags.run(tags.CreateTag(table="d.a", tag=name, timestamp_ms=time), lake, clock=lake.clock)
    assert [table._stores.tags.load(name).id for name in ("at", "after")] == [2, 3]
