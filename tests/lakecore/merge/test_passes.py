"""Merging more runs than may be open: neighbours first, through local disk."""

from __future__ import annotations

import tempfile
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pytest

from lakecore.merge.passes import Scratch, reduce_runs, run_limit, stage_runs


def test_groups_are_neighbours() -> None:
    groups: list[list[str]] = []

    def merge(runs: object) -> object:
        names = [next(run) for run in runs]  # type: ignore[attr-defined]
        groups.append(names)
        return iter([pa.record_batch({"n": ["+".join(names)]})])

    with Scratch() as scratch:
        runs = [iter([name]) for name in "abcdefg"]
        left = reduce_runs(runs, 3, 10, merge, scratch)  # type: ignore[arg-type]
        found = [next(run) for run in left]
    assert groups == [["a", "b", "c"], ["d", "e", "f"]]
    assert [run if isinstance(run, str) else run.column(0)[0].as_py() for run in found] == [
        "a+b+c",
        "d+e+f",
        "g",
    ]


@pytest.mark.parametrize(
    ("columns", "width", "limit"), [(3, 16, 327), (13, 100, 52), (3, 1000, 33), (13, 1000, 8), (500, 4000, 8)]
)
def test_run_limit(columns: int, width: int, limit: int) -> None:
    assert run_limit(columns, width) == limit


def test_scratch_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that were read to the end, begun, and never begun."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    batch = pa.record_batch({"n": range(10)})
    with Scratch() as scratch:
        paths = [scratch.store([batch], 4) for _ in range(3)]
        assert [part.num_rows for part in scratch.read(paths[0])] == [4, 4, 2]
        assert not Path(paths[0]).exists()
        begun = scratch.read(paths[1])
        next(begun)
        assert Path(paths[1]).exists()
    assert list(tmp_path.iterdir()) == []
    begun.close()
    scratch.close()


def test_runs_of_an_engine_are_staged_whole_in_smaller_batches() -> None:
    runs = [[pa.record_batch({"n": [i * 10 + j for j in range(9)]})] for i in range(5)]
    with Scratch() as scratch:
        staged = [
            [batch["n"].to_pylist() for batch in run]
            for run in stage_runs([iter(r) for r in runs], 2, 10, scratch)
        ]
        assert [list(chain(*batches)) for batches in staged] == [r[0]["n"].to_pylist() for r in runs]
        assert {len(batch) for batches in staged for batch in batches} == {4, 1}
        few = stage_runs([iter(runs[0])], 2, 10, scratch)
        assert [batch["n"].to_pylist() for batch in few[0]] == [list(range(9))]
