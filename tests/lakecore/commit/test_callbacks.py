"""Commit callbacks of another package, which is installed for the test: a commit stands whatever they do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lakecore
from lakecore import entry_points
from lakecore.commit.callbacks import CommitEvent
from lakecore.commit.committer import Committer
from lakecore.commit.request import CommitRequest
from lakecore.jobs import compact
from lakecore.jobs.versions import tags
from lakecore.maintain.tags.callbacks import TagEvent
from lakecore.table import Table
from lakecore.write.messages import decode_commit

MODULE = "callbacks_of_a_test"
Install = Callable[..., list[CommitEvent]]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a package with the callback `callback`; returns what its list `seen` gets."""
    site = tmp_path / "site"
    metadata = site / "other-1.0.dist-info"
    metadata.mkdir(parents=True)
    metadata.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    entry = "".join(f"[lakecore.{kind}_callbacks]\nother = {MODULE}:{kind}\n" for kind in ("commit", "tag"))
    metadata.joinpath("entry_points.txt").write_text(entry)
    monkeypatch.syspath_prepend(site)

    def write(body: str, tag_body: str = "tags.append(event)") -> list[CommitEvent]:
        (site / f"{MODULE}.py").write_text(
            f"seen = []\ndef commit(event):\n    {body}\ntags = []\ndef tag(event):\n    {tag_body}\n"
        )
        entry_points._entry_points.cache_clear()
        return __import__(MODULE).seen  # type: ignore[no-any-return]

    yield write
    sys.modules.pop(MODULE, None)
    entry_points._entry_points.cache_clear()


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = lakecore.load_catalog(tmp_path / "lake", create_warehouse=True, **{"local.fsync": "false"})
    return catalog.create_table(
        "d.t", {"columns": ["k INT"], "primaryKeys": ["k"], "options": {"bucket": "1", "write-only": "true"}}
    )


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int32())})


def test_a_callback_gets_every_snapshot(install: Install, table: Table) -> None:
    seen = install("seen.append(event)")
    table.upsert(rows(1))
    table.upsert(rows(2))
    lake = lakecore.load_catalog(Path(table.path).parents[1])
    compact.run(compact.Job(table="d.t", strategy=compact.Strategy.FULL), lake)
    assert [(one.snapshot.id, one.snapshot.commit_kind.value, one.repeated) for one in seen] == [
        (1, "APPEND", False),
        (2, "APPEND", False),
        (3, "COMPACT", False),
    ]
    assert {(one.table_path, one.branch) for one in seen} == {(table.path, "main")}
    assert seen[1].snapshot == table.snapshot(2)


@pytest.mark.parametrize(
    "body",
    ["raise ValueError('no broker')", "raise SystemExit(3)", "raise KeyboardInterrupt", "nothing.of_it"],
)
def test_a_callback_that_fails_leaves_the_commit(
    install: Install, table: Table, body: str, caplog: pytest.LogCaptureFixture
) -> None:
    install(body)
    result = table.upsert(rows(1))
    assert result.snapshot_ids == (1,)
    (note,) = result.notes
    assert note.startswith(
        "the commit callback other (callbacks_of_a_test:commit) failed for snapshot 1, which"
    )
    assert note in caplog.text
    assert table.upsert(rows(2)).snapshot_ids == (2,)
    assert table.scan().to_arrow().column("k").to_pylist() == [1, 2]


def test_a_package_that_cannot_be_imported_is_a_note(install: Install, table: Table) -> None:
    install("pass")
    sys.modules.pop(MODULE)
    Path(sys.path[0], f"{MODULE}.py").write_text("import no_such_module_at_all\n")
    (note,) = table.upsert(rows(1)).notes
    assert "ModuleNotFoundError" in note


def test_a_repeated_commit_calls_again_and_says_so(install: Install, table: Table) -> None:
    seen = install("seen.append(event)")
    write = table.new_stream_write("job")
    write.write(rows(1).to_batches()[0])
    messages = decode_commit(write.prepare_commit(7)).messages
    request = CommitRequest(user="job", identifier=7)
    Committer(table._stores).commit(messages, request)
    assert Committer(table._stores).commit(messages, request).duplicate
    assert [(one.snapshot.id, one.repeated) for one in seen] == [(1, False), (1, True)]


def test_a_callback_may_write_to_a_table(install: Install, table: Table) -> None:
    """Its own commits call no callback, or it would never end."""
    lake = lakecore.load_catalog(Path(table.path).parents[1])
    audit = lake.create_table("d.audit", {"columns": ["id INT"]})
    seen = install(
        "import lakecore, pathlib, pyarrow as pa\n"
        "    seen.append(event)\n"
        "    lake = lakecore.load_catalog(pathlib.Path(event.table_path).parents[1])\n"
        "    lake.load_table('d.audit').write(pa.table({'id': pa.array([event.snapshot.id], pa.int32())}))"
    )
    assert table.upsert(rows(1)).notes == ()
    assert audit.scan().to_arrow().column("id").to_pylist() == [1]
    assert len(seen) == 1


def tag_events() -> list[tuple[str, str, int | None]]:
    seen: list[TagEvent] = sys.modules[MODULE].tags
    return [(one.tag, one.change.value, one.snapshot_id) for one in seen]


def test_tag_callbacks_get_every_change(install: Install, table: Table) -> None:
    lake = lakecore.load_catalog(Path(table.path).parents[1])
    install("pass")
    table.upsert(rows(1))
    table.upsert(rows(2))
    tags.run(tags.CreateTag(table="d.t", tag="a", snapshot=1), lake)
    tags.run(tags.CreateTag(table="d.t", tag="a", snapshot=1), lake)
    tags.run(tags.ReplaceTag(table="d.t", tag="a", snapshot=2), lake)
    tags.run(tags.RenameTag(table="d.t", tag="a", target_tag="b"), lake)
    tags.run(tags.DeleteTag(table="d.t", tags=("b",), dry_run=True), lake)
    tags.run(tags.DeleteTag(table="d.t", tags=("b",)), lake)
    assert tag_events() == [
        ("a", "created", 1), ("a", "moved", 2), ("b", "created", 2), ("a", "deleted", None), ("b", "deleted", None),
    ]  # fmt: skip
    seen = sys.modules[MODULE].tags[0]
    assert (seen.table_path, seen.branch) == (table.path, "main")


def test_automatic_tags_call_and_a_failure_changes_nothing(
    install: Install, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lake = lakecore.load_catalog(tmp_path / "lake", create_warehouse=True, **{"local.fsync": "false"})
    options = {"tag.automatic-creation": "batch", "tag.batch.customized-name": "day", "write-only": "true"}
    table = lake.create_table("d.auto", {"columns": ["k INT"], "options": options})
    install("pass", "tags.append(event); raise KeyboardInterrupt")
    table.append(rows(1))
    table.append(rows(2))
    assert tag_events() == [("day", "created", 1), ("day", "moved", 2)]
    assert table.tags()["day"].id == 2
    assert (
        "the tag callback other (callbacks_of_a_test:tag) failed for tag day, which was moved" in caplog.text
    )
