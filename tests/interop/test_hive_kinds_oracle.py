"""Java and lakecore create, rename, drop, restore, alter and fill Paimon tables, format tables, object tables (Java 2.0) and
external ones of one Hive database in turns, create, rename, drop and (lakecore alone) alter its views, and drop the database:
after each step both list the same tables and views, and read the rows that were written.

LAKECORE_HIVE_SEQUENCES: how many random sequences, from the number LAKECORE_HIVE_FIRST on. LAKECORE_HIVE_VERSION: the version of Java.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.hive.hive_catalog import HiveCatalog
from lakecore.catalog.objects.view import View
from lakecore.errors import LakeError
from tests.support.hive_metastore import HiveServer, emptied, opened
from tests.support.oracle import OracleError

pytestmark = pytest.mark.slow

SEQUENCES = int(os.environ.get("LAKECORE_HIVE_SEQUENCES", "3"))
FIRST = int(os.environ.get("LAKECORE_HIVE_FIRST", "0"))
STEPS = 14
NAMES = ("t", "ta", "u")
OPERATIONS = [
    *("create",) * 6,
    *("drop",) * 4,
    *("fill", "rename", "restore", "alter") * 2,
    "drop-database",
]
SCHEMA: dict[str, Any] = {"columns": ["k INT", "v STRING", "p STRING"], "partitionKeys": ["p"]}
OPTIONS: dict[str, dict[str, str]] = {
    "format": {"type": "format-table", "file.format": "csv"},
    "object": {"type": "object-table"},
    "paimon": {},
}
VIEW = View.from_json(
    {"columns": ["k INT", "v STRING"], "query": "select k, v from r.t", "options": {"a": "b"}}
)
OPTION = [{"op": "set", "key": "snapshot.time-retained", "value": "5 h"}]


@dataclass
class Expected:
    """A table or a view as both show it. `kind` is `format`, `object`, `paimon` or `view`; `rows` are files of an object
    table, and changes of a view.
    """

    kind: str
    external: bool
    rows: int = 0


@dataclass
class Turns:
    """One database, and what is expected of it."""

    hive: HiveServer
    catalog: HiveCatalog
    places: Path
    tables: dict[str, Expected] = field(default_factory=dict)
    kept: dict[str, list[Expected]] = field(default_factory=dict)
    created: int = 0
    done: Counter[str] = field(default_factory=Counter)
    """How often each operation succeeded."""

    def java(self, *words: str) -> Callable[[], object]:
        return lambda: self.hive.oracle.call("catalog", self.hive.java(), *words)

    def definition(self, kind: str, *, external: bool) -> dict[str, Any]:
        options = OPTIONS[kind].copy()
        if external:
            self.created += 1
            options["path"] = str(self.places / str(self.created))
        return {**(SCHEMA if kind != "object" else {"columns": []}), "options": options}

    @property
    def kinds(self) -> tuple[str, ...]:
        """Java 1.4 lists no files of object tables of a Hive catalog."""
        return ("format", "paimon", "view") if self.hive.oracle.version == "1.4.2" else (*OPTIONS, "view")

    def step(self, chance: random.Random) -> str:
        """Do one random operation with one of the two, and see that it succeeds when it should."""
        ours, name, new = chance.random() < 0.5, chance.choice(NAMES), chance.choice(NAMES)
        operation = chance.choice(OPERATIONS)
        candidates = {"create": set(NAMES) - set(self.tables), "restore": self.kept}.get(
            operation, self.tables
        )
        if candidates and chance.random() < 0.85:
            name = chance.choice(sorted(candidates))
        old = self.tables.get(name)
        call: Callable[[], object]
        made_kind = ""
        match operation:
            case "create":
                kind, external, may = chance.choice(self.kinds), chance.random() < 0.4, old is None
                made_kind = kind
                if kind == "view":
                    external, call = False, self.create_view(name, ours=ours)
                else:
                    made = self.definition(kind, external=external)
                    call = self.java("create", f"r.{name}", json.dumps(made))
                    if ours:
                        call = lambda: self.catalog.create_table(f"r.{name}", made)  # noqa: E731
                if may:
                    self.tables[name] = Expected(
                        kind, external, int(kind == "object")
                    )  # the file of its schema
            case "fill":
                may, ours = old is not None and old.kind != "view", False
                call = lambda: self.append(f"r.{name}", chance)  # noqa: E731
                if old is not None and old.kind == "object":
                    call = lambda: self.add_file(f"r.{name}")  # noqa: E731
                if old is not None and may:
                    old.rows += 1
            case "rename":
                may = old is not None and new not in self.tables
                call = self.java("rename", f"r.{name}", f"r.{new}")
                if ours:
                    call = lambda: self.catalog.rename_table(f"r.{name}", f"r.{new}")  # noqa: E731
                if old is not None and old.kind == "view":
                    call = self.java("rename-view", f"r.{name}", f"r.{new}")
                    if ours:
                        call = lambda: self.catalog.views.rename(f"r.{name}", f"r.{new}")  # noqa: E731
                if may:
                    self.tables[new] = self.tables.pop(name)
            case "drop":
                may = old is not None
                call = (
                    (lambda: self.catalog.drop_table(f"r.{name}")) if ours else self.java("drop", f"r.{name}")
                )
                if old is not None and old.kind == "view":
                    call = self.java("drop-view", f"r.{name}")
                    if ours:
                        call = lambda: self.catalog.views.drop(f"r.{name}")  # noqa: E731
                if old is not None:
                    del self.tables[name]
                    if ours and not old.external and old.kind != "view":
                        self.kept.setdefault(name, []).append(old)
            case "restore":
                may, ours = old is None and bool(self.kept.get(name)), True
                call = lambda: self.catalog.restore_table(f"r.{name}")  # noqa: E731
                if may:
                    self.tables[name] = self.kept[name].pop()
            case "drop-database":
                cascade = chance.random() < 0.7
                views_only = all(one.kind == "view" for one in self.tables.values())
                may = (
                    cascade or not self.tables or (views_only and not ours)
                )  # Java drops views with their database
                again_ours = chance.random() < 0.5
                call = lambda: self.drop_database(cascade, ours, again_ours)  # noqa: E731
                if may:
                    self.forget(ours=ours)
            case _:
                if old is not None and old.kind == "object":
                    return "nothing"  # lakecore does not alter them
                if old is not None and old.kind == "view":
                    old.rows += 1
                    change = {"action": "updateComment", "comment": str(old.rows)}
                    self.catalog.views.alter(f"r.{name}", [change])
                    self.done["alter of a view by lakecore"] += 1
                    return f"alter of the view {name} by lakecore"
                may = old is not None and old.kind == "paimon"
                call = self.java("alter", f"r.{name}", json.dumps(OPTION))
                if ours:
                    call = lambda: self.catalog.alter_table(f"r.{name}", OPTION)  # noqa: E731
        what = f"{operation} of {old.kind if old is not None else 'none'} {name} ({new}) by {'lakecore' if ours else 'Java'}"
        problem = None
        try:
            call()
        except (LakeError, OracleError) as err:
            problem = err
        assert may is (problem is None), f"{what}: {problem}"
        if may:
            kinds = (made_kind, old.kind if old is not None and operation != "drop-database" else "")
            of_view = " of a view" if "view" in kinds else ""
            self.done[f"{operation}{of_view} by {'lakecore' if ours else 'Java'}"] += 1
        return what

    def create_view(self, name: str, *, ours: bool) -> Callable[[], object]:
        if ours:
            return lambda: self.catalog.views.create(f"r.{name}", VIEW)
        raw = {key: value for key, value in VIEW.to_json().items() if value is not None}
        return self.java("create-view", f"r.{name}", json.dumps(raw))

    def append(self, name: str, chance: random.Random) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
            file.write(json.dumps({"k": 1, "v": "x", "p": chance.choice("ab")}) + "\n")
            file.flush()
            self.java("append", name, file.name)()

    def add_file(self, name: str) -> None:
        self.created += 1
        directory = Path(self.catalog.load_table(name).path)
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"file {self.created}").write_bytes(b"1")

    def drop_database(self, cascade: bool, ours: bool, again_ours: bool) -> None:
        """Drop the database and create it again."""
        if ours:
            self.catalog.drop_database("r", cascade=cascade)
        else:
            self.java("drop-database", "r", *(("cascade",) if cascade else ()))()
        if again_ours:
            self.catalog.create_database("r")
        else:
            self.java("create-database", "r")()

    def forget(self, *, ours: bool) -> None:
        """No table is left; those that lakecore dropped can be restored."""
        for name, one in self.tables.items():
            if ours and not one.external and one.kind != "view":
                self.kept.setdefault(name, []).append(one)
        self.tables.clear()

    def check(self, chance: random.Random) -> None:
        of_kind = {
            kind: sorted(name for name, one in self.tables.items() if one.kind == kind)
            for kind in (*OPTIONS, "view")
        }
        tables = {name: one for name, one in self.tables.items() if one.kind != "view"}
        assert self.java("list", "r", "", "")() == sorted(tables)
        assert self.catalog.views.list("r") == of_kind["view"]
        self.check_views(self.java("show-objects")())
        assert self.catalog.list_tables("r", table_type="object-table") == of_kind["object"]
        assert self.catalog.list_tables("r", table_type="table") == of_kind["paimon"]
        assert self.catalog.list_tables("r", table_type="format-table") == of_kind["format"]
        like = [name for name in of_kind["format"] if name.startswith("t")]
        assert list(self.pages(pattern="t%", table_type="format-table")) == like
        for name, one in tables.items():
            assert self.catalog.load_table(f"r.{name}").scan().to_arrow().num_rows == one.rows, name
        if tables:
            name = chance.choice(sorted(tables))
            assert len(self.hive.oracle.read(self.hive.java(), f"r.{name}")) == self.tables[name].rows, name

    def check_views(self, java: Any) -> None:
        """Both show each view with its columns, its query, its options and its newest comment."""
        ours = {name: self.catalog.views.get(name.removeprefix("view ")) for name in java}
        assert {name: View.from_schema(one) for name, one in java.items()} == ours
        for name, view in ours.items():
            options = {key: value for key, value in view.options.items() if key != "transient_lastDdlTime"}
            changes = self.tables[name.removeprefix("view r.")].rows
            plain = replace(view, comment=None, options=options)
            assert (plain, view.comment) == (VIEW, str(changes) if changes else None)
        assert len(ours) == sum(one.kind == "view" for one in self.tables.values())

    def pages(self, **filters: str) -> Iterator[str]:
        page = self.catalog.list_tables_page("r", limit=1, **filters)
        yield from page.tables
        while page.next_token is not None:
            page = self.catalog.list_tables_page("r", limit=1, token=page.next_token, **filters)
            yield from page.tables


def test_both_see_the_same_kinds_after_each_step(hive: HiveServer, tmp_path: Path) -> None:
    total = Counter[str]()
    for number in range(FIRST, FIRST + SEQUENCES):
        chance = random.Random(f"kinds {number}")
        places = tmp_path / str(number)
        catalog = opened(hive, **{"external-roots": str(places)})
        catalog.create_database("r")
        turns, done = Turns(hive, catalog, places), list[str]()
        for _ in range(STEPS):
            try:
                done.append(turns.step(chance))
                turns.check(chance)
            except AssertionError as err:
                raise AssertionError(f"sequence {number} after {done}: {err}") from err
        total += turns.done
        for name, one in turns.tables.items():
            if one.kind != "view":
                catalog.drop_table(f"r.{name}", purge=not one.external)
        emptied(catalog)
        catalog.close()
        for left in (places, hive.warehouse / "r.db", hive.warehouse / ".lakecore"):
            shutil.rmtree(left, ignore_errors=True)
    print(
        f"{SEQUENCES} sequences from {FIRST} on of {STEPS} operations, of which succeeded: {dict(sorted(total.items()))}"
    )
    assert len(total) >= 9 or SEQUENCES < 20
