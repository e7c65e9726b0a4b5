"""The way from the command `compact` to the publication of a snapshot: how many functions of lakecore lie on it."""

from __future__ import annotations

import threading
import traceback
from pathlib import Path

import pytest

import lakecore
from lakecore.catalog.filesystem import load_catalog
from lakecore.cli.main import main
from lakecore.store.snapshots import SnapshotStore
from tests.support.lake import put

CALLS = 16
"""docs/architecture.md ("The structure in figures") says what each decides or owns. It may only become less."""
PACKAGE = str(Path(lakecore.__file__).parent)


def frames() -> list[str]:
    """Return the functions of lakecore on the stack of this thread, outermost first."""
    stack = traceback.extract_stack()
    own = [one for one in stack if one.filename.startswith(PACKAGE)]
    return [f"{Path(one.filename).relative_to(PACKAGE)}: {one.name}" for one in own]


def test_few_calls_lead_from_the_command_to_the_publication(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = load_catalog(str(tmp_path))
    options = {"bucket": "1", "write-only": "true"}
    columns = {"columns": ["k INT", "v STRING"], "primaryKeys": ["k"], "options": options}
    put(catalog.create_table("db.t", columns), [{"k": 1, "v": "a"}], [{"k": 1, "v": "b"}])
    started: dict[str, list[str]] = {}
    found: list[list[str]] = []
    start, publish = threading.Thread.start, SnapshotStore.publish

    def recorded_start(thread: threading.Thread) -> None:
        started[thread.name] = frames()
        start(thread)

    def recorded_publish(*given: object) -> bool:
        caller = started.get(threading.current_thread().name, [])
        found.append([*caller, *frames()])
        return publish(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(threading.Thread, "start", recorded_start)
    monkeypatch.setattr(SnapshotStore, "publish", recorded_publish)
    arguments = ["--warehouse", str(tmp_path), "compact", "db.t", "--strategy", "full", "--engine", "local"]
    assert main(arguments) == 0
    (calls,) = found
    print("\n".join(calls))
    assert calls[0] == "cli/main.py: main"
    assert calls[-1] == "commit/publication.py: publish"
    assert len(calls) <= CALLS, "\n".join(calls)
