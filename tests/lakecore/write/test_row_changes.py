"""UPDATE and MERGE INTO: what is refused, other writers meanwhile, and storage that fails at each operation."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakecore
from lakecore.catalog.catalog import Catalog
from lakecore.cli.main import main
from lakecore.errors import (
    CommitConflictError,
    CommitUncertainError,
    InvalidInputError,
    LakeError,
    UnsupportedError,
)
from lakecore.jobs import compact
from lakecore.scan.change_scanner import ChangeScanner
from lakecore.table import Commit, Table
from lakecore.write.row_level.append import AppendChange
from lakecore.write.row_level.clauses import MatchedRows, MergeRules, UnmatchedRows, WhenMatched
from lakecore.write.row_level.keyed import KeyedChange
from lakecore.write.row_level.rows_since import RowsSince
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.lake import live_files, memory_catalog, paths_of, rows_of

COLUMNS = ["k INT NOT NULL", "v STRING"]
ROWS = pa.table({"k": pa.array([1, 2, 3], pa.int32()), "v": ["a", "b", "c"]})
KEYED: dict[str, Any] = {"columns": COLUMNS, "primaryKeys": ["k"], "options": {"bucket": "1"}}
VECTORS: dict[str, Any] = {
    "columns": COLUMNS,
    "options": {"bucket": "-1", "deletion-vectors.enabled": "true"},
}
REWRITTEN: dict[str, Any] = {"columns": COLUMNS, "options": {"bucket": "-1"}}
KINDS = {"keyed": KEYED, "vectors": VECTORS, "rewritten": REWRITTEN}


def made(name: str, definition: dict[str, Any]) -> Table:
    table = memory_catalog(name).create_table("d.t", definition)
    table.write(ROWS)
    return table


def with_option(key: str, value: str, base: dict[str, Any] = KEYED) -> dict[str, Any]:
    return {**base, "options": {**base["options"], key: value}}


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        (with_option("merge-engine", "aggregation"), "merge-engine=aggregation"),
        (with_option("merge-engine", "first-row"), "merge-engine=first-row"),
        (with_option("row-tracking.enabled", "true", REWRITTEN), "row-tracking.enabled"),
        (
            {
                "columns": COLUMNS,
                "options": {"row-tracking.enabled": "true", "data-evolution.enabled": "true"},
            },
            "use update_columns",
        ),
    ],
    ids=["aggregation", "first-row", "row-tracking", "data-evolution"],
)
def test_tables_whose_rows_are_not_replaced_are_refused(definition: dict[str, Any], text: str) -> None:
    table = memory_catalog("refused").create_table("d.t", definition)
    with pytest.raises(UnsupportedError, match=text):
        table.update({"v": "x"})
    with pytest.raises(UnsupportedError, match=text):
        table.merge(ROWS, ["k"])


CALLS: dict[str, tuple[str, Callable[[Table], object]]] = {
    "no-column": ("no column is set", lambda t: t.update({})),
    "unknown": ("column 'x' is not in the table", lambda t: t.update({"x": 1})),
    "key": ("of the primary key", lambda t: t.update({"k": 1})),
    "type": ("v", lambda t: t.update({"v": [1]})),
    "condition": ("nosuch", lambda t: t.update({"v": "x"}, "nosuch = 1")),
    "expression": ("cannot be computed", lambda t: t.update({"v": pc.field("nosuch")})),
    "on-nothing": ("no column to merge by", lambda t: t.merge(ROWS, [])),
    "on-unknown": ("column 'x'", lambda t: t.merge(ROWS, ["x"])),
    "on-not-the-key": ("add k", lambda t: t.merge(ROWS, ["v"])),
    "several": (
        "several rows of the source match the row with k=1",
        lambda t: t.merge(pa.concat_tables([ROWS, ROWS]), ["k"]),
    ),
    "nothing-to-set": ("no column is set", lambda t: t.merge(ROWS.select(["k"]), ["k"])),
}


@pytest.mark.parametrize("call", CALLS)
def test_what_makes_no_sense_is_refused_and_leaves_nothing(call: str) -> None:
    table = made(f"nonsense-{call}", KEYED)
    before = (table.latest_snapshot(), paths_of(table))
    text, function = CALLS[call]
    with pytest.raises(InvalidInputError, match=text):
        function(table)
    assert (table.latest_snapshot(), paths_of(table)) == before


def test_partial_update_sets_no_nulls() -> None:
    table = made("partial", with_option("merge-engine", "partial-update"))
    for value in (None, pc.scalar(pa.scalar(None, pa.string()))):
        with pytest.raises(InvalidInputError, match="cannot be set to null"):
            table.update({"v": value}, "k = 1")
    with pytest.raises(UnsupportedError, match="merge-engine"):
        table.merge(ROWS, ["k"], MergeRules(matched=MatchedRows.DELETE))
    assert table.update({"v": "x"}, "k = 1").rows == 1


@pytest.mark.parametrize("kind", KINDS)
def test_the_clauses_of_a_merge(kind: str) -> None:
    table = made(f"clauses-{kind}", KINDS[kind])
    source = pa.table({"k": pa.array([1, 5, 5], pa.int64()), "w": ["x", "y", "z"]})
    rules = MergeRules(matched=MatchedRows.IGNORE, not_matched=UnmatchedRows.IGNORE)
    assert table.merge(source, ["k"], rules).commit.snapshot_ids == ()
    rules = MergeRules(set={"v": pc.binary_join_element_wise(pc.field("v"), pc.field("source.w"), "-")})
    result = table.merge(source.slice(0, 2), ["k"], rules)
    assert (result.updated, result.deleted, result.inserted) == (1, 0, 1)
    assert sorted(rows_of(table), key=str) == [(1, "a-x"), (2, "b"), (3, "c"), (5, None)]
    rules = MergeRules(
        matched=MatchedRows.DELETE, not_matched=UnmatchedRows.IGNORE, delete_not_matched_by_source=False
    )
    assert table.merge(source.slice(0, 1), ["k"], rules).deleted == 1
    assert sorted(rows_of(table), key=str) == [(2, "b"), (3, "c"), (5, None)]
    nulls = pa.table({"v": pa.array([None], pa.string()), "k": pa.array([9], pa.int32())})
    if kind != "keyed":
        assert table.merge(nulls, ["v"], MergeRules(matched=MatchedRows.DELETE)).inserted == 1, (
            "null is no null"
        )


OTHERS: dict[str, tuple[Callable[[Table], object], list[tuple[int, str]]]] = {
    "update": (lambda t: t.update({"v": "other"}, "k = 2"), [(1, "a!"), (2, "other!"), (3, "c")]),
    "append": (lambda t: t.append(ROWS.slice(0, 1)), [(1, "a"), (1, "a!"), (2, "b!"), (3, "c")]),
}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("kind", ["vectors", "rewritten"])
def test_rows_that_others_change_meanwhile_are_read_again(
    kind: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(f"meanwhile-{kind}-{other}", KINDS[kind])
    change, expected = OTHERS[other]
    drafts, calls = AppendChange.drafts, []

    def late(this: AppendChange) -> object:
        calls.append(this)
        if len(calls) == 1:
            change(table)
        return drafts(this)

    monkeypatch.setattr(AppendChange, "drafts", late)
    table.update({"v": pc.binary_join_element_wise(pc.field("v"), "!", "")}, "k <= 2")
    assert sorted(rows_of(table)) == expected
    assert len(calls) == {"update": 3, "append": 1}[other]


Numbered = list[tuple[int, str, int]]
KEYED_CHANGES: dict[str, Callable[[Table], object]] = {
    "update": lambda t: t.update({"n": pc.add(pc.field("n"), 10)}, "v = 'a' or v = 'b'").rows,
    "merge": lambda t: t.merge(
        numbered((1, None, 11), (4, "m", 14)), ["k"], MergeRules(set={"n": pc.field("source.n")})
    ),
    "delete": lambda t: t.delete("v = 'a'").rows,
}
KEYED_OTHERS: dict[str, tuple[Callable[[Table], object], dict[str, Numbered], int]] = {
    "update of the same row": (
        lambda t: t.update({"v": "new"}, "k = 1"),
        {
            "update": [(1, "new", 1), (2, "b", 12), (3, "c", 3)],
            "merge": [(1, "new", 11), (2, "b", 2), (3, "c", 3), (4, "m", 14)],
            "delete": [(1, "new", 1), (2, "b", 2), (3, "c", 3)],
        },
        2,
    ),
    "delete of the same row": (
        lambda t: t.delete("k = 1"),
        {
            "update": [(2, "b", 12), (3, "c", 3)],
            "merge": [(1, None, 11), (2, "b", 2), (3, "c", 3), (4, "m", 14)],
            "delete": [(2, "b", 2), (3, "c", 3)],
        },
        2,
    ),
    "the row that the merge inserts": (
        lambda t: t.write(numbered((4, "w", 4), (1, "a", 1))),
        {
            "update": [(1, "a", 11), (2, "b", 12), (3, "c", 3), (4, "w", 4)],
            "merge": [(1, "a", 11), (2, "b", 2), (3, "c", 3), (4, "w", 14)],
            "delete": [(2, "b", 2), (3, "c", 3), (4, "w", 4)],
        },
        2,
    ),
    "overwrite": (
        lambda t: t.overwrite(numbered((5, "o", 0))),
        {
            "update": [(5, "o", 0)],
            "merge": [(1, None, 11), (4, "m", 14), (5, "o", 0)],
            "delete": [(5, "o", 0)],
        },
        2,
    ),
    "other keys": (
        lambda t: t.write(numbered((3, "w", 0), (5, "w", 5))),
        {
            "update": [(1, "a", 11), (2, "b", 12), (3, "w", 0), (5, "w", 5)],
            "merge": [(1, "a", 11), (2, "b", 2), (3, "w", 0), (4, "m", 14), (5, "w", 5)],
            "delete": [(2, "b", 2), (3, "w", 0), (5, "w", 5)],
        },
        1,
    ),
}


def numbered(*rows: tuple[int, str | None, int]) -> pa.Table:
    schema = pa.schema([("k", pa.int32()), ("v", pa.string()), ("n", pa.int32())])
    return pa.Table.from_pylist([dict(zip("kvn", row, strict=True)) for row in rows], schema)


def numbered_table(catalog: Catalog, **options: str) -> Table:
    definition = {"columns": [*COLUMNS, "n INT"], "primaryKeys": ["k"], "options": {"bucket": "1"} | options}
    table = catalog.create_table("d.t", definition)
    table.write(numbered((1, "a", 1), (2, "b", 2), (3, "c", 3)))
    return table


def meanwhile(
    monkeypatch: pytest.MonkeyPatch, act: Callable[[], object], times: int = 1
) -> list[KeyedChange]:
    """Let others act after a change with a primary key has read, so many times; returns its attempts."""
    attempts: list[KeyedChange] = []
    rows_of_change = KeyedChange.__iter__

    def late(this: KeyedChange) -> Iterator[pa.RecordBatch]:
        yield from rows_of_change(this)
        attempts.append(this)
        if len(attempts) <= times:
            with monkeypatch.context() as other:
                other.setattr(KeyedChange, "__iter__", rows_of_change)
                act()

    monkeypatch.setattr(KeyedChange, "__iter__", late)
    return attempts


@pytest.mark.parametrize("bucket", ["1", "-1"])
@pytest.mark.parametrize("other", KEYED_OTHERS)
@pytest.mark.parametrize("change", KEYED_CHANGES)
def test_rows_of_a_key_that_others_change_meanwhile_are_read_again(
    change: str, other: str, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = numbered_table(memory_catalog(f"keyed-{change}-{other}-{bucket}"), bucket=bucket)
    act, expected, tries = KEYED_OTHERS[other]
    attempts = meanwhile(monkeypatch, lambda: act(table))
    KEYED_CHANGES[change](table)
    assert sorted(rows_of(table)) == expected[change]
    if bucket == "1" or tries == 2:  # the index of dynamic buckets may conflict, too
        assert len(attempts) == tries


@pytest.mark.parametrize("change", KEYED_CHANGES)
def test_a_compaction_meanwhile_changes_no_row(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = memory_catalog(f"compacted-{change}")
    table = numbered_table(catalog)
    table.write(numbered((3, "c", 4)))
    job = compact.Job(table="d.t", strategy=compact.Strategy.FULL)
    attempts = meanwhile(monkeypatch, lambda: compact.run(job, catalog))
    KEYED_CHANGES[change](table)
    assert len(attempts) == 1
    assert [one.commit_kind.value for one in table.snapshots()] == ["APPEND", "COMPACT", "APPEND", "APPEND"]
    assert (3, "c", 4) in rows_of(table)


def test_a_change_that_others_always_precede_is_an_error_and_leaves_no_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = numbered_table(memory_catalog("always"), **{"commit.max-retries": "2"})
    attempts = meanwhile(monkeypatch, lambda: table.write(numbered((1, "a", 5))), times=9)
    with pytest.raises(
        CommitConflictError,
        match="with snapshot 4: snapshot 4: another commit changed rows that this one has read",
    ):
        table.update({"n": 9}, "k = 1")
    assert len(attempts) == 3
    assert sorted(rows_of(table)) == [(1, "a", 5), (2, "b", 2), (3, "c", 3)]
    assert len(live_files(table)) == len(paths_of(table)) == 4


def test_a_snapshot_that_expired_may_have_changed_the_rows() -> None:
    table = numbered_table(memory_catalog("expired"))
    newer = RowsSince(ChangeScanner(table._scanner, table.schema), table._read_context(), None, ())
    assert [*newer.changed_by([None])] == [None]


@pytest.mark.parametrize("change", ["update", "merge", "delete", "delete the older row"])
def test_rows_that_reads_do_not_show_yet_are_neither_lost_nor_left_out(change: str) -> None:
    """Reads of a table with deletion vectors skip level 0. A changed row must be made of the newest row of its key."""
    catalog = memory_catalog(f"hidden-{change}")
    options = {"bucket": "1", "deletion-vectors.enabled": "true", "write-only": "true"}
    columns = [*COLUMNS, "n INT"]
    table = catalog.create_table("d.t", {"columns": columns, "primaryKeys": ["k"], "options": options})
    full = compact.Job(table="d.t", strategy=compact.Strategy.FULL)
    table.write(
        pa.table({"k": pa.array([1, 2], pa.int32()), "v": ["a", "x"], "n": pa.array([1, 1], pa.int32())})
    )
    compact.run(full, catalog)
    table.write(pa.table({"k": pa.array([1], pa.int32()), "v": ["b"], "n": pa.array([2], pa.int32())}))
    table = catalog.load_table("d.t")
    assert rows_of(table) == [(1, "a", 1), (2, "x", 1)]
    if change == "update":
        assert table.update({"n": 5}, "v = 'b'").rows == 1
    elif change == "merge":
        source = pa.table({"k": pa.array([1], pa.int32()), "n": pa.array([5], pa.int32())})
        table.merge(source, ["k"], MergeRules(not_matched=UnmatchedRows.IGNORE))
    else:
        assert table.delete("v = 'b'" if change == "delete" else "v = 'a'").rows == (change == "delete")
    compact.run(full, catalog)
    first = {"delete": [], "delete the older row": [(1, "b", 2)]}.get(change, [(1, "b", 5)])
    assert rows_of(catalog.load_table("d.t")) == [*first, (2, "x", 1)]


def test_a_repeated_commit_changes_nothing() -> None:
    for kind, definition in KINDS.items():
        table = made(f"repeated-{kind}", definition)
        name = Commit(user="u", identifier=3)
        table.update({"v": "x"}, "k = 1", name)
        files = paths_of(table)
        assert table.update({"v": "x"}, "k = 1", name).commit.duplicate
        assert paths_of(table) == files


MODES = (FaultMode.ERROR, FaultMode.ERROR_AFTER_EFFECT, FaultMode.DEAD, FaultMode.DEAD_AFTER_EFFECT)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
@pytest.mark.parametrize("kind", KINDS)
def test_storage_that_fails_at_any_operation_leaves_old_or_new_rows(kind: str, mode: FaultMode) -> None:
    old = [(1, "a"), (2, "b"), (3, "c")]
    new = [(1, "x"), (2, "b"), (3, "c"), (4, "d")]
    source = pa.table({"k": pa.array([1, 4], pa.int32()), "v": ["x", "d"]})
    for number in itertools.count(1 + MODES.index(mode), len(MODES)):  # the others fail in another mode
        catalog = memory_catalog(f"fault-{kind}-{mode.value}-{number}")
        table = catalog.create_table("d.t", KINDS[kind])
        table.write(ROWS)
        storage = FaultyFileIO(catalog.file_io, number, mode)
        uncertain = False
        try:
            replace(catalog, file_io=storage).load_table("d.t").merge(source, ["k"])
        except CommitUncertainError:
            uncertain = True
        except LakeError:
            assert sorted(rows_of(table)) == old
        if mode is FaultMode.ERROR and storage.fired and not uncertain and sorted(rows_of(table)) == old:
            named = {path for path in paths_of(table) if "index" not in path}
            assert len(named) == 1, "an attempt that failed removes its files"
        assert sorted(rows_of(table)) in (old, new)
        if not storage.fired:
            assert sorted(rows_of(table)) == new
            break


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_storage_that_fails_beside_another_writer_leaves_rows_of_one_moment(
    mode: FaultMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, between, new = ([(1, one), (2, "b"), (3, "c")] for one in ("a", "o", "o!"))
    other = pa.table({"k": pa.array([1], pa.int32()), "v": ["o"]})
    for number in itertools.count(1 + MODES.index(mode), len(MODES)):
        catalog = memory_catalog(f"beside-{mode.value}-{number}")
        table = catalog.create_table("d.t", KEYED)
        table.write(ROWS)
        storage = FaultyFileIO(catalog.file_io, number, mode)
        failed = False
        with monkeypatch.context() as patch:
            attempts = meanwhile(patch, lambda table=table: table.write(other))  # type: ignore[misc]
            try:
                failing = replace(catalog, file_io=storage).load_table("d.t")
                failing.update({"v": pc.binary_join_element_wise(pc.field("v"), "!", "")}, "k = 1")
            except CommitUncertainError:
                pass
            except LakeError:
                failed = True
        rows = sorted(rows_of(table))
        if failed:
            assert rows == (between if attempts else old)
        else:
            assert rows in (between, new)
        if failed and mode is FaultMode.ERROR:
            assert len(paths_of(table)) == len(live_files(table)), "an attempt that failed removes its files"
        if not storage.fired:
            assert (rows, len(attempts)) == (new, 2)
            break


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*words: str) -> tuple[int, Any]:
        code = main(["--warehouse", str(tmp_path), "--json", *words])
        shown = capsys.readouterr()
        if code or not shown.out:
            return code, shown.err
        if words[0] == "read":
            return code, [json.loads(line) for line in shown.out.splitlines()]
        return code, json.loads(shown.out)

    columns = ["k INT", "v STRING", "d DATE", "n DECIMAL(5, 2)"]
    schema = json.dumps({"columns": columns, "primaryKeys": ["k"], "options": {"bucket": "1"}})
    assert run("create", "d.t", "--schema", schema)[0] == 0
    (tmp_path / "rows.csv").write_text("k,v\n1,a\n2,b\n")
    assert run("merge-into", "d.t", str(tmp_path / "rows.csv"), "--on", "k")[1]["inserted"] == 2
    code, answer = run(
        "update", "d.t", "--set", "d=2024-02-29", "--set", "n=1.50", "--set", "v=", "--where", "k = 1"
    )
    assert (code, answer["rows"]) == (0, 1)
    rows = {row["k"]: row for row in run("read", "d.t")[1]}
    assert rows[1] == {"_kind": "+U", "k": 1, "v": None, "d": "2024-02-29", "n": "1.50"}
    assert run("update", "d.t", "--set", "v=x")[0] == 1
    assert run("update", "d.t", "--set", "v=x", "--all")[1]["rows"] == 2
    assert run("update", "d.t", "--set", "n=much", "--all")[0] == 1
    words = ("--matched", "delete", "--not-matched", "ignore")
    assert run("merge-into", "d.t", str(tmp_path / "rows.csv"), "--on", "k", *words)[1]["deleted"] == 2


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        (
            MergeRules(
                clauses=(
                    WhenMatched(action=MatchedRows.DELETE),
                    WhenMatched(action=MatchedRows.UPDATE, condition="k = 1"),
                )
            ),
            "only the last clause WHEN MATCHED",
        ),
        (
            MergeRules(matched=MatchedRows.DELETE, clauses=(WhenMatched(action=MatchedRows.UPDATE),)),
            "either clauses, or matched",
        ),
        (
            MergeRules(clauses=(WhenMatched(action=MatchedRows.DELETE, condition="nothing = 1"),)),
            "nothing",
        ),
        (
            MergeRules(clauses=(WhenMatched(action=MatchedRows.DELETE, condition=pc.field("source.k")),)),
            "not true or false",
        ),
        (
            MergeRules(clauses=(WhenMatched(action=MatchedRows.DELETE, set={"v": "x"}),)),
            "sets no column",
        ),
        (MergeRules(clauses=(WhenMatched(action=MatchedRows.DELETE, condition=1),)), "a filter as text"),
    ],
    ids=["order", "both forms", "column", "type", "set", "condition"],
)
def test_clauses_that_mean_nothing_are_refused(rules: MergeRules, text: str) -> None:
    table = made("refused-clauses", KEYED)
    before = table.latest_snapshot()
    with pytest.raises(InvalidInputError, match=text):
        table.merge(ROWS, ["k"], rules)
    assert table.latest_snapshot() == before


def test_clauses_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = lakecore.load_catalog(tmp_path, create_warehouse=True).create_table("d.t", VECTORS)
    table.write(ROWS)
    source = tmp_path / "rows.jsonl"
    source.write_text("".join(json.dumps({"k": k, "v": f"n{k}"}) + "\n" for k in (1, 2, 4, 5)))
    arguments = ["--warehouse", str(tmp_path), "merge-into", "d.t", str(source), "--on", "k"]
    wrong = [*arguments, "--when-matched", "destroy if k = 1"]
    assert main(wrong) == 1
    assert "begin with one of update, delete, ignore" in " ".join(capsys.readouterr().err.split())
    matched = ["--when-matched", "delete if k = 1", "--when-matched", "update"]
    assert main([*arguments, *matched, "--when-not-matched", "insert IF `source.v` = 'n4'"]) == 0
    assert rows_of(table) == [(2, "n2"), (3, "c"), (4, "n4")]
