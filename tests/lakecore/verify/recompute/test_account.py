"""The account of merges that make new rows: it holds for a right merge of every engine, and names what is wrong."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakecore.errors import ProofError
from lakecore.format.data_reader import open_reader
from lakecore.verify.digest.shape import ProofMode
from lakecore.verify.proof.pick_proof import PickProof, prove_unit
from lakecore.verify.recompute.evidence import Fate, MergeEvidence, join_folds, join_passes
from tests.support.small_fold import FoldHooks, Row, Rows, SmallFold
from tests.support.small_merge import Hooks, SmallTable

KEYS, FULL = ProofMode.KEYS, ProofMode.FULL
BOTH = (KEYS, FULL)
MODES = pytest.mark.parametrize("mode", BOTH)
TYPES = {
    "id": ("BIGINT NOT NULL", pa.int64()),
    "n": ("BIGINT", pa.int64()),
    "f": ("DOUBLE", pa.float64()),
    "d": ("DECIMAL(10, 2)", pa.decimal128(10, 2)),
    "s": ("STRING", pa.string()),
    "b": ("BOOLEAN", pa.bool_()),
    "g": ("BIGINT", pa.int64()),
    "h": ("BIGINT", pa.int64()),
}


@dataclass(frozen=True)
class Case:
    """Options of a table, the kinds of its rows, and the columns that the full mode does not recompute."""

    options: dict[str, str]
    kinds: tuple[int, ...] = (0, 0, 2)
    taken: frozenset[str] = field(default_factory=frozenset)


def functions(**names: str) -> dict[str, str]:
    return {f"fields.{column}.aggregate-function": name for column, name in names.items()}


ANY = (0, 0, 2, 0, 1, 3)
CASES = {
    "first-row": Case({"merge-engine": "first-row"}),
    "first-row, deletes ignored": Case({"merge-engine": "first-row", "ignore-delete": "true"}, ANY),
    "deduplicate": Case({}, ANY),
    "partial-update": Case({"merge-engine": "partial-update"}),
    "partial-update by a sequence field": Case({"merge-engine": "partial-update", "sequence.field": "g,h"}),
    "partial-update, deletes ignored": Case({"merge-engine": "partial-update", "ignore-delete": "true"}, ANY),
    "partial-update, deletes remove": Case(
        {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}, ANY
    ),
    "sequence groups": Case(
        {"merge-engine": "partial-update", "fields.g.sequence-group": "n,s", "fields.h.sequence-group": "f"},
        ANY,
    ),
    "a sequence group of two": Case(
        {"merge-engine": "partial-update", "fields.g,h.sequence-group": "n,s,d,b"}, ANY
    ),
    "sequence groups, a delete removes": Case(
        {
            "merge-engine": "partial-update",
            "fields.g.sequence-group": "n,s",
            "fields.h.sequence-group": "f,b",
            "partial-update.remove-record-on-sequence-group": "h",
        },
        ANY,
    ),
    "sequence groups that aggregate": Case(
        {
            "merge-engine": "partial-update",
            "fields.g.sequence-group": "n,s,d",
            "fields.h.sequence-group": "f,b",
            **functions(n="sum", s="last_non_null_value", d="sum", f="last_value"),
        },
        ANY,
    ),
    "sequence groups of firsts and extremes": Case(
        {
            "merge-engine": "partial-update",
            "fields.g.sequence-group": "n,s,d",
            "fields.h.sequence-group": "f,b",
            **functions(n="first_value", s="first_non_null_value", d="max", f="min", b="bool_or"),
        }
    ),
    "aggregation, defaults": Case({"merge-engine": "aggregation"}, ANY),
    "sums": Case(
        {
            "merge-engine": "aggregation",
            **functions(n="sum", f="sum", d="sum", s="last_value", b="last_value"),
        },
        ANY,
    ),
    "extremes": Case(
        {
            "merge-engine": "aggregation",
            **functions(n="max", f="min", d="max", s="min", b="bool_and", g="product", h="first_value"),
        }
    ),
    "texts and firsts": Case(
        {
            "merge-engine": "aggregation",
            "sequence.field": "g",
            **functions(n="first_non_null_value", s="listagg", b="bool_or"),
        },
    ),
    "aggregation, deletes remove": Case(
        {"merge-engine": "aggregation", "aggregation.remove-record-on-delete": "true", **functions(n="sum")},
        ANY,
    ),
    "retracts ignored by column": Case(
        {"merge-engine": "aggregation", **functions(n="max", d="sum"), "fields.n.ignore-retract": "true"}, ANY
    ),
    "rows expire": Case(
        {
            "merge-engine": "partial-update",
            "record-level.expire-time": "100 s",
            "record-level.time-field": "h",
        }
    ),
}


def table(case: Case) -> SmallFold:
    columns = {name: kind for name, (kind, _) in TYPES.items()}
    types = {name: kind for name, (_, kind) in TYPES.items()}
    return SmallFold(SmallTable(columns, ("id",), case.options), now_ms=108_000, types=types)


def random_rows(case: Case, seed: int, runs: int = 4, keys: int = 60) -> list[Rows]:
    """Sorted runs over overlapping keys; every value may be null."""
    dice = random.Random(seed)
    numbers = iter(range(10_000))

    def row(key: int) -> Row:
        values: Row = {
            "id": key,
            "n": dice.randint(-9, 9),
            "f": dice.uniform(-1, 1) * 10 ** dice.randint(-3, 3),
            "d": Decimal(dice.randint(-9999, 9999)).scaleb(-2),
            "s": dice.choice("abcdef"),
            "b": dice.random() < 0.5,
            "g": dice.randint(0, 5),
            "h": dice.randint(0, 15),
        }
        for name in [*values][1:]:
            if dice.random() < 0.25:
                values[name] = None
        return {**values, "_SEQUENCE_NUMBER": next(numbers), "_VALUE_KIND": dice.choice(case.kinds)}

    return [[row(key) for key in sorted(dice.sample(range(keys), keys // 2))] for _ in range(runs)]


def prove(
    case: Case,
    mode: ProofMode,
    hooks: FoldHooks | None = None,
    written: Hooks | None = None,
    *,
    seed: int = 7,
) -> PickProof:
    made, runs = table(case), random_rows(case, seed)
    inputs = [made.write(run) for run in runs]
    outputs, evidence = made.merge(runs, mode=mode, may_drop=seed % 2 == 1, hooks=hooks, written=written)
    return prove_unit(made.table.context(mode), "unit 7", inputs, outputs, evidence)


@MODES
@pytest.mark.parametrize("name", CASES)
def test_a_right_merge_is_proven(name: str, mode: ProofMode) -> None:
    case = CASES[name]
    for seed in range(5):
        proof = prove(case, mode, seed=seed)
        assert proof.fold is not None
        assert proof.inputs.rows == 120 == proof.fold.inputs.rows
        assert proof.fold.keys == proof.outputs.rows + proof.fold.vanished > 40
        assert proof.fold.not_recomputed == (case.taken if mode is FULL else frozenset())
    assert pickle.loads(pickle.dumps(proof)) == proof
    text = str(proof)
    assert ("values were recomputed" in text) == (mode is FULL)
    assert all(column in text for column in proof.fold.not_recomputed)
    assert ("ignored retracts" in text) == (proof.fold.ignored.rows > 0)
    assert ("expired rows" in text) == (name == "rows expire")


def result(change: Callable[[Row], Row | None]) -> FoldHooks:
    """A result of the window, the fifth, spoilt: before it is shown and written."""

    def spoil(rows: Rows) -> Rows:
        changed = change(dict(rows[5]))
        return [*rows[:5], *([] if changed is None else [changed]), *rows[6:]]

    return FoldHooks(results=spoil)


def shown(**changes: Callable[[Any], Any]) -> FoldHooks:
    """What the certifier is given, spoilt."""
    return FoldHooks(
        view=lambda window: {name: changes.get(name, lambda v: v)(value) for name, value in window.items()}
    )


def other(**values: Any) -> Callable[[Row], Row]:
    return lambda row: {**row, **dict(values.items())}


def number_below(row: Row) -> Row:
    return {**row, "_SEQUENCE_NUMBER": row["_SEQUENCE_NUMBER"] - 1}


def set_at(places: Any, value: int) -> Callable[[Any], Any]:
    def change(values: Any) -> Any:
        values = values.copy()
        values[places] = value
        return values

    return change


def without_row(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.take(pa.array(np.delete(np.arange(batch.num_rows), 4)))


def cell(name: str, row: int, value: Any) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    def change(batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = batch.to_pylist()
        rows[row][name] = value
        return pa.RecordBatch.from_pylist(rows, batch.schema)

    return change


def last_of(rows: Rows) -> Rows:
    """The latest row of every key is not read."""
    return [row for row in rows if row["_SEQUENCE_NUMBER"] < 90]


UPDATE, SUMS = CASES["partial-update"], CASES["sums"]
FAULTS: dict[str, tuple[Case, FoldHooks, tuple[ProofMode, ...]]] = {
    "an input row is not read": (UPDATE, FoldHooks(read=lambda rows: rows[:-1]), BOTH),
    "an input row is read twice": (UPDATE, FoldHooks(read=lambda rows: [*rows, rows[0]]), BOTH),
    "the latest rows are not read": (UPDATE, FoldHooks(read=last_of), BOTH),
    "a value is read wrong": (
        UPDATE,
        FoldHooks(read=lambda rows: [{**rows[0], "n": 99}, *rows[1:]]),
        (FULL,),
    ),
    "a row is not shown": (UPDATE, shown(rows=without_row, fates=lambda f: np.delete(f, 4)), BOTH),
    "a result is left out": (
        UPDATE,
        FoldHooks(
            results=lambda rows: [*rows[:5], *rows[6:]],
            view=lambda w: {**w, "groups": np.delete(w["groups"], 5)},
        ),
        BOTH,
    ),
    "a result of a sequence number below": (UPDATE, result(number_below), BOTH),
    "a result is a delete": (UPDATE, result(other(_VALUE_KIND=3)), BOTH),
    "a result is an update": (CASES["aggregation, defaults"], result(other(_VALUE_KIND=2)), BOTH),
    "a wrong value": (UPDATE, result(other(n=77)), (FULL,)),
    "a wrong sum": (SUMS, result(other(n=77)), (FULL,)),
    "a wrong sum of decimals": (SUMS, result(other(d=Decimal("77.00"))), (FULL,)),
    "a sum rounded otherwise": (SUMS, result(lambda r: {**r, "f": np.nextafter(r["f"] or 0.0, 1)}), (FULL,)),
    "a wrong maximum": (CASES["extremes"], result(other(n=5)), (FULL,)),
    "a wrong text of listagg": (CASES["texts and firsts"], result(other(s="?")), (FULL,)),
    "an older sequence wins in a group": (CASES["sequence groups"], result(other(g=0, n=77)), (FULL,)),
    "the last row instead of the first": (
        CASES["first-row"],
        result(lambda r: {**r, "_SEQUENCE_NUMBER": 119}),
        BOTH,
    ),
    "a retract ignored without the option": (
        CASES["aggregation, defaults"],
        shown(fates=set_at(slice(0, 5), Fate.IGNORED)),
        BOTH,
    ),
    "a live row ignored": (
        CASES["partial-update, deletes ignored"],
        shown(fates=lambda f: np.where(f == Fate.IGNORED, Fate.FOLDED, Fate.IGNORED).astype(np.int8)),
        BOTH,
    ),
    "a row expired before its time": (
        CASES["rows expire"],
        shown(fates=set_at(slice(0, 9), Fate.EXPIRED)),
        BOTH,
    ),
    "expired in a table without expiry": (UPDATE, shown(fates=set_at(0, Fate.EXPIRED)), BOTH),
    "superseded by nothing": (
        UPDATE,
        FoldHooks(view=lambda w: {**w, "levels": np.ones(len(w["fates"]), int), "fates": w["fates"] + 3}),
        BOTH,
    ),
    "a key with two results": (UPDATE, shown(groups=set_at(3, 2)), BOTH),
    "results of other keys": (UPDATE, shown(groups=lambda g: np.append(g[1:], g[-1] + 1)), BOTH),
    "keys out of order": (UPDATE, shown(rows=cell("id", 3, 10_000)), BOTH),
    "looked up rows that are inputs": (
        UPDATE,
        FoldHooks(view=lambda w: {**w, "outside": np.arange(len(w["fates"])) == 0}),
        BOTH,
    ),
}


@MODES
@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_merge_is_refused_by_the_mode_that_claims_it(fault: str, mode: ProofMode) -> None:
    case, hooks, modes = FAULTS[fault]
    if mode not in modes:
        assert prove(case, mode, hooks).fold is not None
        return
    with pytest.raises(ProofError) as caught:
        prove(case, mode, hooks)
    assert caught.value.unit == "unit 7"


def pick(rows: dict[str, Any], index: Any) -> dict[str, Any]:
    return {name: values[index] for name, values in rows.items()}


WRITTEN: dict[str, tuple[Callable[[dict[str, Any]], dict[str, Any]], tuple[ProofMode, ...]]] = {
    "a row is not written": (lambda rows: pick(rows, slice(1, None)), BOTH),
    "a row is written twice": (lambda rows: pick(rows, np.r_[0, 0 : len(rows["id"])]), BOTH),
    "rows are written in reverse": (lambda rows: pick(rows, slice(None, None, -1)), BOTH),
    "numbers move to other rows": (lambda rows: {**rows, "n": rows["n"][::-1]}, (FULL,)),
    "texts of listagg move to other rows": (lambda rows: {**rows, "s": rows["s"][::-1]}, (FULL,)),
    "kinds change": (lambda rows: {**rows, "_VALUE_KIND": rows["_VALUE_KIND"] + 2}, BOTH),
}


@MODES
@pytest.mark.parametrize("fault", WRITTEN)
def test_a_faulty_write_is_refused(fault: str, mode: ProofMode) -> None:
    change, modes = WRITTEN[fault]
    hooks = Hooks(written=lambda number, rows: change(rows) if number == 4 else rows)
    if mode not in modes:
        assert prove(CASES["texts and firsts"], mode, written=hooks).fold is not None
        return
    with pytest.raises(ProofError):
        prove(CASES["texts and firsts"], mode, written=hooks)


def test_evidence_composes_in_key_order() -> None:
    case = CASES["sums"]
    made, runs = table(case), random_rows(case, 1)

    def evidence(low: int, high: int) -> MergeEvidence:
        inside = [[row for row in run if low <= row["id"] < high] for run in runs]
        return made.merge(inside, mode=KEYS)[1]

    whole = evidence(0, 60)
    parts = [evidence(0, 10), evidence(10, 10), evidence(10, 60)]
    assert join_folds("u", pickle.loads(pickle.dumps(parts))) == whole
    with pytest.raises(ProofError, match="comes after key"):
        join_folds("u", parts[::-1])


def test_passes_before_the_last_one_add_up() -> None:
    """Rows folded early are results that a later pass folds again."""

    case = CASES["partial-update"]
    made, runs = table(case), random_rows(case, 3)
    inputs = [made.write(run) for run in runs]
    first, early = made.merge(runs[:2], mode=KEYS, may_drop=False)
    assert early.results.rows < early.folded.rows == 60
    with_keys = list(open_reader(made.table.file_io, first[0].path).batches(None))
    rows = [{n: v for n, v in row.items() if n != "_KEY_id"} for b in with_keys for row in b.to_pylist()]
    outputs, last = made.merge([rows, *runs[2:]], mode=KEYS)
    context = made.table.context(KEYS)
    assert prove_unit(context, "u", inputs, outputs, join_passes([early], last))
    with pytest.raises(ProofError, match="inputs hold"):
        prove_unit(context, "u", inputs, outputs, last)
    wrong = replace(early, results=early.results + early.results)
    with pytest.raises(ProofError, match="inputs hold"):
        prove_unit(context, "u", inputs, outputs, join_passes([wrong], last))
