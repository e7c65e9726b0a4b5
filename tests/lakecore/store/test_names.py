"""Schemas, tags, branches, consumers and changelogs."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace

import pytest

from lakecore.errors import CorruptDataError, InvalidInputError, NotFoundError
from lakecore.fs.local import LocalFileIO
from lakecore.fs.memory import MemoryFileIO
from lakecore.metadata.tag import Tag
from lakecore.store.branches import BranchStore
from lakecore.store.changelogs import ChangelogStore
from lakecore.store.consumers import ConsumerStore
from lakecore.store.paths import TablePaths
from lakecore.store.schemas import SchemaStore
from lakecore.store.tags import TagStore
from tests.support.builders import snapshot, table_schema
from tests.support.fake_clock import FakeClock
from tests.support.golden import GoldenTable

PATHS = TablePaths("/t")


@pytest.fixture
def storage() -> MemoryFileIO:
    return MemoryFileIO(uuid.uuid4().hex)


def test_schemas_are_published_once(storage: MemoryFileIO) -> None:
    store = SchemaStore(storage, PATHS)
    assert store.latest() is None
    assert store.publish(table_schema())
    assert not store.publish(table_schema(options={"bucket": "2"}))
    assert store.publish(replace(table_schema(), id=1))
    assert store.list_ids() == (0, 1)
    assert store.load(0).options == {"bucket": "1"}
    latest = store.latest()
    assert latest is not None
    assert latest.id == 1


def test_missing_and_broken_schemas_are_named(storage: MemoryFileIO) -> None:
    store = SchemaStore(storage, PATHS)
    store.publish(table_schema())
    with pytest.raises(NotFoundError, match="schema 7 of /t does not exist; available schemas: 0"):
        store.load(7)
    storage.overwrite("/t/schema/schema-1", b"{")
    with pytest.raises(CorruptDataError, match="/t/schema/schema-1"):
        store.latest()
    storage.overwrite("/t/schema/schema-1", table_schema().to_json().encode())
    with pytest.raises(CorruptDataError, match="contains the id 0 of another schema"):
        store.latest()


def test_tags(storage: MemoryFileIO) -> None:
    store = TagStore(storage, PATHS)
    storage.overwrite(PATHS.tag("a b"), snapshot(3).to_json().encode())
    storage.overwrite("/t/tag/tag-success-file/x_SUCCESS", b"")
    assert store.list() == ("a b",)
    assert store.load("a b").id == 3
    with pytest.raises(NotFoundError, match="tag 'c' of /t does not exist; available tags: a b"):
        store.load("c")
    storage.overwrite(PATHS.tag("c"), b"{}")
    with pytest.raises(CorruptDataError, match="tag-c"):
        store.load("c")


def test_what_a_tag_says(golden: Callable[[str], GoldenTable]) -> None:
    store = TagStore(LocalFileIO(), TablePaths(str(golden("g1.a_meta_tags").path)))
    timed = {tag.retained: tag.created for tag in map(store.open, store.list()) if tag.retained is not None}
    assert timed[7200 * 10**9] == 1795254589_481064943
    assert set(timed) == {7200 * 10**9, 259200 * 10**9}
    for name in store.list():
        tag = store.open(name)
        assert Tag.from_json(tag.to_json(), "x", name) == tag
    for key, value in (
        ("CreateTime", '[2026, "x"]'),
        ("TimeRetained", '"x"'),
        ("TimeRetained", "1e999999999"),
    ):
        text = snapshot(3).to_json()[:-1] + f', "tag{key}": {value}}}'
        with pytest.raises(CorruptDataError, match="not a tag"):
            Tag.from_json(text, "x", "t")


def test_branches(storage: MemoryFileIO) -> None:
    store = BranchStore(storage, PATHS)
    assert store.list() == ()
    SchemaStore(storage, PATHS.with_branch("b")).publish(table_schema())
    assert store.list() == ("b",)
    assert store.open("b") == PATHS.with_branch("b")
    assert store.open("main") == PATHS
    with pytest.raises(NotFoundError, match="branch 'c' of /t does not exist; available branches: main, b"):
        store.open("c")


def test_consumers(storage: MemoryFileIO) -> None:
    store = ConsumerStore(storage, PATHS, clock := FakeClock())
    assert store.list() == ()
    assert store.find("etl") is None
    store.write("etl", 3)
    store.write("b", 7)
    store.write("etl", 4)
    assert storage.read("/t/consumer/consumer-etl") == b'{\n  "nextSnapshot": 4\n}'
    assert [(consumer.id, consumer.next_snapshot) for consumer in store.list()] == [("b", 7), ("etl", 4)]
    with pytest.raises(NotFoundError, match="consumer 'c' of /t does not exist; available consumers: b, etl"):
        store.load("c")
    with pytest.raises(InvalidInputError, match="consumer name"):
        store.write("../x", 1)
    store.write("etl", 5, reads_state=True)
    assert storage.read("/t/consumer/consumer-etl") == (
        b'{\n  "nextSnapshot": 5,\n  "lakecore.reads-state": true\n}'
    )
    assert [consumer.reads_state for consumer in store.list()] == [False, True]
    store.delete("etl")
    store.delete("etl")
    assert store.find("etl") is None
    storage.overwrite(PATHS.consumer("b"), b'{"nextSnapshot": 7, "lakecore.reads-state": 1}')
    with pytest.raises(CorruptDataError, match=r"lakecore\.reads-state is neither true nor false"):
        store.list()
    storage.overwrite(PATHS.consumer("b"), b'{"nextSnapshot"')
    with pytest.raises(CorruptDataError, match="consumer-b: is not a consumer"):
        store.list()
    assert len(clock.slept) > 1, "another writer may just be replacing it"


def test_changelogs(storage: MemoryFileIO) -> None:
    store = ChangelogStore(storage, PATHS)
    assert store.list_ids() == ()
    storage.overwrite(PATHS.changelog(3), snapshot(3).to_json().encode())
    storage.overwrite(PATHS.changelog(12), snapshot(3).to_json().encode())
    assert store.list_ids() == (3, 12)
    assert store.find(3) == snapshot(3)
    assert store.find(4) is None
    with pytest.raises(CorruptDataError, match="contains the id 3 of another snapshot"):
        store.find(12)
