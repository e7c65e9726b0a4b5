"""Compactions that make new rows, or look rows up, with something broken: the proof refuses, nothing is committed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakecore
from lakecore.compact.kinds.primary_key.lookup import merge as level_merge
from lakecore.errors import ProofError
from lakecore.jobs import compact
from lakecore.jobs.compact import ProofMode, Strategy
from lakecore.lookup.levels import LevelsAbove, LookupResult
from lakecore.merge import sorted_merge
from lakecore.merge.groups import FoldedGroups
from lakecore.table import Table
from tests.support.lake import key_table, live_files, paths_of

KEYS, FULL = ProofMode.KEYS, ProofMode.FULL
BOTH = (KEYS, FULL)
COLUMNS = ("k INT", "n BIGINT", "s STRING")
SUMS = {"merge_engine": "aggregation", "fields__n__aggregate_function": "sum"}
LOOKUP = {"changelog_producer": "lookup"}
VECTORS = {"deletion_vectors__enabled": "true"}
Fault = Callable[[pytest.MonkeyPatch], None]


def result(change: Callable[[FoldedGroups], FoldedGroups]) -> Fault:
    """What a merge engine makes, spoilt."""
    right = sorted_merge.fold

    def wrong(*args: Any, **kwargs: Any) -> FoldedGroups:
        return change(right(*args, **kwargs))

    return lambda monkeypatch: monkeypatch.setattr(sorted_merge, "fold", wrong)


def without_a_result(found: FoldedGroups) -> FoldedGroups:
    present = found.present.copy()
    present[0] = False
    return FoldedGroups(found.batch.slice(1), found.kinds[1:], found.several, present)


def with_column(name: str, change: Callable[[Any], Any]) -> Callable[[FoldedGroups], FoldedGroups]:
    def apply(found: FoldedGroups) -> FoldedGroups:
        place = found.batch.schema.get_field_index(name)
        field = found.batch.schema.field(place)
        values = pa.array(change(found.batch.column(place).to_numpy().copy()), field.type)
        return replace(found, batch=found.batch.set_column(place, field, values))

    return apply


def one_more(values: Any) -> Any:
    values[3] += 1
    return values


def lines(change: Callable[[Any], Any]) -> Fault:
    """The lines of the change stream, spoilt."""
    right = level_merge.change_rows

    def wrong(*args: Any, **kwargs: Any) -> Any:
        found = right(*args, **kwargs)
        return replace(found, rows=change(found.rows))

    return lambda monkeypatch: monkeypatch.setattr(level_merge, "change_rows", wrong)


def lookups(change: Callable[[list[LookupResult]], list[LookupResult]]) -> Fault:
    """What is found on the levels above, spoilt."""
    right = LevelsAbove.find
    return lambda monkeypatch: monkeypatch.setattr(
        LevelsAbove, "find", lambda self, *args: change(right(self, *args))
    )


def without_a_hit(found: list[LookupResult]) -> list[LookupResult]:
    return [one.rows(np.arange(1, len(one.positions))) for one in found]


def hit_elsewhere(found: list[LookupResult]) -> list[LookupResult]:
    return [replace(one, positions=one.positions + np.uint32(1)) for one in found]


def hit_of_another_number(found: list[LookupResult]) -> list[LookupResult]:
    return [replace(one, batch=_numbered(one.batch)) for one in found]


def _numbered(batch: pa.RecordBatch) -> pa.RecordBatch:
    place = batch.schema.get_field_index("_SEQUENCE_NUMBER")
    field = batch.schema.field(place)
    return batch.set_column(place, field, pa.array(batch.column(place).to_numpy() + 1, field.type))


FAULTS: dict[str, tuple[dict[str, str], Fault, tuple[ProofMode, ...]]] = {
    "a result is left out": (SUMS, result(without_a_result), BOTH),
    "a sum is wrong": (SUMS, result(with_column("n", one_more)), (FULL,)),
    "a sequence number is wrong": (SUMS, result(with_column("_SEQUENCE_NUMBER", one_more)), BOTH),
    "a result has another key": (SUMS, result(with_column("k", one_more)), BOTH),
    "a change is not announced": (LOOKUP, lines(lambda rows: rows.slice(1)), BOTH),
    "a change is announced twice": (
        LOOKUP,
        lines(lambda rows: rows.take(pa.array([0, *range(rows.num_rows)]))),
        BOTH,
    ),
    "an old row is overlooked": (LOOKUP, lookups(without_a_hit), (FULL,)),
    "an old row lies elsewhere": (LOOKUP, lookups(hit_elsewhere), BOTH),
    "an old row is another one": (LOOKUP, lookups(hit_of_another_number), BOTH),
    "an overlooked row is not marked": (VECTORS, lookups(without_a_hit), (FULL,)),
    "another row is marked": (VECTORS, lookups(hit_elsewhere), BOTH),
}


def run(warehouse: Path, mode: ProofMode, strategy: Strategy, number: int) -> compact.Report:
    job = compact.Job(
        table="d.k", strategy=strategy, proof=mode, commit_user="test", commit_identifier=number
    )
    return compact.run(job, lakecore.load_catalog(str(warehouse), **{"local.fsync": "false"}))


def table(warehouse: Path, options: dict[str, str]) -> Table:
    """4000 rows on the last level; 2 x 60 on level 0, half of their keys new."""
    catalog = lakecore.load_catalog(str(warehouse), **{"local.fsync": "false"})
    made = key_table(catalog, COLUMNS, num_sorted_run__compaction_trigger="2", **options)
    put(made, range(4000))
    run(warehouse, KEYS, Strategy.FULL, 1)
    for start in (3970, 3990):
        put(made, range(start, start + 60))
    return made


def put(table: Table, keys: range) -> None:
    rows = {"k": list(keys), "n": [k % 7 for k in keys], "s": [f"{k}" for k in keys]}
    table.write(pa.table(rows))


@pytest.mark.parametrize("mode", BOTH)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_compaction_is_refused(
    fault: str, mode: ProofMode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, spoil, modes = FAULTS[fault]
    made = table(tmp_path, options)
    strategy = Strategy.FULL if options is SUMS else Strategy.UNIVERSAL
    before = paths_of(made)
    with monkeypatch.context() as patched:
        spoil(patched)
        if mode not in modes:
            assert run(tmp_path, mode, strategy, 2).rows_out > 0
            return
        with pytest.raises(ProofError) as caught:
            run(tmp_path, mode, strategy, 2)
    assert caught.value.unit
    assert paths_of(made) == before
    report = run(tmp_path, mode, strategy, 2)
    assert report.rows_out > 0
    assert "= the rows merged" in report.proof
    levels = {file.level for file in live_files(made)}
    assert len(levels) == (1 if options is SUMS else 2)
