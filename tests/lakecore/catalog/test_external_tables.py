"""The rules for the option `path` of new tables. Java judges the tables themselves (tests/interop)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lakecore.catalog.definition import TableDefinition
from lakecore.catalog.objects.external_tables import (
    check_directory,
    check_place,
    external_path,
    new_external_schema,
    publish_external,
)
from lakecore.errors import AlreadyExistsError, CommitConflictError, InvalidInputError, InvalidOptionError
from lakecore.fs.memory import MemoryFileIO
from lakecore.metadata.schema import TableSchema
from lakecore.store.paths import TablePaths
from lakecore.store.schemas import SchemaStore
from tests.support.fake_clock import FakeClock

COLUMNS = ["k INT NOT NULL", "r ROW<a INT>"]


def definition(**changes: Any) -> TableDefinition:
    options = {"path": "/x/t", "bucket": "1", **changes.pop("options", {})}
    return TableDefinition.from_json(
        {"columns": COLUMNS, "primaryKeys": ["k"], "options": options, **changes}
    )


@pytest.mark.parametrize(
    ("location", "path"),
    [("/x/t", "/x/t"), ("/x/t/", "/x/t"), ("file:/x/t", "/x/t"), ("file:///x/t", "/x/t"), ("s3a://b/t", "s3://b/t")],
)  # fmt: skip
def test_a_path_is_plain(location: str, path: str) -> None:
    assert external_path(location) == path


@pytest.mark.parametrize(
    "location", ["", "t", "~/t", "/x/../t", "/x/.", "/x//t", "s3://b//t", "s3://b/../t", "/a\nb"]
)
def test_a_path_that_may_mean_something_else_is_refused(location: str) -> None:
    with pytest.raises(InvalidOptionError, match="an absolute path"):
        external_path(location)


def test_a_path_overlaps_no_other_place() -> None:
    check_place("/x/t", {"/x/t2": "other", "": "no place"})
    for place in ("/x", "/x/t", "/x/t/u"):
        with pytest.raises(InvalidOptionError, match=f"thing is at {re.escape(place)}"):
            check_place("/x/t", {place: "thing"})


def test_what_lies_there_decides() -> None:
    files, clock = MemoryFileIO("external"), FakeClock()
    root = "memory://external/x"
    store = SchemaStore(files, TablePaths(f"{root}/t"), clock)
    seen: list[TableSchema] = []
    created = publish_external(
        new_external_schema("d.t", definition(), {"file.format": "orc"}, clock), store, seen.append
    )
    assert created == store.latest() == seen[0]
    assert created.options == {"bucket": "1", "path": "/x/t", "file.format": "orc"}
    check_directory(files, f"{root}/t", None)
    with pytest.raises(InvalidOptionError, match="has this directory"):
        check_directory(files, f"{root}/t/bucket-0", root)
    with pytest.raises(InvalidOptionError, match="has 't' but no table"):
        check_directory(files, root, None)
    for same in (definition(), TableDefinition.from_json({"options": {"path": "/x/t", "owner": "me"}})):
        choose = new_external_schema("d.t", same, {"file.format": "avro"}, clock)
        assert publish_external(choose, store, seen.append) == created
    others = [
        definition(columns=["k INT NOT NULL", "r ROW<b INT>"]),
        TableDefinition(columns=(), partition_keys=("k",), options={"path": "/x/t"}),
        definition(options={"bucket": "2"}),
        TableDefinition(columns=(), primary_keys=("r",), options={"path": "/x/t"}),
    ]
    for other in others:
        with pytest.raises(AlreadyExistsError, match=r"d\.t"):
            publish_external(new_external_schema("d.t", other, {}, clock), store, seen.append)
    with pytest.raises(InvalidInputError, match="needs columns"):
        new_external_schema("d.t", TableDefinition.from_json({"options": {"path": "/n"}}), {}, clock)(None)


def test_somebody_else_is_faster() -> None:
    files, clock = MemoryFileIO("faster"), FakeClock()
    store = SchemaStore(files, TablePaths("memory://faster/t"), clock)
    choose = new_external_schema("d.t", definition(), {}, clock)

    def publish_first(schema: TableSchema) -> None:
        other = new_external_schema("d.t", definition(comment="theirs"), {}, clock)(None)
        assert SchemaStore(files, store.paths, clock).publish(other)

    assert publish_external(choose, store, publish_first).comment == "theirs"

    class Lost(SchemaStore):
        def latest(self) -> None:
            return None

    with pytest.raises(CommitConflictError, match="somebody else"):
        publish_external(choose, Lost(files, store.paths, clock), lambda one: None)
