"""Statistics that a caller computed. tests/interop/test_analyze_oracle.py lets Java read them; the faults of
their commit are those of the chore analyze (tests/faults/test_maintain_faults.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.commit.publication import Publication, publish
from lakecore.errors import CommitConflictError, CommitUncertainError, CorruptDataError, InvalidInputError
from lakecore.jobs import analyze
from lakecore.maintain.analyze import apply
from lakecore.maintain.analyze.statistics import Statistics
from lakecore.table import Commit, Table
from tests.support.lake import append_table, memory_catalog, paths_of, put, rows_of

GIVEN = Statistics(
    snapshot_id=1, schema_id=0, rows=1, size=9, columns={"v": {"min": "3", "distinctCount": 1}}
)


@pytest.fixture
def catalog() -> FilesystemCatalog:
    catalog = memory_catalog("given-statistics")
    table = append_table(catalog, ("v INT", "p STRING", "y BYTES", "a ARRAY<INT>"))
    put(table, [{"v": 3, "p": "x"}])
    return catalog


@pytest.fixture
def table(catalog: FilesystemCatalog) -> Table:
    return catalog.load_table("d.a")


def test_they_replace_those_that_were_computed(catalog: FilesystemCatalog, table: Table) -> None:
    analyze.run(analyze.Job(table="d.a", columns=("all",)), catalog)
    computed = table.statistics()
    assert computed is not None
    assert set(computed.columns) == {"v", "p", "y"}
    assert table.update_statistics(GIVEN, commit=Commit(user="me", identifier=7)) == 3
    stored = table.statistics()
    assert stored == replace(GIVEN, columns={"v": {"colId": 0, "min": "3", "distinctCount": 1}})
    assert (
        table.update_statistics(computed, commit=Commit(user="me", identifier=7)) == 3
    )  # the same commit again
    assert table.statistics() == stored
    put(table, [{"v": 4}])
    assert table.statistics() == stored


@pytest.mark.parametrize(
    "wrong",
    [
        {"rows": -1},
        {"rows": None},
        {"rows": True},
        {"size": 1.5},
        {"snapshot_id": 9},
        {"columns": {"x": {}}},
        {"columns": {"a": {"nullCount": 1}}},
        {"columns": {"v": {"nullcount": 1}}},
        {"columns": {"v": {"nullCount": 2**63}}},
        {"columns": {"v": {"nullCount": "1"}}},
        {"columns": {"v": {"min": 3}}},
        {"columns": {"v": {"min": "x"}}},
        {"columns": {"v": {"max": "2147483648"}}},
        {"columns": {"y": {"max": "x"}}},
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(table: Table, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        table.update_statistics(replace(GIVEN, **wrong))
    assert table.statistics() is None
    assert not table._stores.file_io.list(table._stores.paths.statistics_dir)


def test_a_commit_of_statistics_has_no_watermark(table: Table) -> None:
    with pytest.raises(InvalidInputError, match="watermark"):
        table.update_statistics(GIVEN, commit=Commit(watermark=1))


def test_a_schema_that_changed_meanwhile_is_a_conflict(catalog: FilesystemCatalog, table: Table) -> None:
    catalog.alter_table("d.a", [{"op": "set", "key": "target-file-size", "value": "1 mb"}])
    with pytest.raises(CommitConflictError):
        table.update_statistics(GIVEN)
    assert table.statistics() is None


def test_a_commit_that_may_be_there_keeps_all_of_its_files(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def uncertain(*args: Any) -> Publication:
        publish(*args)
        raise CommitUncertainError("storage does not answer")

    monkeypatch.setattr(apply, "publish", uncertain)
    with pytest.raises(CommitUncertainError):
        table.update_statistics(GIVEN)
    assert table.statistics() is not None
    assert rows_of(table) == [(3, "x", None, None)]


def test_a_snapshot_that_was_replaced_keeps_the_statistics_that_it_names(
    catalog: FilesystemCatalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody may have built on it, and then names the file, too. The next try is a conflict."""

    def replaced(*args: Any) -> Publication:
        publish(*args)
        catalog.alter_table("d.a", [{"op": "set", "key": "target-file-size", "value": "1 mb"}])
        return Publication(published=False, replaced=True)

    monkeypatch.setattr(apply, "publish", replaced)
    with pytest.raises(CommitConflictError, match="changed while it was being analyzed"):
        table.update_statistics(GIVEN)
    assert table.statistics() is not None
    assert rows_of(table) == [(3, "x", None, None)]


@pytest.mark.parametrize("refused", [False, True], ids=["lost", "refused"])
def test_a_commit_that_is_not_there_leaves_no_file(
    table: Table, monkeypatch: pytest.MonkeyPatch, refused: bool
) -> None:
    def lost(*_: Any) -> Publication:
        if refused:
            raise InvalidInputError("nothing was created")
        return Publication(published=False)

    before = paths_of(table, "")
    monkeypatch.setattr(apply, "publish", lost)
    with pytest.raises(InvalidInputError if refused else CommitConflictError):
        table.update_statistics(GIVEN)
    assert paths_of(table, "") == before


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"snapshotId": "x", "schemaId": 0}', '{"snapshotId": 1, "schemaId": 0, "colStats": 3}'],
)
def test_a_damaged_file_is_named(catalog: FilesystemCatalog, table: Table, text: str) -> None:
    table.update_statistics(GIVEN)
    (file,) = table._stores.file_io.list(table._stores.paths.statistics_dir)
    catalog.file_io.overwrite(file.path, text.encode())
    with pytest.raises(CorruptDataError, match="stat-"):
        table.statistics()
