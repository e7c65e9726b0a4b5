"""Merges that look up the wrong rows on other levels: the default proof and the full one refuse them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import ProofError
from lakecore.jobs import compact
from lakecore.jobs.compact import ProofMode, Strategy
from lakecore.lookup.levels import LevelsAbove, LookupResult, _Cursor
from lakecore.merge.key_columns import Keys
from lakecore.table import Table
from lakecore.verify.sample.lookups import check_lookup_files
from tests.support.lake import memory_catalog, paths_of, put, rows_of
from tests.support.tall_tree import definition, run_limit, stages

Find = Callable[[LevelsAbove, Sequence[Keys], Sequence[Keys], Any], list[LookupResult]]
TABLES: dict[str, dict[str, str]] = {
    "deletion vectors": {"deletion-vectors.enabled": "true"},
    "deletion vectors by a field": {"deletion-vectors.enabled": "true", "sequence.field": "n"},
    "lookup": {"changelog-producer": "lookup"},
    "first-row": {"merge-engine": "first-row", "changelog-producer": "lookup"},
}
RIGHT = LevelsAbove.find


def nothing(
    self: LevelsAbove, wanted: Sequence[Keys], known: Sequence[Keys], bound: Any
) -> list[LookupResult]:
    RIGHT(self, wanted, known, bound)
    return []


def keys_of_levels(
    self: LevelsAbove, wanted: Sequence[Keys], known: Sequence[Keys], bound: Any
) -> list[LookupResult]:
    return RIGHT(self, known, wanted, bound)


def one_less(
    self: LevelsAbove, wanted: Sequence[Keys], known: Sequence[Keys], bound: Any
) -> list[LookupResult]:
    found = RIGHT(self, wanted, known, bound)
    return [found[0].rows(np.arange(1, len(found[0].positions))), *found[1:]] if found else found


def rows_of_other_keys(
    self: LevelsAbove, wanted: Sequence[Keys], known: Sequence[Keys], bound: Any
) -> list[LookupResult]:
    if not self._cursors:
        self._cursors = [_Cursor(self._read(level), self._keys) for level in self._levels]
    return [part for cursor in reversed(self._cursors) for part in cursor.take(bound)]


def next_position(
    self: LevelsAbove, wanted: Sequence[Keys], known: Sequence[Keys], bound: Any
) -> list[LookupResult]:
    return [replace(one, positions=one.positions + 1) for one in RIGHT(self, wanted, known, bound)]


FAULTS: tuple[Find, ...] = (nothing, keys_of_levels, one_less, rows_of_other_keys, next_position)


def grown(options: dict[str, str]) -> tuple[FilesystemCatalog, Table]:
    """Rows on levels 5, 4, 3 and 0; keys of level 0 lie on each of the others."""
    catalog = memory_catalog("lookup-proof")
    table = catalog.create_table("d.k", definition(options))
    for stage, commits in enumerate(stages(deletes=options.get("merge-engine") != "first-row")):
        put(table, *commits)
        if stage < 3:
            run(catalog, run_limit(stage) if stage else None)
    return catalog, table


def run(catalog: FilesystemCatalog, options: dict[str, str] | None, **job: Any) -> compact.Report:
    strategy = Strategy.FULL if options is None else Strategy.UNIVERSAL
    return compact.run(compact.Job(table="d.k", strategy=strategy, options=options or {}, **job), catalog)


@pytest.mark.parametrize("kind", TABLES)
def test_rows_looked_up_wrong_are_refused(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog, table = grown(TABLES[kind])
    before = paths_of(table)
    for find in FAULTS:
        for proof in (ProofMode.SAMPLED, ProofMode.FULL):
            with monkeypatch.context() as patched:
                patched.setattr(LevelsAbove, "find", find)
                with pytest.raises(ProofError):
                    run(catalog, run_limit(3, 3), proof=proof)
            assert paths_of(table) == before, find
    run(catalog, run_limit(3, 3))
    keys = [row[0] for row in rows_of(table)]
    assert len(keys) == len(set(keys)) > 0


def test_a_file_that_is_not_asked_is_named() -> None:
    check_lookup_files("unit", ["a"], {"a", "b"})
    with pytest.raises(ProofError, match="looked up in c, in which no older rows"):
        check_lookup_files("unit", ["a", "c"], {"a", "b"})
