"""What tables, scans, snapshots, reports and catalogs look like in a session and in a notebook."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pyarrow as pa
import pytest

import lakecore
from lakecore.compact.engine.work import Strategy
from lakecore.display import facts_of, html_table, one_line
from lakecore.fs.memory import MemoryFileIO
from lakecore.jobs import compact, compact_database, expire_snapshots, rewrite_file_index
from lakecore.jobs.runner import chore
from lakecore.metadata.snapshot import CommitKind, Snapshot
from lakecore.predicate.tree import Compare, Comparison
from lakecore.read.source.snapshot_rows import SnapshotRows
from tests.support.handles import with_stores

SECRET = "hunter2"
HOSTILE = "<script>alert('x')</script>\x1b[2J\nforged \u202e\"&\x00 s3://key:hunter2@b s3.secret-key=hunter2"


@pytest.fixture
def lake() -> Iterator[Any]:
    MemoryFileIO("display").clear()
    lake = lakecore.load_catalog("memory://display/wh")
    options = {"bucket": "1", "fs.s3a.secret.key": SECRET}
    definition = {"columns": ["k INT", "v STRING", "p STRING"], "primaryKeys": ["k", "p"]}
    lake.create_table("d.t", definition | {"partitionKeys": ["p"], "options": options})
    yield lake
    MemoryFileIO("display").clear()


def put(table: Any, number: int = 0) -> None:
    table.write(pa.table({"k": pa.array([number], pa.int32()), "v": ["a"], "p": ["x"]}))


def snapshot(**fields: Any) -> Snapshot:
    given = {
        "id": 7,
        "schema_id": 1,
        "base_manifest_list": "b",
        "delta_manifest_list": "d",
        "commit_user": "u",
    }
    given |= {"commit_identifier": 1, "commit_kind": CommitKind.APPEND, "time_millis": 1_700_000_000_123}
    return Snapshot(**(given | fields))


def test_a_table_is_one_line(lake: Any) -> None:
    table = lake.load_table("d.t")
    assert repr(table) == (
        "<Table d.t: schema 0, columns 3, primary key (k, p), partitioned by (p), path memory://display/wh/d.db/t>"
    )


def test_the_line_of_a_table_reads_nothing(lake: Any) -> None:
    class Gone:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(name)

    table = with_stores(lake.load_table("d.t"), file_io=Gone())
    assert repr(table) == repr(lake.load_table("d.t"))


def test_a_notebook_shows_the_latest_snapshot(lake: Any) -> None:
    table = lake.load_table("d.t")
    assert cells(table)["latest snapshot"] == "none"
    put(table)
    assert cells(table)["latest snapshot"] == repr(table.latest_snapshot())
    assert cells(table)["columns"] == "3: k, v, p"


def test_a_notebook_shows_a_table_whose_storage_does_not_answer(lake: Any) -> None:
    class Down:
        def __getattr__(self, name: str) -> Any:
            raise lakecore.UnavailableError("storage is down")

    table = with_stores(lake.load_table("d.t"), file_io=Down())
    assert cells(table)["latest snapshot"] == "cannot be read: storage is down"


def test_a_snapshot_is_one_line() -> None:
    assert repr(snapshot(total_record_count=30, delta_record_count=0, watermark=5)) == (
        "<Snapshot 7: kind APPEND, user u, time 2023-11-14 22:13:20.123 UTC, rows 30, added 0, schema 1, watermark 5>"
    )
    assert cells(snapshot())["kind"] == "APPEND"


@pytest.mark.parametrize("time", [-(1 << 63), (1 << 63) - 1, 0])
def test_any_time_of_a_snapshot_can_be_shown(time: int) -> None:
    assert repr(snapshot(time_millis=time)).endswith("UTC, schema 1>")


def test_a_scan_is_one_line(lake: Any) -> None:
    table = lake.load_table("d.t")
    assert repr(table.scan()) == "<Scan d.t before its first snapshot: columns 3>"
    put(table)
    put(table, 1)
    found = table.scan(where="k > 1", columns=["v"], limit=3)
    assert repr(found) == "<Scan d.t at snapshot 2: columns 1, where k > 1, limit 3>"
    assert cells(found) == {"columns": "1: v", "where": "k > 1", "limit": "3"}
    built = table.scan(where=Compare("k", Comparison.GT, 1))
    assert repr(built) == "<Scan d.t at snapshot 2: columns 3, where conditions on k>"
    assert repr(table.scan(limit=0)) == "<Scan d.t at snapshot 2: columns 3, limit 0>"


@pytest.mark.parametrize(
    ("name", "options", "shown"),
    [
        ("d.t", {"incremental": "1..2"}, "d.t, changes of snapshots 2 to 2"),
        ("d.t", {"incremental": "2..2"}, "d.t, no changes"),
        ("d.t", {"incremental": lakecore.Incremental.parse("1..2", "diff")}, "d.t, difference of snapshots 1 and 2"),
        ("d.t$files", {}, "d.t$files"),
        ("d.t$audit_log", {"snapshot": 1}, "d.t at snapshot 1, audit log"),
        ("d.t$binlog", {}, "d.t at snapshot 2, binlog"),
        ("sys.tables", {}, "sys.tables"),
    ],
    ids=["delta", "nothing", "difference", "files", "audit-log", "binlog", "catalog"],
)  # fmt: skip
def test_a_scan_says_what_it_reads(lake: Any, name: str, options: dict[str, Any], shown: str) -> None:
    table = lake.load_table("d.t")
    put(table)
    put(table, 1)
    found = repr(lake.load_table(name).scan(**options))
    assert re.fullmatch(rf"<Scan {re.escape(shown)}: columns \d+>", found), found


def test_changes_of_a_stream_say_what_they_are(lake: Any) -> None:
    table = lake.load_table("d.t").with_options({"changelog-producer": "input"})
    lake.drop_table("d.t")
    definition = {"columns": ["k INT", "v STRING", "p STRING"], "primaryKeys": ["k"]}
    table = lake.create_table("d.t", definition | {"options": {"bucket": "1", "changelog-producer": "input"}})
    put(table)
    stream = table.stream()
    assert repr(stream) == "<Stream d.t>"
    state = stream.poll()
    assert repr(state) == "<Changes d.t at snapshot 1: next snapshot 2, parts 1>"
    assert repr(state.rows) == "<Scan d.t at snapshot 1: columns 3>"
    put(table, 1)
    assert repr(stream.poll().rows) == "<Scan d.t, changes of snapshots 2 to 2: columns 3>"
    assert repr(stream) == "<Stream d.t: next snapshot 3>"
    assert repr(table.stream(consumer="c")) == "<Stream d.t: consumer c>"


def test_system_tables_and_catalogs_are_one_line(lake: Any) -> None:
    assert repr(lake) == "<FilesystemCatalog memory://display/wh>"
    assert repr(lake.load_table("d.t$files")) == "<SystemTable d.t$files>"
    assert repr(lake.load_table("sys.tables")) == "<CatalogTable sys.tables>"


def test_reports_are_one_line(lake: Any) -> None:
    table = lake.load_table("d.t")
    put(table)
    put(table, 1)
    done = compact.run(compact.Job(table="d.t", strategy=Strategy.FULL), lake)
    assert re.fullmatch(
        r"<Report d\.t: strategy full, engine local, rows in 2, rows out 2, files in 2, files out 1,"
        r" bytes in \d+, bytes out \d+, proof [^\n]+, picks done 1, seconds [\d.e-]+, snapshot 3, snapshots 1>",
        repr(done),
    ), repr(done)
    assert cells(done)["snapshots"] == "1: 3"
    expired = expire_snapshots.run(expire_snapshots.Job(table="d.t", retain_max=1, retain_min=1), lake)
    assert repr(expired).startswith("<Report d.t: job expire-snapshots, run ")
    assert "snapshots 2" in repr(expired)
    database = compact_database.run(compact_database.Job(), lake)
    assert re.fullmatch(r"<Report 1 table: tables 1, nothing to do 1, seconds [\d.e-]+>", repr(database))
    assert cells(database)["nothing to do"] == "1"
    failed = compact.Report(
        table="d.t", strategy=Strategy.FULL, engine="local", error="it failed", error_class="X"
    )
    assert repr(failed) == "<Report d.t: strategy full, engine local, error it failed, error class X>"
    dry = chore.Report(table="d.t", job="j", dry_run=True, names=("a", "b"))
    assert repr(dry) == "<Report d.t: job j, names 2, dry run yes>"
    index = rewrite_file_index.Report(table="d.t", engine="local", files=2)
    assert repr(index) == "<Report d.t: engine local, files 2>"


class Cells(HTMLParser):
    """The texts of the cells, and which elements and attributes there are."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.elements: set[str] = set()
        self.attributes: list[Any] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.elements.add(tag)
        self.attributes += attrs
        if tag in ("th", "td", "caption"):
            self.texts.append("")

    def handle_data(self, data: str) -> None:
        self.texts[-1] += data


def parsed(value: Any) -> Cells:
    parser = Cells()
    parser.feed(value._repr_html_())
    parser.close()
    return parser


def cells(value: Any) -> dict[str, str]:
    texts = parsed(value).texts[1:]
    return dict(zip(texts[::2], texts[1::2], strict=True))


def hostile_values(lake: Any) -> dict[str, Any]:
    """Values whose names, users, paths and texts are what an attacker would choose."""
    table = lake.load_table("d.t")
    put(table)
    schema = replace(
        table.schema,
        fields=tuple(replace(one, name=f"{one.name}{HOSTILE}") for one in table.schema.fields),
        primary_keys=(HOSTILE,),
        partition_keys=(HOSTILE,),
    )
    paths = replace(table._stores.paths, table_path=f"/wh/{HOSTILE}")
    source = replace(table.scan().source, scanner=replace(table._scanner, table=f"d.{HOSTILE}"))
    assert isinstance(source, SnapshotRows)
    hostile_table = replace(with_stores(table, schema=schema, paths=paths), name=f"d.{HOSTILE}")
    return {
        "table": hostile_table,
        "snapshot": snapshot(commit_user=HOSTILE),
        "scan": replace(table.scan(), source=source, columns=(HOSTILE, "k"), where=None, _condition=HOSTILE),
        "compact report": compact.Report(
            table=HOSTILE, strategy=Strategy.FULL, engine=HOSTILE, error=HOSTILE, planned=(HOSTILE,)
        ),
        "chore report": chore.Report(table=HOSTILE, job=HOSTILE, names=(HOSTILE, HOSTILE), blocker=HOSTILE),
        "index report": rewrite_file_index.Report(table=HOSTILE, engine=HOSTILE, warnings=(HOSTILE,)),
        "catalog": replace(lake, warehouse=f"memory://{HOSTILE}"),
    }


KINDS = ["table", "snapshot", "scan", "compact report", "chore report", "index report", "catalog"]


def test_all_kinds_are_tested(lake: Any) -> None:
    assert list(hostile_values(lake)) == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_names_stay_on_one_line_and_show_no_secret(lake: Any, kind: str) -> None:
    line = repr(hostile_values(lake)[kind])
    assert line.isprintable()
    assert SECRET not in line
    assert "alert" in line
    assert r"\x1b[2J\x0a" in line


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "catalog"])
def test_hostile_names_make_no_markup(lake: Any, kind: str) -> None:
    value = hostile_values(lake)[kind]
    found = parsed(value)
    assert found.elements == {"table", "caption", "tbody", "tr", "th", "td"}
    assert found.attributes == []
    assert any("<script>alert('x')</script>" in text for text in found.texts)
    html = value._repr_html_()
    assert html.isprintable()
    assert SECRET not in html
    assert not re.search(r"[\"']", html)


def test_long_values_are_cut() -> None:
    line = one_line("Table", "n" * 10_000, {"a": "x" * 10_000, "b": ["y" * 10_000] * 3})
    assert len(line) < 500
    assert len(html_table("Table", "n" * 10_000, {"a": "x" * 10_000, "b": ["y" * 10_000] * 3})) < 1000


def test_a_number_that_is_zero_is_shown_and_what_is_empty_is_not() -> None:
    facts = {"a": 0, "b": None, "c": "", "d": (), "e": False, "f": {}}
    assert one_line("K", "n", facts) == "<K n: a 0, e no>"
    assert one_line("K", "n", {}) == "<K n>"
    assert html_table("K", "n", facts).count("<tr>") == 2


def test_facts_are_the_fields_that_differ_from_their_defaults() -> None:
    report = chore.Report(table="d.t", job="j", files=3, nothing_to_do=False)
    assert facts_of(report, without=("table",)) == {"job": "j", "files": 3}
