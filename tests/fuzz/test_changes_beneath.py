"""Changes beneath chores: a few cases, and cases that must be found bad."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from lakecore.catalog.catalog import Catalog
from tests.fuzz.changes_beneath.changes import CHANGES
from tests.fuzz.changes_beneath.chores import CHORES
from tests.fuzz.changes_beneath.judge import Case, Verdict, judged
from tests.fuzz.changes_beneath.place import Place
from tests.fuzz.changes_beneath.shapes import Moment
from tests.fuzz.changes_beneath.step import Step, same
from tests.support.fault_fs import FaultMode
from tests.support.oracle import Oracle

_CHORES = {one.name: one for one in CHORES}
_CHANGES = {one.name: one for one in CHANGES}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, oracle: Oracle, oracle2: Oracle) -> Iterator[Place]:
    patch = pytest.MonkeyPatch()
    patch.setattr("lakecore.jobs.runner.chore._CLOCK_AHEAD_MS", 1 << 62)
    yield Place(tmp_path_factory.mktemp("beneath"), {"old": oracle, "new": oracle2})
    patch.undo()


def verdict_of(place: Place, chore: Step, change: Step, at: int, kill: FaultMode | None = None) -> Verdict:
    verdict = judged(place, Case("keyed", chore, change, at, "new", kill))
    assert verdict is not None
    return verdict


@pytest.mark.parametrize(
    ("chore", "change", "at", "kill"),
    [
        ("compact", "java-write", 30, None),
        ("expire-snapshots", "java-rollback-and-writes", 60, None),
        ("write", "java-rollback", 20, None),
        ("merge", "java-drop-partition", 12, FaultMode.DEAD),
        ("rollback", "java-write", 40, None),
        ("undo-rollback", "java-write", 10, None),
        ("copy", "java-overwrite", 25, None),
        ("stream", "java-write", 3, None),
        ("compact", "java-wider-column", 30, None),
        ("write", "java-replace-column", 10, None),
        ("fast-forward", "java-add-column-and-write", 76, None),
        ("undo-rollback", "java-create-bare", 8, None),
        ("undo-rollback", "java-create-bare", 31, None),
        ("undo-expiry", "java-branch-write-and-fast-forward", 32, None),
        ("analyze", "java-create-other", 53, None),
        ("update", "lake-update", 45, None),
        ("delete", "java-write", 45, None),
    ],
)
def test_rows_and_files_are_those_of_an_order_of_both(
    place: Place, chore: str, change: str, at: int, kill: FaultMode | None
) -> None:
    assert verdict_of(place, _CHORES[chore], _CHANGES[change], at, kill).problems == []


def test_wrong_rows_are_noticed_in_both_readers(place: Place) -> None:
    forgetful = replace(_CHANGES["java-write"], rows=same)
    problems = verdict_of(place, _CHORES["compact"], forgetful, 30).problems
    assert [text.split(":")[0] for text in problems] == ["lakecore", "Java"]
    assert all("lacks ['[\"" in text and "has more ['[\"" in text for text in problems)


def test_missing_file_is_noticed(place: Place) -> None:
    def act(place: Place, catalog: Catalog, moment: Moment) -> None:
        next((place.warehouse / "d.db" / "t").rglob("data-*.parquet")).unlink()

    problems = verdict_of(place, _CHORES["analyze"], Step("damage", act), 1).problems
    assert any(text.startswith("fsck: error") and "missing file" in text for text in problems)
