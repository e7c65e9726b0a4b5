"""The schema changes under a running compaction: rows stay right, values written under the new schema survive."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.executor import SerialExecutor
from lakecore.jobs.compact import Job, Report, Strategy, run
from lakecore.metadata.schema import TableSchema
from lakecore.table import Table
from lakecore.types.datatypes import DataField
from lakecore.verify.fsck.check import fsck
from tests.support.lake import append_table, key_table, memory_catalog, put

Fields = tuple[DataField, ...]


def added(fields: Fields) -> Fields:
    return (*fields, DataField.from_json({"id": len(fields), "name": "extra", "type": "STRING"}))


def renamed(fields: Fields) -> Fields:
    return tuple(replace(field, name="w") if field.name == "v" else field for field in fields)


def dropped(fields: Fields) -> Fields:
    return tuple(field for field in fields if field.name != "n")


def widened(fields: Fields) -> Fields:
    wide = DataField.from_json({"id": 0, "name": "n", "type": "BIGINT"}).type
    return tuple(replace(field, type=wide) if field.name == "n" else field for field in fields)


def replaced(fields: Fields) -> Fields:
    """A column is dropped, and another of its name is added: the old values must not come back."""
    again = DataField.from_json({"id": len(fields), "name": "n", "type": "INT"})
    return (*dropped(fields), again)


BIG = 2**40
NEW_ROW: dict[Callable[[Fields], Fields], dict[str, Any]] = {
    added: {"k": 1, "v": "new", "n": 1, "extra": "kept"},
    renamed: {"k": 1, "w": "new", "n": 1},
    dropped: {"k": 1, "v": "new"},
    widened: {"k": 1, "v": "new", "n": BIG},
    replaced: {"k": 1, "v": "new", "n": 77},
}
"""A row that only the new schema can hold."""

AS_READ: dict[Callable[[Fields], Fields], Callable[[dict[str, Any]], dict[str, Any]]] = {
    added: lambda row: {"extra": None, **row},
    renamed: lambda row: {"w" if name == "v" else name: value for name, value in row.items()},
    dropped: lambda row: {name: value for name, value in row.items() if name != "n"},
    widened: lambda row: row,
    replaced: lambda row: {**row, "n": None},
}
"""What the new schema makes of a row of the old one."""


@dataclass
class Lake:
    """Four commits of `k, v, n` in one bucket, the rows they must read as, and a change of the schema to come."""

    keyed: bool
    change: Callable[[Fields], Fields]
    catalog: FilesystemCatalog = field(init=False)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.catalog = memory_catalog("schema-change")
        columns = ("k INT", "v STRING", "n INT")
        self.name = (key_table if self.keyed else append_table)(self.catalog, columns).name
        for number in range(6):
            self.put([{"k": k, "v": f"{number}.{k}", "n": number} for k in range(number, number + 3)])

    @property
    def table(self) -> Table:
        """As it is now."""
        return self.catalog.load_table(self.name)

    def put(self, rows: list[dict[str, Any]]) -> None:
        put(self.table, rows)
        for row in rows:
            self.rows = [old for old in self.rows if not self.keyed or old["k"] != row["k"]] + [row]

    def alter(self) -> None:
        """Publish the next schema, and write under it."""
        table = self.table
        fields = self.change(table.schema.fields)
        highest = max(table.schema.highest_field_id, *(field.id for field in fields))
        changed: TableSchema = replace(
            table.schema, id=table.schema.id + 1, fields=fields, highest_field_id=highest
        )
        assert table._stores.schemas.publish(changed)
        self.rows = [AS_READ[self.change](row) for row in self.rows]
        self.put([NEW_ROW[self.change]])

    def compact(self, executor: SerialExecutor | None = None, catalog: Any = None, **fields: Any) -> Report:
        job = Job(**{"table": self.name, "strategy": Strategy.FULL, "commit_user": "job"} | fields)
        return run(job, catalog or self.catalog, executor, self.catalog.clock)

    def check(self) -> None:
        found = self.table.scan().to_arrow().to_pylist()
        assert sorted(found, key=repr) == sorted(
            ({name: row[name] for name in self.table.schema.row_type.names} for row in self.rows), key=repr
        )
        report = fsck(
            self.table._stores.file_io,
            self.table._stores.paths,
            now_ms=self.catalog.clock.now_ms(),
            read_data=True,
        )
        assert report.findings == ()


class Between(SerialExecutor):
    """`action` happens once: before the units of the first run, after them, or after the first commit."""

    def __init__(self, when: str, action: Callable[[], object]) -> None:
        super().__init__()
        self._when = when
        self._action = action

    def run(self, function: Callable[..., Any], tasks: Iterable[Any]) -> Iterator[Any]:
        waiting = list(tasks)
        if self._when == "before the units":
            self._once()
        results = list(super().run(function, waiting))
        if self._when == "after the units":
            self._once()
        yield from results

    def _once(self) -> None:
        self._when = ""
        self._action()


@pytest.fixture(params=[True, False], ids=["keyed", "append"])
def keyed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


changes = pytest.mark.parametrize("change", NEW_ROW, ids=lambda change: change.__name__)


@changes
@pytest.mark.parametrize("when", ["before the units", "after the units"])
def test_a_change_while_units_run(keyed: bool, change: Callable[[Fields], Fields], when: str) -> None:
    lake = Lake(keyed, change)
    report = lake.compact(Between(when, lake.alter))
    assert report.error is None
    assert report.picks_done
    lake.check()
    lake.compact(commit_user="later")
    lake.check()


@changes
def test_a_change_between_loading_the_table_and_planning(
    keyed: bool, change: Callable[[Fields], Fields]
) -> None:
    """The job knows an older schema than some of the files it finds: it must not rewrite these with it."""
    lake = Lake(keyed, change)

    class Late(FilesystemCatalog):
        def load_table(self, name: str, options: Mapping[str, str] | None = None) -> Table:
            table = super().load_table(name, options)
            lake.alter()
            return table

    lake.compact(catalog=Late(lake.catalog.file_io, lake.catalog.warehouse, lake.catalog.clock))
    lake.check()
    lake.compact(commit_user="later")
    lake.check()


@changes
def test_a_change_between_two_rounds(keyed: bool, change: Callable[[Fields], Fields]) -> None:
    """A round that finds new files of a newer schema leaves them alone, or knows the schema by then."""
    lake = Lake(keyed, change)
    options = {"num-sorted-run.compaction-trigger": "2", "compaction.min.file-num": "2"}

    class Writing(Between):
        def _once(self) -> None:
            super()._once()
            for _ in range(6):
                lake.put([NEW_ROW[change]])

    report = lake.compact(
        Writing("after the units", lake.alter), strategy=Strategy.UNIVERSAL, options=options
    )
    assert report.error is None
    lake.check()
    lake.compact(commit_user="later")
    lake.check()


@changes
def test_a_handle_from_before_the_change_reads_what_is_there(
    keyed: bool, change: Callable[[Fields], Fields]
) -> None:
    """A column of the old, narrower type could not hold the new values."""
    lake = Lake(keyed, change)
    old = lake.table
    lake.alter()
    found = old.scan().to_arrow().to_pylist()
    assert sorted(found, key=repr) == sorted(lake.table.scan().to_arrow().to_pylist(), key=repr)
