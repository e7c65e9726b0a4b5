"""Merging more runs than may be open: the same rows, the same proof, nothing left on disk."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakecore.compact.kinds.primary_key import inputs
from lakecore.errors import ProofError
from lakecore.jobs import compact
from lakecore.merge import passes
from tests.support.lake import key_table, memory_catalog, rows_of


@pytest.fixture
def few_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """At most three runs may be open, whatever their size."""
    monkeypatch.setattr(inputs, "_FEW_RUNS", 1)
    monkeypatch.setattr(inputs, "_SMALL_FILE", 0)
    monkeypatch.setattr(passes, "_FEWEST_RUNS", 3)
    monkeypatch.setattr(passes, "_PAGES_BUDGET", 0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("engine", ["deduplicate", "aggregation"])
@pytest.mark.parametrize("proof", compact.ProofMode)
def test_many_runs_in_passes(few_runs: Path, proof: compact.ProofMode, engine: str) -> None:
    """An engine folds all rows of a key at once: retractions would not find what an earlier pass folded."""
    catalog = memory_catalog("passes")
    options = {"sequence__field": "s", "merge_engine": engine}
    table = key_table(catalog, columns=("k INT", "s INT", "v STRING"), **options)
    random = np.random.default_rng(3)
    for number in range(11):
        keys = np.unique(random.integers(0, 200, 80)).astype(np.int32)
        table.upsert(
            pa.table(
                {
                    "k": keys,
                    "s": random.integers(0, 5, len(keys)).astype(np.int32),
                    "v": [f"{number}.{key}" for key in keys],
                    "_kind": np.where(random.random(len(keys)) < 0.2, "-D", "+I"),
                }
            )
        )
    before = rows_of(table)
    report = compact.run(compact.Job(table="d.k", strategy=compact.Strategy.FULL, proof=proof), catalog)
    assert report.files_in == 11
    assert report.after.sorted_runs == 1
    assert rows_of(table) == before
    assert report.rows_out == len(before)
    assert list(few_runs.iterdir()) == []


def test_rows_lost_in_an_inner_pass_are_noticed(few_runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = memory_catalog("passes-wrong")
    table = key_table(catalog)
    for number in range(7):
        table.upsert(pa.table({"k": pa.array(range(50), pa.int32()), "v": [str(number)] * 50}))
    real = passes.Scratch.store

    def store(scratch: passes.Scratch, batches: object, rows: int) -> str:
        return real(scratch, (batch.slice(1) for batch in batches), rows)  # type: ignore[attr-defined]

    monkeypatch.setattr(passes.Scratch, "store", store)
    with pytest.raises(ProofError):
        compact.run(compact.Job(table="d.k", strategy=compact.Strategy.FULL), catalog)
    assert list(few_runs.iterdir()) == []
