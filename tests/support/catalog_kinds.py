"""Random operations on everything that one catalog has, by Java and by lakecore in turns: databases, Paimon tables with rows, tags
and branches, object tables, format tables, views and functions. Whether each succeeds is known beforehand.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from lakecore.catalog.catalog import Catalog
from lakecore.catalog.objects.function import Function
from lakecore.catalog.objects.view import View
from lakecore.errors import LakeError
from lakecore.jobs.definitions.tags import CreateTag, DeleteTag
from lakecore.jobs.definitions.versions import CreateBranch, DeleteBranch
from lakecore.jobs.versions import branches, tags
from lakecore.row.json_rows import batch_to_json
from lakecore.table import Table
from tests.support.golden import canonical
from tests.support.oracle import Oracle, OracleError

__all__ = ["AUDIT", "Kinds"]

AUDIT = ("owner", "createdAt", "createdBy", "updatedAt", "updatedBy", "path")
"""Options that a REST server adds, and Java's handles."""
DATABASES, TABLES, VIEWS, FUNCTIONS = ("d", "e"), ("t", "u"), ("v", "w"), ("f", "g")
PAIMON = {"columns": ["k INT NOT NULL", "v STRING"], "primaryKeys": ["k"], "options": {"bucket": "1"}}
DEFINITIONS: dict[str, dict[str, Any]] = {
    "paimon": PAIMON,
    "format-table": {
        "columns": ["k INT", "v STRING"],
        "options": {"type": "format-table", "file.format": "csv"},
    },
    "object-table": {"columns": [], "options": {"type": "object-table"}},
}
VIEW = View.from_json(
    {"columns": ["k INT NOT NULL", "v ARRAY<STRING>"], "query": "select * from t", "comment": "c"}
)
FUNCTION = Function.from_json({"inputParams": ["x INT"], "returnParams": ["y BIGINT"], "options": {"a": "b"}})
VIEW_CHANGES: tuple[dict[str, Any], ...] = (
    {"action": "updateComment", "comment": "other"},
    {"action": "setOption", "key": "o", "value": "1"},
)
ON_TABLES = ("create", "create", "create", "write", "write", "write", "rename", "drop", "alter", "restore")
ON_VERSIONS = ("create-tag", "create-tag", "delete-tag", "create-branch", "delete-branch")
ON_DATABASES = ("create-database", "create-database", "drop-database")
ON_VIEWS = ("create-view", "create-view", "alter-view", "rename-view", "drop-view")
ON_FUNCTIONS = ("create-function", "alter-function", "drop-function")


@dataclass
class Expected:
    """A table as both show it; `rows` are those of the main branch, and of each tag."""

    kind: str
    rows: int = 0
    tags: dict[str, int] = field(default_factory=dict)
    branches: set[str] = field(default_factory=set)


@dataclass
class Operation:
    """What is tried: the words of Java's operation, lakecore's call, and what is expected of both."""

    java: Callable[[], object]
    ours: Callable[[], object]
    may: bool
    effect: Callable[[], object] = lambda: None


@dataclass
class Kinds:
    """One catalog, opened by Java and by lakecore, and what is expected of it.

    `kinds` are the kinds of its tables. `remote`: a server drops for good what lakecore else keeps.
    """

    oracle: Oracle
    java: str
    catalog: Catalog
    kinds: Sequence[str]
    has_views: bool
    has_functions: bool
    remote: bool
    external: str = ""
    """The kind of tables that the server takes for external ones: it keeps their files."""
    databases: set[str] = field(default_factory=set)
    tables: dict[str, Expected] = field(default_factory=dict)
    views: set[str] = field(default_factory=set)
    functions: set[str] = field(default_factory=set)
    kept: dict[str, list[Expected]] = field(default_factory=dict)
    left: set[str] = field(default_factory=set)
    """The names of format tables that were dropped."""
    done: Counter[str] = field(default_factory=Counter)
    """How often each operation succeeded."""

    def step(self, chance: random.Random) -> str:
        """Do one random operation with one of the two. Raises AssertionError where its outcome is another one."""
        names = [*ON_TABLES, *ON_VERSIONS, *ON_DATABASES]
        names += ON_VIEWS if self.has_views else ()
        names += ON_FUNCTIONS if self.has_functions else ()
        operation: Operation | None = None
        while operation is None:  # most have a state in which they are left out
            name = chance.choice(names)
            operation = getattr(self, f"_{name.replace('-', '_')}")(chance)
        by_java = chance.random() < 0.5 and name != "restore"
        who, problem = "Java" if by_java else "lakecore", None
        try:
            (operation.java if by_java else operation.ours)()
        except (LakeError, OracleError) as err:
            problem = err
        assert operation.may is (problem is None), f"{name} by {who}: {problem}"
        if operation.may:
            before = dict(self.tables)
            operation.effect()
            if name == "drop" and not by_java and not self.remote:  # Java keeps none
                for gone in before.keys() - self.tables.keys():
                    self.kept.setdefault(gone, []).append(before[gone])
            self.done[f"{name} by {who}"] += 1
        return f"{name} by {who}"

    def check(self, chance: random.Random) -> None:
        """Java and lakecore show the same, which is what is expected, and read the same rows of one table."""
        java, ours = self.oracle.call("catalog", self.java, "show-all"), self.show()
        java = {name: _plain(one) for name, one in java.items() if not name.startswith("default.")}
        assert ours == java
        views = {f"view {name}" for name in self.views} | {f"function {name}" for name in self.functions}
        assert set(ours) == {f"table {name}" for name in self.tables} | views
        assert set(self.catalog.list_databases()) - {"default"} == self.databases
        for name, one in self.tables.items():
            shown = ours[f"table {name}"]
            if one.kind == "paimon":
                assert (set(shown["tags"]), set(shown["branches"])) == (set(one.tags), one.branches)
            else:
                assert shown["kind"] == one.kind
        readable = sorted(name for name, one in self.tables.items() if one.kind != "object-table")
        if readable:
            name = chance.choice(readable)
            rows = self._rows(name)
            assert rows == self.oracle.read(self.java, name)
            assert len(rows) == self.tables[name].rows, name

    def show(self) -> dict[str, Any]:
        """What lakecore shows, in the form of the oracle's `catalog show-all`."""
        found: dict[str, Any] = {}
        for database in self.catalog.list_databases():
            for name in self.catalog.list_tables(database):
                found[f"table {database}.{name}"] = self._shown(f"{database}.{name}")
            for name in self.catalog.views.list(database) if self.has_views else ():
                one = self.catalog.views.get(f"{database}.{name}").to_json()
                found[f"view {database}.{name}"] = _plain(one)
            for name in self.catalog.functions.list(database) if self.has_functions else ():
                function = self.catalog.functions.get(f"{database}.{name}").to_json()
                found[f"function {database}.{name}"] = _plain({"name": name, **function})
        return found

    def _shown(self, name: str) -> dict[str, Any]:
        table = self.catalog.load_table(name)
        if not isinstance(table, Table):
            database, _, plain = name.partition(".")
            others = [one for one in self.kinds if one != "paimon"]
            kinds = [one for one in others if plain in self.catalog.list_tables(database, table_type=one)]
            return {"kind": " ".join(kinds), "columns": list(table.scan().row_type.names)}
        latest = table.latest_snapshot()
        shown = {
            "schema": json.loads(table.schema.to_json()),
            "tags": sorted(table.tags()),
            "branches": sorted(table.branches()),
            "snapshot": None if latest is None else latest.id,
        }
        return _plain(shown)

    def _rows(self, name: str) -> list[str]:
        scan = self.catalog.load_table(name).scan()
        return canonical(line for one in scan.to_batches() for line in batch_to_json(one, scan.row_type))

    def _java(self, *words: str) -> Callable[[], object]:
        return partial(self.oracle.call, "catalog", self.java, *words)

    def _table(self, chance: random.Random, *kinds: str) -> str | None:
        """One of the tables that exist, None without any."""
        names = sorted(name for name, one in self.tables.items() if not kinds or one.kind in kinds)
        return chance.choice(names) if names else None

    def _create_database(self, chance: random.Random) -> Operation:
        name = chance.choice(DATABASES)
        return Operation(
            self._java("create-database", name),
            partial(self.catalog.create_database, name),
            name not in self.databases,
            partial(self.databases.add, name),
        )

    def _drop_database(self, chance: random.Random) -> Operation | None:
        name = chance.choice(DATABASES)
        within = [one for one in (*self.tables, *self.views, *self.functions) if one.startswith(f"{name}.")]
        if self.remote and within:
            return None  # the server of the tests looks at tables only, and forgets none of the others
        return Operation(
            self._java("drop-database", name),
            partial(self.catalog.drop_database, name),
            name in self.databases and not within,
            partial(self.databases.discard, name),
        )

    def _create(self, chance: random.Random) -> Operation | None:
        name, kind = f"{chance.choice(DATABASES)}.{chance.choice(TABLES)}", chance.choice(self.kinds)
        made, old = DEFINITIONS[kind], self.tables.get(name)
        if self.remote and old is not None and (kind, old.kind) != ("paimon", "paimon"):
            return None  # the server of the tests replaces the table
        return Operation(
            self._java("create", name, json.dumps(made)),
            partial(self.catalog.create_table, name, made),
            name[0] in self.databases and name not in self.tables,
            lambda: self.tables.update({name: Expected(kind, self._earlier_rows(name, kind))}),
        )

    def _earlier_rows(self, name: str, kind: str) -> int:
        """How many rows a new table has. The server of the tests leaves the files of a dropped format table, and a new one of its
        name shows them again; `check` compares them with Java's.
        """
        left = self.remote and kind == "format-table" and name in self.left
        return len(self._rows(name)) if left else 0

    def _write(self, chance: random.Random) -> Operation | None:
        name = self._table(chance, "paimon", "format-table")
        if name is None:
            return None
        key = self.tables[name].rows + 1
        with_java = partial(self._append, name, {"k": key, "v": chance.choice("xyz")})
        ours = with_java  # lakecore writes no format tables
        if self.tables[name].kind == "paimon":
            ours = partial(self._upsert, name, key)
        return Operation(with_java, ours, True, lambda: setattr(self.tables[name], "rows", key))

    def _append(self, name: str, row: dict[str, Any]) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            self._java("append", name, file.name)()

    def _upsert(self, name: str, key: int) -> None:
        import pyarrow as pa

        self.catalog.load_table(name).upsert(pa.table({"k": pa.array([key], pa.int32()), "v": ["l"]}))

    def _rename(self, chance: random.Random) -> Operation | None:
        name, new = self._table(chance, "paimon"), f"{chance.choice(DATABASES)}.{chance.choice(TABLES)}"
        if name is None or new[0] not in self.databases or name == new:
            return None  # Java 1.4 renames into databases that do not exist
        if self.remote:
            return (
                None  # the server of the tests names the earlier directory; test_rest_oracle.py has renames
            )
        return Operation(
            self._java("rename", name, new),
            partial(self.catalog.rename_table, name, new),
            new not in self.tables,
            lambda: self.tables.update({new: self.tables.pop(name)}),
        )

    def _stays(self, name: str) -> bool:
        """Whether it has branches, which the server of the tests still lists when the table has gone."""
        return self.remote and bool(self.tables[name].branches)

    def _drop(self, chance: random.Random) -> Operation | None:
        name = self._table(chance) or "d.t"
        if name in self.tables and self._stays(name):
            return None
        is_external = name in self.tables and self.tables[name].kind == self.external
        if name in self.tables and self.tables[name].kind == "format-table":
            self.left.add(name)
        return Operation(
            self._java("drop", name),
            partial(self.catalog.drop_table, name, purge=self.remote and not is_external),
            name in self.tables,
            partial(self.tables.pop, name, None),
        )

    def _restore(self, chance: random.Random) -> Operation | None:
        if self.remote or not any(self.kept.values()):
            return None
        name = chance.choice(sorted(one for one, kept in self.kept.items() if kept))
        restore = partial(self.catalog.restore_table, name)
        may = name not in self.tables and name[0] in self.databases
        return Operation(restore, restore, may, lambda: self.tables.update({name: self.kept[name].pop()}))

    def _alter(self, chance: random.Random) -> Operation | None:
        name = self._table(chance, "paimon")
        if name is None:
            return None  # the server of the tests answers that all went well
        change = [{"op": "set", "key": "snapshot.time-retained", "value": f"{chance.randint(1, 9)} h"}]
        return Operation(
            self._java("alter", name, json.dumps(change)),
            partial(self.catalog.alter_table, name, change),
            True,
        )

    def _create_tag(self, chance: random.Random) -> Operation | None:
        name, tag = self._table(chance, "paimon"), chance.choice("ab")
        if name is None:
            return None
        one = self.tables[name]
        if one.tags.get(tag) == one.rows:
            return None  # Java refuses what lakecore takes for a repetition
        return Operation(
            partial(self.oracle.call, "create-tag", self.java, name, tag),
            lambda: tags.run(CreateTag(table=name, tag=tag), self.catalog),
            one.rows > 0 and tag not in one.tags,
            lambda: one.tags.update({tag: one.rows}),
        )

    def _delete_tag(self, chance: random.Random) -> Operation | None:
        name = self._table(chance, "paimon")
        if name is None or not self.tables[name].tags:
            return None
        tag = chance.choice(sorted(self.tables[name].tags))
        return Operation(
            partial(self.oracle.call, "delete-tag", self.java, name, tag),
            lambda: tags.run(DeleteTag(table=name, tags=(tag,)), self.catalog),
            True,
            lambda: self.tables[name].tags.pop(tag),
        )

    def _create_branch(self, chance: random.Random) -> Operation | None:
        name, branch = self._table(chance, "paimon"), chance.choice("xy")
        if name is None or not self.tables[name].tags:
            return None
        one, tag = self.tables[name], chance.choice(sorted(self.tables[name].tags))
        if branch in one.branches and not self.remote:
            return None  # Java refuses what lakecore takes for a repetition, if the branch is the same
        return Operation(
            partial(self.oracle.call, "create-branch", self.java, name, branch, "--tag", tag),
            lambda: branches.run(CreateBranch(table=name, branch=branch, tag=tag), self.catalog),
            branch not in one.branches,
            lambda: one.branches.add(branch),
        )

    def _delete_branch(self, chance: random.Random) -> Operation | None:
        name = self._table(chance, "paimon")
        if name is None or not self.tables[name].branches:
            return None
        branch = chance.choice(sorted(self.tables[name].branches))
        return Operation(
            partial(self.oracle.call, "delete-branch", self.java, name, branch),
            lambda: branches.run(DeleteBranch(table=name, branch=branch), self.catalog),
            True,
            lambda: self.tables[name].branches.remove(branch),
        )

    def _create_view(self, chance: random.Random) -> Operation | None:
        name = f"{chance.choice(DATABASES)}.{chance.choice(VIEWS)}"
        if name[0] not in self.databases:
            return None  # the server of the tests makes such a view
        return Operation(
            self._java("create-view", name, json.dumps(VIEW.to_json())),
            partial(self.catalog.views.create, name, VIEW),
            name not in self.views,
            partial(self.views.add, name),
        )

    def _alter_view(self, chance: random.Random) -> Operation:
        name, change = chance.choice(sorted(self.views) or ["d.v"]), chance.choice(VIEW_CHANGES)
        return Operation(
            self._java("alter-view", name, json.dumps(change)),
            partial(self.catalog.views.alter, name, [change]),
            name in self.views,
        )

    def _rename_view(self, chance: random.Random) -> Operation | None:
        if not self.views:
            return None
        name, new = chance.choice(sorted(self.views)), f"{chance.choice(DATABASES)}.{chance.choice(VIEWS)}"
        if new[0] not in self.databases or name == new:
            return None  # Java waits for the lock that it holds itself

        def effect() -> None:
            self.views.remove(name)
            self.views.add(new)

        return Operation(
            self._java("rename-view", name, new),
            partial(self.catalog.views.rename, name, new),
            new not in self.views,
            effect,
        )

    def _drop_view(self, chance: random.Random) -> Operation:
        name = chance.choice(sorted(self.views) or ["d.v"])
        return Operation(
            self._java("drop-view", name),
            partial(self.catalog.views.drop, name),
            name in self.views,
            partial(self.views.discard, name),
        )

    def _create_function(self, chance: random.Random) -> Operation | None:
        name = f"{chance.choice(DATABASES)}.{chance.choice(FUNCTIONS)}"
        if name[0] not in self.databases:
            return None  # the server of the tests makes such a function
        made = {"name": name[2:], **FUNCTION.to_json()}
        return Operation(
            self._java("create-function", name, json.dumps(made)),
            partial(self.catalog.functions.create, name, FUNCTION),
            name not in self.functions,
            partial(self.functions.add, name),
        )

    def _alter_function(self, chance: random.Random) -> Operation:
        name, change = chance.choice(sorted(self.functions) or ["d.f"]), chance.choice(VIEW_CHANGES)
        return Operation(
            self._java("alter-function", name, json.dumps(change)),
            partial(self.catalog.functions.alter, name, [change]),
            name in self.functions,
        )

    def _drop_function(self, chance: random.Random) -> Operation:
        name = chance.choice(sorted(self.functions) or ["d.f"])
        return Operation(
            self._java("drop-function", name),
            partial(self.catalog.functions.drop, name),
            name in self.functions,
            partial(self.functions.discard, name),
        )


def _plain(shown: dict[str, Any]) -> dict[str, Any]:
    """What was defined: without times and comments of schemas, what the server adds, and keys without a value."""
    schema = shown.get("schema")
    for options in (shown.get("options"), None if schema is None else schema["options"]):
        for key in AUDIT if options is not None else ():
            options.pop(key, None)
    if schema is not None:
        schema.pop("timeMillis", None)
        schema.pop("comment", None)
    return {key: value for key, value in shown.items() if value is not None}
