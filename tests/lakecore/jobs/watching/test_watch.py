"""A position survives rollbacks and tables that are made anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.errors import InvalidInputError
from lakecore.jobs.versions import rollback, tags
from lakecore.jobs.watching.arrivals import ArrivalCondition, Arrivals
from lakecore.jobs.watching.watch import (
    BEGINNING,
    WatchPosition,
    first_watch_position,
    new_snapshots_since,
    watch_position,
)
from lakecore.table import Table
from tests.support.golden import GoldenTable

TABLE = "g1.a_pk_dedup_l0"


@pytest.fixture
def lake(tmp_path: Path, golden: Callable[[str], GoldenTable]) -> FilesystemCatalog:
    golden(TABLE).copy_to(tmp_path)
    return load_catalog(tmp_path)


def _told(table: Table, position: WatchPosition) -> tuple[tuple[int, int] | None, WatchPosition]:
    news, after = new_snapshots_since(Arrivals(table, ArrivalCondition()), position)
    return None if news is None else (news["first"], news["last"]), after


def test_what_is_committed_after_a_rollback_is_new(lake: FilesystemCatalog) -> None:
    table = lake.load_table(TABLE)
    position = watch_position(table._stores.snapshots.latest())
    rollback.run(rollback.RollbackTo(table=TABLE, snapshot=5), lake)
    assert _told(table, position) == (None, position)
    row = table.scan(limit=1).to_arrow()
    for expected in (6, 7, 8, 9):  # past the id of the position: 8 stands for another commit now
        assert table.upsert(row).snapshot_ids == (expected,)
        told, _ = _told(table, position)
        assert told == (6, expected)
    _, position = _told(table, position)
    assert position.snapshot == 9
    assert _told(table, position) == (None, position)


def test_a_table_made_anew_is_told_whole(lake: FilesystemCatalog) -> None:
    table = lake.load_table(TABLE)
    for old in (WatchPosition(50, 1000), WatchPosition(3, 1000)):  # more snapshots than now, and fewer
        told, after = _told(table, old)
        assert (told, after.snapshot) == ((1, 8), 8)


def test_snapshots_expired_before_they_were_told_are_passed_over(lake: FilesystemCatalog) -> None:
    table = lake.load_table(TABLE)
    position = watch_position(table._stores.snapshots.load(2))
    for gone in (1, 2, 3, 4):
        Path(table._stores.paths.snapshot(gone)).unlink()
    assert _told(table, position)[0] == (5, 8)


def test_news_name_the_tags_of_their_snapshots(lake: FilesystemCatalog) -> None:
    table = lake.load_table(TABLE)
    for name, snapshot in (("early", 2), ("late", 7)):
        tags.run(tags.CreateTag(table=TABLE, tag=name, snapshot=snapshot), lake)
    news, _ = new_snapshots_since(
        Arrivals(table, ArrivalCondition()), watch_position(table._stores.snapshots.load(5))
    )
    assert news is not None
    assert (news["tags"], news["first"], news["snapshot"], news["count"]) == (["late"], 6, 8, 3)


def test_where_a_watch_begins(lake: FilesystemCatalog) -> None:
    assert first_watch_position(lake, TABLE, "earliest") == BEGINNING
    assert first_watch_position(lake, TABLE, "latest").snapshot == 8
    assert first_watch_position(lake, "g1.later", "latest") == BEGINNING
    with pytest.raises(InvalidInputError, match="noon"):
        first_watch_position(lake, TABLE, "noon")
