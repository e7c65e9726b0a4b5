"""Faults put into a merge, its files and its account: each is refused by the mode that claims to see it.

The proof of keys covers key, sequence and kind: a changed value passes it, as it says, and not the others.
(These tables are small enough to be in one window of a sample.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from lakecore.errors import ProofError
from lakecore.fs.memory import MemoryFileIO
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.verify.digest.columns import StoredFile
from lakecore.verify.digest.shape import ProofMode
from lakecore.verify.proof.pick_proof import PickProof, prove_unit
from tests.support.small_merge import Columns, Hooks, SmallTable, Window

KEYS, SAMPLED, FULL = ProofMode
EACH = (KEYS, SAMPLED, FULL)
VALUES = (SAMPLED, FULL)
ROWS = 800


def table() -> SmallTable:
    return SmallTable({"id": "BIGINT NOT NULL", "v": "STRING", "n": "BIGINT"}, ("id",))


def runs() -> list[Columns]:
    rng = np.random.default_rng(11)
    out: list[Columns] = []
    for run in range(4):
        ids = np.sort(rng.choice(ROWS * 2, ROWS, replace=False)).astype(np.int64)
        out.append(
            {
                "_SEQUENCE_NUMBER": np.arange(ROWS, dtype=np.int64) + run * ROWS,
                "_VALUE_KIND": np.where(rng.random(ROWS) < 0.1, 3, 0).astype(np.int8),
                "id": ids,
                "v": np.array([f"run {run} row {i}" for i in range(ROWS)], object),
                "n": rng.integers(0, 1 << 40, ROWS),
            }
        )
    return out


def in_run(run: int, change: Callable[[Columns], Columns]) -> Hooks:
    return Hooks(read=lambda number, rows: change(rows) if number == run else rows)


def in_window(change: Callable[[Window], Window]) -> Hooks:
    return Hooks(window=lambda window: change(window) if window.number == 2 else window)


def in_output(change: Callable[[Columns], Columns]) -> Hooks:
    """Changes what is written into the first output, not its description."""
    return Hooks(written=lambda number, rows: change(rows) if number == 4 else rows)


def pick(rows: Columns, index: object) -> Columns:
    return {name: values[index] for name, values in rows.items()}


def skip_batch(rows: Columns) -> Columns:
    return pick(rows, np.r_[0:200, 300:ROWS])


def read_twice(rows: Columns) -> Columns:
    return pick(rows, np.r_[0:300, 200:ROWS])


def older_wins(window: Window) -> Window:
    at = int(np.flatnonzero(window.lost)[5])
    window.lost[[at, at + 1]] = False, True
    return window


def older_wins_and_lies(window: Window) -> Window:
    """The merge ignores sequence numbers for one key, and shows a certificate that looks right."""
    at = int(np.flatnonzero(window.lost & (window.rows["_VALUE_KIND"] == 0))[5])
    swapped = np.arange(len(window.lost))
    swapped[[at, at + 1]] = at + 1, at
    window.dropped[at + 1] = False
    window.rows = pick(window.rows, swapped)
    window.view = {name: values.copy() for name, values in window.rows.items()}
    numbers = window.view["_SEQUENCE_NUMBER"]
    numbers[[at, at + 1]] = numbers[[at + 1, at]]
    return window


def wrong_order(window: Window) -> Window:
    index = np.arange(len(window.lost))
    index[[10, 40]] = 40, 10
    window.rows = pick(window.rows, index)
    return window


def live_row_counted_lost(window: Window) -> Window:
    window.lost[np.flatnonzero(~window.lost & ~window.dropped)[7]] = True
    return window


def live_row_counted_dropped(window: Window) -> Window:
    window.dropped[np.flatnonzero(~window.lost & ~window.dropped)[7]] = True
    return window


def live_row_vanishes(window: Window) -> Window:
    """Left out without any account."""
    at = int(np.flatnonzero(~window.lost & ~window.dropped)[7])
    keep = np.delete(np.arange(len(window.lost)), at)
    return Window(window.number, pick(window.rows, keep), window.lost[keep], window.dropped[keep])


def both_rows_kept(window: Window) -> Window:
    window.lost[np.flatnonzero(window.lost)[3]] = False
    return window


def kind_changed(rows: Columns) -> Columns:
    """A delete read as an insert: a deleted key would come back."""
    kinds = rows["_VALUE_KIND"].copy()
    kinds[np.flatnonzero(kinds == 3)[0]] = 0
    return {**rows, "_VALUE_KIND": kinds}


def key_changed(rows: Columns) -> Columns:
    ids = rows["id"].copy()
    gap = int(np.flatnonzero(np.diff(ids) > 1)[20])
    ids[gap] += 1
    return {**rows, "id": ids}


MERGE_FAULTS = {
    "a batch is not read": in_run(2, skip_batch),
    "a batch is read twice": in_run(2, read_twice),
    "a run is another run": Hooks(read=lambda number, rows: runs()[1] if number == 2 else rows),
    "a delete is read as an insert": in_run(3, kind_changed),
    "the older row wins": in_window(older_wins),
    "the older row wins and the certificate lies": in_window(older_wins_and_lies),
    "rows are out of order": in_window(wrong_order),
    "a live row counts as lost": in_window(live_row_counted_lost),
    "a live row counts as dropped": in_window(live_row_counted_dropped),
    "a live row vanishes": in_window(live_row_vanishes),
    "two rows of a key are kept": in_window(both_rows_kept),
    "a key changes while reading": in_run(1, key_changed),
}


@pytest.mark.parametrize("mode", EACH)
@pytest.mark.parametrize("fault", MERGE_FAULTS)
def test_a_faulty_merge_is_refused(fault: str, mode: ProofMode) -> None:
    compact_with(MERGE_FAULTS[fault], mode)


def compact_with(hooks: Hooks, mode: ProofMode, *, may_drop: bool = True, one_file: bool = False) -> None:
    made, rows = table(), runs()
    inputs = [(made.write(part), part) for part in rows]
    with pytest.raises(ProofError) as caught:
        made.compact(inputs, mode=mode, may_drop=may_drop, hooks=hooks, out_files=1 if one_file else 2)
    assert caught.value.unit == "unit 7"


@pytest.mark.parametrize("mode", EACH)
def test_a_delete_dropped_above_older_rows_is_refused(mode: ProofMode) -> None:
    def drop(window: Window) -> Window:
        last = ~window.lost & (window.rows["_VALUE_KIND"] == 3)
        window.dropped[np.flatnonzero(last)[0]] = True
        return window

    compact_with(in_window(drop), mode, may_drop=False)


def last_row_lost(rows: Columns) -> Columns:
    return pick(rows, slice(0, -1))


def row_lost_inside(rows: Columns) -> Columns:
    return pick(rows, np.delete(np.arange(len(rows["id"])), 100))


def row_doubled(rows: Columns) -> Columns:
    return pick(rows, np.insert(np.arange(len(rows["id"])), 100, 100))


def row_replaced_by_its_neighbour(rows: Columns) -> Columns:
    index = np.arange(len(rows["id"]))
    index[100] = 101
    return pick(rows, index)


def sequence_changed(rows: Columns) -> Columns:
    numbers = rows["_SEQUENCE_NUMBER"].copy()
    middle = np.argsort(numbers)[len(numbers) // 2]
    numbers[middle] += 1
    return {**rows, "_SEQUENCE_NUMBER": numbers}


WRITE_FAULTS = {
    "the last row is not written": last_row_lost,
    "a row is not written": row_lost_inside,
    "a row is written twice": row_doubled,
    "a row is written in place of another": row_replaced_by_its_neighbour,
    "rows are written in reverse": lambda rows: pick(rows, slice(None, None, -1)),
    "a sequence number changes": sequence_changed,
    "a key changes": key_changed,
}


@pytest.mark.parametrize("mode", EACH)
@pytest.mark.parametrize("fault", WRITE_FAULTS)
def test_a_faulty_write_is_refused(fault: str, mode: ProofMode) -> None:
    compact_with(in_output(WRITE_FAULTS[fault]), mode)


def value_changed(rows: Columns) -> Columns:
    values = rows["n"].copy()
    values[50] ^= 1
    return {**rows, "n": values}


def text_changed(rows: Columns) -> Columns:
    values = rows["v"].copy()
    values[50] = values[50] + " "
    return {**rows, "v": values}


def values_exchanged(rows: Columns) -> Columns:
    values = rows["n"].copy()
    values[[50, 60]] = values[[60, 50]]
    return {**rows, "n": values}


def value_becomes_null(rows: Columns) -> Columns:
    values = rows["v"].copy()
    values[50] = None
    return {**rows, "v": values}


def key_value_column_changed(rows: Columns) -> Columns:
    """Both copies of a key are in a file; readers show the value column."""
    return {**rows, "n": rows["id"].copy()}


VALUE_FAULTS = {
    "a value changes": value_changed,
    "a text changes": text_changed,
    "two rows exchange a value": values_exchanged,
    "a value becomes null": value_becomes_null,
    "a column is another column": key_value_column_changed,
}


@pytest.mark.parametrize("mode", VALUES)
@pytest.mark.parametrize("fault", VALUE_FAULTS)
def test_a_value_that_is_written_wrong_is_refused(fault: str, mode: ProofMode) -> None:
    compact_with(in_output(VALUE_FAULTS[fault]), mode, one_file=True)


@pytest.mark.parametrize("fault", VALUE_FAULTS)
def test_a_value_that_is_read_wrong_is_refused_by_the_full_proof(fault: str) -> None:
    """Also where a later row of the key replaces it."""
    compact_with(in_run(1, VALUE_FAULTS[fault]), FULL)


def test_a_value_that_is_read_wrong_is_refused_by_the_sampled_proof_where_it_counts() -> None:
    compact_with(in_run(3, VALUE_FAULTS["two rows exchange a value"]), SAMPLED, one_file=True)


@pytest.mark.parametrize("fault", VALUE_FAULTS)
def test_a_changed_value_is_outside_what_the_proof_of_keys_claims(fault: str) -> None:
    made, rows = table(), runs()
    inputs = [(made.write(part), part) for part in rows]
    proof = made.compact(inputs, mode=KEYS, hooks=in_output(VALUE_FAULTS[fault]))
    assert "digest of key, sequence number, row kind" in str(proof)


DESCRIPTIONS: dict[str, Callable[[DataFile], DataFile]] = {
    "row count": lambda f: replace(f, row_count=f.row_count + 1),
    "file size": lambda f: replace(f, file_size=f.file_size + 1),
    "delete row count": lambda f: replace(f, delete_row_count=1),
    "unknown delete row count": lambda f: replace(f, delete_row_count=None),
    "minimum key": lambda f: replace(f, min_key=f.max_key),
    "maximum key": lambda f: replace(f, max_key=f.min_key),
    "minimum sequence number": lambda f: replace(f, min_sequence_number=0),
    "maximum sequence number": lambda f: replace(f, max_sequence_number=1 << 40),
}


@pytest.mark.parametrize("fault", DESCRIPTIONS)
def test_a_false_description_is_refused(fault: str) -> None:
    compact_with(Hooks(described=DESCRIPTIONS[fault]), KEYS)


def damage(column: str) -> Callable[[MemoryFileIO, str], None]:
    """Flip bits in the data of a stored column."""

    def apply(file_io: MemoryFileIO, path: str) -> None:
        data = bytearray(file_io.read(path))
        footer = pq.ParquetFile(file_io.open_input(path))
        chunk = footer.metadata.row_group(0).column(footer.schema_arrow.get_field_index(column))
        at = chunk.data_page_offset + chunk.total_compressed_size // 2
        data[at] ^= 0xFF
        file_io.overwrite(path, bytes(data))

    return apply


def truncate(file_io: MemoryFileIO, path: str) -> None:
    file_io.overwrite(path, file_io.read(path)[:-100])


def vanish(file_io: MemoryFileIO, path: str) -> None:
    file_io.delete(path)


@pytest.mark.parametrize(
    ("stored", "modes"),
    [
        (truncate, EACH),
        (vanish, EACH),
        (damage("_KEY_id"), EACH),
        (damage("_SEQUENCE_NUMBER"), EACH),
        (damage("n"), VALUES),
        (damage("v"), VALUES),
    ],
    ids=["truncated", "vanished", "damaged key", "damaged sequence", "damaged number", "damaged text"],
)
def test_a_damaged_output_is_refused(
    stored: Callable[[MemoryFileIO, str], None], modes: tuple[ProofMode, ...]
) -> None:
    for mode in modes:
        compact_with(Hooks(stored=stored), mode, one_file=True)


def test_an_output_left_out_or_given_twice_is_refused() -> None:
    made, rows = table(), runs()
    inputs = [made.write(part) for part in rows]
    outputs, evidence = made.merge(rows, mode=KEYS, may_drop=True, files=3)
    context = made.context()
    assert prove_unit(context, "u", inputs, outputs, evidence)
    for wrong in (
        outputs[:2],
        outputs[1:],
        [*outputs, outputs[2]],
        outputs[::-1],
        [outputs[0], outputs[0], *outputs[1:]],
    ):
        with pytest.raises(ProofError):
            prove_unit(context, "u", inputs, wrong, evidence)
    with pytest.raises(ProofError, match="did not count"):
        prove_unit(context, "u", inputs, outputs)


def test_an_input_that_changed_since_it_was_planned_is_refused() -> None:
    made, rows = table(), runs()
    inputs = [made.write(part) for part in rows]
    outputs, evidence = made.merge(rows, mode=KEYS, may_drop=True)
    short = StoredFile(inputs[1].path, replace(inputs[1].file, row_count=ROWS + 1))
    with pytest.raises(ProofError, match=f"has {ROWS} rows, but its description says {ROWS + 1}"):
        prove_unit(made.context(), "u", [inputs[0], short, *inputs[2:]], outputs, evidence)


def append_table() -> SmallTable:
    return SmallTable({**{f"c{i}": "BIGINT" for i in range(8)}, "s": "STRING"})


def append_rows() -> Columns:
    rng = np.random.default_rng(1)
    columns = {f"c{i}": rng.integers(0, 1000, 1000) for i in range(8)}
    return {**columns, "s": np.array([f"text {x}" for x in columns["c7"]], object)}


def change(column: str) -> Callable[[Columns], Columns]:
    def apply(rows: Columns) -> Columns:
        values = rows[column].copy()
        values[500] = values[500] + values[500] + values[1]
        return {**rows, column: values}

    return apply


APPEND_FAULTS: dict[str, tuple[Callable[[Columns], Columns], tuple[ProofMode, ...]]] = {
    "a row is lost": (lambda rows: pick(rows, np.delete(np.arange(1000), 3)), EACH),
    "a row is doubled": (lambda rows: pick(rows, np.insert(np.arange(1000), 3, 3)), EACH),
    "a row replaces another": (lambda rows: pick(rows, np.r_[0:3, 4, 4:1000]), EACH),
    "rows change places": (lambda rows: pick(rows, np.r_[1, 0, 2:1000]), EACH),
    "a covered value changes": (change("c1"), EACH),
    "another value changes": (change("c6"), VALUES),
    "a text changes": (change("s"), VALUES),
}


@pytest.mark.parametrize("fault", APPEND_FAULTS)
def test_a_faulty_append_compaction_is_refused(fault: str) -> None:
    spoil, modes = APPEND_FAULTS[fault]
    made, rows = append_table(), append_rows()
    inputs = [made.write(pick(rows, slice(0, 600))), made.write(pick(rows, slice(600, 1000)))]
    outputs = [made.write(spoil(rows))]
    for mode in EACH:
        if mode in modes:
            with pytest.raises(ProofError):
                prove_append(made, mode, inputs, outputs)
        else:
            assert prove_append(made, mode, inputs, outputs).covered == ("c0", "c1")


def prove_append(
    made: SmallTable, mode: ProofMode, inputs: list[StoredFile], outputs: list[StoredFile]
) -> PickProof:
    sample = made.sample(mode, inputs, outputs, may_drop=False)
    return prove_unit(made.context(mode), "u", inputs, outputs, sample=sample)
