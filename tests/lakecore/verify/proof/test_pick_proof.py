"""The proof holds for a correct compaction of every kind of table, composes over units, and describes itself."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from pyroaring import BitMap

from lakecore.errors import ProofError
from lakecore.verify.digest.columns import StoredFile
from lakecore.verify.digest.digest import Tally
from lakecore.verify.digest.shape import ProofMode
from lakecore.verify.proof.pick_proof import (
    UnitProof,
    check_outputs,
    check_upgrade,
    proof_properties,
    prove_pick,
    prove_unit,
    tally_input,
)
from lakecore.verify.sample.choice import RowSample
from tests.support.small_merge import Columns, SmallTable

MODES = pytest.mark.parametrize("mode", list(ProofMode))
PLAIN = {"id": "BIGINT NOT NULL", "v": "STRING", "n": "INT"}


def runs(
    table: SmallTable, count: int = 4, rows: int = 900, seed: int = 5, deletes: bool = True
) -> list[Columns]:
    """Sorted runs over overlapping keys; sequence numbers rise from run to run."""
    rng = np.random.default_rng(seed)
    out = []
    for run in range(count):
        ids = np.sort(rng.choice(rows * 2, rows, replace=False))
        kinds = np.where(rng.random(rows) < 0.1, 3, 0).astype(np.int8) if deletes else np.zeros(rows, np.int8)
        columns = {"_SEQUENCE_NUMBER": run * rows + rng.permutation(rows), "_VALUE_KIND": kinds}
        for name, kind in table.columns.items():
            columns[name] = _column(name, kind, ids, rng)
        out.append(columns)
    return out


def _column(name: str, kind: str, ids: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if name == "id":
        texts = np.array([f"key-{i:06d}-{'x' * (i % 20)}" for i in ids], object)
        return texts if kind.startswith("STRING") else ids.astype(np.int64)
    if name == "part":
        return ids // 100
    if kind == "STRING":
        return np.array([f"value {x}" for x in rng.integers(0, 1000, len(ids))], object)
    return rng.integers(0, 50, len(ids)).astype(np.int32 if kind == "INT" else np.int64)


def stored(table: SmallTable, rows: Sequence[Columns]) -> list[tuple[StoredFile, Columns]]:
    return [(table.write(part), part) for part in rows]


@MODES
@pytest.mark.parametrize("may_drop", [True, False])
def test_a_correct_merge_is_proven(mode: ProofMode, may_drop: bool) -> None:
    table = SmallTable(PLAIN, ("id",))
    rows = runs(table)
    proof = table.compact(stored(table, rows), mode=mode, may_drop=may_drop)
    assert proof.inputs.rows == 3600
    assert proof.inputs == proof.outputs + proof.lost + proof.dropped
    assert (proof.dropped.rows > 0) == may_drop
    assert proof.lost.rows > 500
    assert "3600 input rows" in str(proof)
    assert mode.value in str(proof)
    assert pickle.loads(pickle.dumps(proof)) == proof


@MODES
@pytest.mark.parametrize(
    ("columns", "key", "options"),
    [
        ({"id": "STRING NOT NULL", "v": "STRING"}, ("id",), {}),
        ({"n": "INT", "id": "STRING NOT NULL", "part": "BIGINT NOT NULL"}, ("part", "id"), {}),
        ({"id": "BIGINT NOT NULL", "n": "INT", "v": "STRING"}, ("id",), {"sequence.field": "n"}),
        ({"id": "BIGINT NOT NULL", "n": "INT", "v": "STRING"}, ("id",), {"sequence.field": "v,n"}),
    ],
    ids=["string key", "composite key", "sequence field", "two sequence fields"],
)
def test_every_kind_of_key_and_order(
    mode: ProofMode, columns: dict[str, str], key: tuple[str, ...], options: dict[str, str]
) -> None:
    table = SmallTable(columns, key, options)
    assert table.compact(stored(table, runs(table)), mode=mode).outputs.rows > 500


@MODES
def test_append_tables(mode: ProofMode) -> None:
    table = SmallTable({f"c{i}": "BIGINT" for i in range(8)} | {"s": "STRING"})
    rng = np.random.default_rng(3)

    def part(rows: int) -> Columns:
        columns = {f"c{i}": rng.integers(0, 99, rows) for i in range(8)}
        return {**columns, "s": np.array([str(x) for x in columns["c0"]], object)}

    parts = [part(1500), part(10), part(700)]
    whole = {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
    inputs = [table.write(p) for p in parts]
    outputs = [
        table.write({n: v[:2000] for n, v in whole.items()}),
        table.write({n: v[2000:] for n, v in whole.items()}),
    ]
    sample = table.sample(mode, inputs, outputs, may_drop=False)
    proof = prove_unit(table.context(mode), "u", inputs, outputs, sample=sample)
    assert proof.inputs == proof.outputs
    assert ("every column" if mode is ProofMode.FULL else "c0, c1, row order") in str(proof)
    with pytest.raises(ProofError):
        prove_unit(table.context(mode), "u", inputs, outputs[::-1])
    with pytest.raises(ProofError):
        prove_unit(table.context(mode), "u", inputs[:2], outputs)


def cut(table: SmallTable, rows: list[Columns], bounds: list[int], mode: ProofMode) -> list[UnitProof]:
    """The units of a pick cut at `bounds`: each merges the rows of its key range."""
    units = []
    for low, high in pairwise(bounds):
        inside = [{n: v[(r["id"] >= low) & (r["id"] < high)] for n, v in r.items()} for r in rows]
        outputs, evidence = table.merge(inside, mode=mode, may_drop=True)
        units.append(
            UnitProof(
                unit=f"[{low},{high})",
                outputs=check_outputs(table.context(mode), "u", outputs),
                evidence=evidence,
                sample=RowSample(rows=1, windows=1) if mode is ProofMode.SAMPLED else None,
            )
        )
    return units


@MODES
def test_a_cut_pick_composes(mode: ProofMode) -> None:
    table = SmallTable(PLAIN, ("id",))
    rows = runs(table)
    files = [file for file, _ in stored(table, rows)]
    tallies = [tally_input(table.context(mode), "pick", file) for file in files]
    units = pickle.loads(pickle.dumps(cut(table, rows, [0, 500, 501, 1300, 5000], mode)))
    proof = prove_pick(table.shape(mode), "pick", tallies, units)
    assert proof.inputs.rows == 3600
    gap, overlap = (
        cut(table, rows, [0, 500], mode) + cut(table, rows, [501, 5000], mode),
        cut(table, rows, [0, 600], mode),
    )
    for wrong in (gap, units[:-1], units[1:], [*overlap, *units[1:]], [*units, units[-1]], units[::-1]):
        with pytest.raises(ProofError, match="pick"):
            prove_pick(table.shape(mode), "pick", tallies, wrong)


def test_ties_are_counted_not_refused() -> None:
    """Two writers on one bucket use the same sequence numbers: the format leaves the winner open."""
    table = SmallTable(PLAIN, ("id",))
    first, second = runs(table, count=2, deletes=False)
    second["_SEQUENCE_NUMBER"] = np.zeros(900, np.int64)
    first["_SEQUENCE_NUMBER"] = np.zeros(900, np.int64)
    proof = table.compact(stored(table, [first, second]))
    assert proof.ties == proof.lost.rows > 100


@MODES
def test_deleted_rows_of_inputs_do_not_count(mode: ProofMode) -> None:
    table = SmallTable({f"c{i}": "BIGINT" for i in range(8)})
    columns = {f"c{i}": np.arange(2500) * (i + 1) for i in range(8)}
    deleted = BitMap([0, 999, 1000, 1001, 2499])
    kept = np.delete(np.arange(2500), np.array(deleted.to_array()))
    context = table.context(mode)
    source, live = table.write(columns), table.write({name: values[kept] for name, values in columns.items()})
    found = tally_input(context, "u", source, 7, deleted)
    assert found == tally_input(context, "u", live, 7)
    assert found.rows == 2495
    with pytest.raises(ProofError, match="does not have"):
        tally_input(context, "u", source, 0, BitMap([2500]))


def test_empty_results() -> None:
    table = SmallTable(PLAIN, ("id",))
    rows = runs(table, count=1)[0]
    rows["_VALUE_KIND"][:] = 3
    proof = table.compact(stored(table, [rows]))
    assert proof.outputs == Tally(0, 0)
    assert proof.dropped.rows == 900


def test_properties_of_a_commit() -> None:
    table = SmallTable(PLAIN, ("id",))
    proof = table.compact(stored(table, runs(table)))
    properties = proof_properties([proof, proof])
    assert properties["lakecore.proof"] == "keys"
    assert properties["lakecore.proof.version"] == "2"
    assert properties["lakecore.proof.rows-in"] == "7200"
    assert len(properties["lakecore.proof.digest-out"]) == 16
    assert all(isinstance(value, str) for value in properties.values())
    assert proof_properties([]) == {}


def test_upgrades_change_the_level_and_nothing_else() -> None:
    table = SmallTable(PLAIN, ("id",))
    file = stored(table, runs(table, count=1))[0][0].file
    check_upgrade("u", file, replace(file, level=5))
    check_upgrade("u", file, replace(file, level=5, extra_files=("file-0.parquet.x-1.value.v1.lookup",)))
    higher = replace(file, level=4)
    with pytest.raises(ProofError, match="upgrade of file-0"):
        check_upgrade(
            "u", higher, replace(file, level=5, extra_files=("file-0.parquet.x-1.value.v1.lookup",))
        )
    for wrong in (
        replace(file, level=5, row_count=1),
        replace(file, file_name="other"),
        replace(file, level=-1),
        replace(file, level=-1, extra_files=("file-0.parquet.1.value.v1.lookup",)),
        replace(file, level=5, extra_files=("other.1.value.v1.lookup",)),
        replace(file, level=5, extra_files=("file-0.parquet.index",)),
        replace(file, level=5, extra_files=("file-0.parquet./../1.value.v1.lookup",)),
        replace(
            file,
            level=5,
            extra_files=("file-0.parquet.1.value.v1.lookup", "file-0.parquet.2.value.v1.lookup"),
        ),
    ):
        with pytest.raises(ProofError, match="upgrade of file-0"):
            check_upgrade("u", file, wrong)
