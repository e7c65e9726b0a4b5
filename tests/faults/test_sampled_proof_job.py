"""Compactions that write right keys and wrong values: the default proof refuses them where its sample looks."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakecore
from lakecore.errors import InvalidInputError, ProofError
from lakecore.index.builder import FileIndexBuilder
from lakecore.jobs import compact
from lakecore.jobs.compact import ProofMode, Strategy
from lakecore.merge.engines.events import Events
from lakecore.merge.engines.functions import FieldRule
from lakecore.table import Table
from lakecore.write.files import file_meta
from lakecore.write.files.rolling import RollingWriter
from tests.support.lake import append_table, key_table, paths_of

COLUMNS = ("k INT", "n BIGINT", "s STRING", "t TIMESTAMP(3)")
ROWS = 9000
TABLES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "a sequence field": {"sequence__field": "n"},
    "partial-update": {"merge_engine": "partial-update"},
    "aggregation": {"merge_engine": "aggregation", "fields__n__aggregate_function": "sum"},
    "first-row": {"merge_engine": "first-row"},
    "a lookup changelog": {"changelog_producer": "lookup"},
    "a full-compaction changelog": {"changelog_producer": "full-compaction"},
    "deletion vectors": {"deletion_vectors__enabled": "true"},
    "orc": {"file__format": "orc"},
    "avro": {"file__format": "avro"},
}
Change = Callable[[pa.Array], pa.Array]


def of_neighbours(values: pa.Array) -> pa.Array:
    return pa.concat_arrays([values.slice(1), values.slice(0, 1)])


def filled(values: pa.Array) -> pa.Array:
    return values.fill_null(5)


def one_more(values: pa.Array) -> pa.Array:
    return pc.add(values, 1)


def later(values: pa.Array) -> pa.Array:
    return pc.add(values.cast(pa.int64()), 3_600_000).cast(values.type)


FAULTS: dict[str, tuple[str, Change]] = {
    "values of neighbour rows": ("s", of_neighbours),
    "a null becomes a value": ("n", filled),
    "a sum is one more": ("n", one_more),
    "times are an hour late": ("t", later),
    "a text becomes null": ("s", lambda values: pa.nulls(len(values), values.type)),
}


def writes(monkeypatch: pytest.MonkeyPatch, column: str, change: Change) -> None:
    """All rows that a compaction writes have other values in `column`."""
    right = RollingWriter.write

    def wrong(self: RollingWriter, batch: pa.RecordBatch) -> None:
        place = batch.schema.get_field_index(column)
        right(self, batch.set_column(place, batch.schema.field(place), change(batch.column(place))))

    monkeypatch.setattr(RollingWriter, "write", wrong)


def catalog(warehouse: Path) -> Any:
    return lakecore.load_catalog(str(warehouse), **{"local.fsync": "false"})


def run(warehouse: Path, name: str = "d.k", **job: Any) -> compact.Report:
    wanted = compact.Job(table=name, strategy=Strategy.FULL, commit_user="test", commit_identifier=1, **job)
    return compact.run(wanted, catalog(warehouse))


def rows_of(keys: range) -> pa.Table:
    numbers = [None if k % 5 == 0 else k % 7 for k in keys]
    times = pa.array([k * 1000 for k in keys], pa.timestamp("ms"))
    return pa.table({"k": list(keys), "n": numbers, "s": [f"text {k}" for k in keys], "t": times})


def table(warehouse: Path, options: dict[str, str]) -> Table:
    """Three sorted runs: 9000 keys, and twice 3000 of them again."""
    made = key_table(catalog(warehouse), COLUMNS, num_sorted_run__compaction_trigger="9", **options)
    for keys in (range(ROWS), range(1000, 4000), range(3000, 6000)):
        made.write(rows_of(keys))
    return made


@pytest.mark.parametrize("kind", TABLES)
def test_values_written_wrong_are_refused_by_default(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = table(tmp_path, TABLES[kind])
    before = paths_of(made)
    for fault, (column, change) in FAULTS.items():
        with monkeypatch.context() as patched:
            writes(patched, column, change)
            with pytest.raises(ProofError) as caught:
                run(tmp_path)
        assert caught.value.unit, fault
        assert paths_of(made) == before, fault
    report = run(tmp_path)
    assert "every column was compared in a sample of" in report.proof
    assert "seed" in report.proof


def test_values_written_wrong_into_an_append_table_are_refused_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = append_table(catalog(tmp_path), COLUMNS)
    for start in range(0, ROWS, 1500):
        made.write(rows_of(range(start, start + 1500)))
    before = paths_of(made)
    for fault, (column, change) in FAULTS.items():
        with monkeypatch.context() as patched:
            writes(patched, column, change)
            with pytest.raises(ProofError):
                run(tmp_path, made.name)
        assert paths_of(made) == before, fault
    assert "every column was compared in a sample of" in run(tmp_path, made.name).proof


def one_row(values: pa.Array, keys: pa.Array) -> pa.Array:
    """The row of key 7000 has another text."""
    return pc.if_else(pc.equal(keys, 7000), pa.scalar("wrong"), values)


def outcome(source: Path, target: Path, **job: Any) -> str:
    """What a compaction of a copy of the warehouse says: its proof, or why it was refused."""
    shutil.copytree(source, target)
    try:
        return run(target, **job).proof
    except ProofError as err:
        return f"refused: {err}"
    finally:
        shutil.rmtree(target)


def test_one_wrong_row_is_found_in_the_sample_and_always_by_the_full_proof(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lake").mkdir()
    table(tmp_path / "lake", {})
    right = RollingWriter.write

    def wrong(self: RollingWriter, batch: pa.RecordBatch) -> None:
        place = batch.schema.get_field_index("s")
        values = one_row(batch.column(place), batch.column(batch.schema.get_field_index("k")))
        right(self, batch.set_column(place, batch.schema.field(place), values))

    monkeypatch.setattr(RollingWriter, "write", wrong)
    said: dict[str, str] = {}
    while len({text.startswith("refused") for text in said.values()}) < 2:
        seed = f"s{len(said)}"
        said[seed] = outcome(tmp_path / "lake", tmp_path / "copy", proof_seed=seed)
        assert len(said) < 60
    met = next(seed for seed, text in said.items() if text.startswith("refused"))
    missed = next(seed for seed, text in said.items() if not text.startswith("refused"))
    assert "column s does not follow from its rows" in said[met]
    assert f"sample of seed {met})" in said[met]
    assert f"(seed {missed})" in said[missed]
    for seed in (met, missed):  # the seed is all that decides
        assert outcome(tmp_path / "lake", tmp_path / "copy", proof_seed=seed) == said[seed]
    assert outcome(tmp_path / "lake", tmp_path / "copy", proof=ProofMode.FULL).startswith("refused")
    assert "key, sequence number" in outcome(tmp_path / "lake", tmp_path / "copy", proof=ProofMode.KEYS)


def described(monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], Any]) -> None:
    """Bounds of columns, spoilt on their way from the writer into descriptions of files."""
    right = file_meta.simple_stats

    def wrong(bounds: Any, *args: Any, **kwargs: Any) -> Any:
        return right({name: change(name, of) for name, of in bounds.items()}, *args, **kwargs)

    monkeypatch.setattr(file_meta, "simple_stats", wrong)


BOUNDS: dict[str, Callable[[str, Any], Any]] = {
    "a minimum is too high": lambda name, of: replace(of, minimum=of.maximum) if name == "n" else of,
    "a maximum is too low": lambda name, of: replace(of, maximum=of.minimum) if name == "n" else of,
    "nulls are not counted": lambda name, of: replace(of, null_count=0) if name == "n" else of,
    "a maximum of text is cut": lambda name, of: replace(of, maximum=of.maximum[:5]) if name == "s" else of,
    "times are bounded wrong": lambda name, of: replace(of, maximum=of.minimum) if name == "t" else of,
    "the bounds of the key are wrong": lambda name, of: (
        replace(of, maximum=of.minimum) if "k" in name else of
    ),
}


@pytest.mark.parametrize("mode", [ProofMode.SAMPLED, ProofMode.FULL])
@pytest.mark.parametrize("fault", BOUNDS)
def test_wrong_column_statistics_are_refused(
    fault: str, mode: ProofMode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = table(tmp_path, {})
    before = paths_of(made)
    with monkeypatch.context() as patched:
        described(patched, BOUNDS[fault])
        with pytest.raises(ProofError, match="statistics"):
            run(tmp_path, proof=mode)
    assert paths_of(made) == before
    assert run(tmp_path, proof=mode).rows_out == ROWS


def test_one_null_too_many_in_a_description_is_refused_by_the_full_proof(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table(tmp_path, {})
    described(monkeypatch, lambda name, of: replace(of, null_count=of.null_count + 1) if name == "n" else of)
    with pytest.raises(ProofError, match="column n count"):
        run(tmp_path, proof=ProofMode.FULL)


@pytest.mark.parametrize("kind", ["bloom-filter", "bitmap"])
@pytest.mark.parametrize("place", ["1 b", "1 mb"], ids=["file", "manifest"])
@pytest.mark.parametrize("mode", [ProofMode.SAMPLED, ProofMode.FULL])
def test_an_index_that_lacks_values_is_refused(
    kind: str, place: str, mode: ProofMode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {f"file-index.{kind}.columns": "s", "file-index.in-manifest-threshold": place}
    made = table(
        tmp_path, {key.replace("-", "_").replace(".", "__"): value for key, value in options.items()}
    )
    before = paths_of(made)
    with monkeypatch.context() as patched:
        spoil_indexes(patched)
        with pytest.raises(ProofError, match="do not contain the value"):
            run(tmp_path, proof=mode)
    assert paths_of(made) == before
    assert run(tmp_path, proof=mode).rows_out == ROWS


def test_the_old_name_of_the_proof_of_keys_is_refused_with_the_new_ones() -> None:
    with pytest.raises(InvalidInputError, match="keys, sampled, full; the mode cheap is now called keys"):
        compact.Job.from_json({"table": "d.k", "proof": "cheap"})


def spoil_indexes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every value comes to the builders of indexes as that of another row."""
    right = FileIndexBuilder.add
    monkeypatch.setattr(FileIndexBuilder, "add", lambda self, batch: right(self, _with_other_texts(batch)))


def _with_other_texts(batch: pa.RecordBatch) -> pa.RecordBatch:
    place = batch.schema.get_field_index("s")
    other = pa.array([f"other {i}" for i in np.arange(batch.num_rows)])
    return batch.set_column(place, batch.schema.field(place), other)


NESTED = "ARRAY<ROW<a INT, b STRING>>"
FOLDED = {
    "c": ("ARRAY<INT>", {"aggregate-function": "collect"}),
    "d": ("ARRAY<INT>", {"aggregate-function": "collect", "distinct": "true"}),
    "m": ("MAP<STRING, INT>", {"aggregate-function": "merge_map"}),
    "r": (NESTED, {"aggregate-function": "nested_update"}),
    "u": (NESTED, {"aggregate-function": "nested_update", "nested-key": "a"}),
}


def folded_rows(keys: range) -> pa.Table:
    nested = pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())]))
    lists = [[k % 3, k % 5] for k in keys]
    rows = pa.array([[{"a": k % 3, "b": "x"}, {"a": 7, "b": str(k)}] for k in keys], nested)
    maps = pa.array([[(f"m{k % 4}", k)] for k in keys], pa.map_(pa.string(), pa.int32()))
    return pa.table({"k": list(keys), "c": lists, "d": lists, "m": maps, "r": rows, "u": rows})


@pytest.mark.parametrize("mode", [ProofMode.SAMPLED, ProofMode.FULL], ids=["sampled", "full"])
def test_arrays_and_maps_of_merged_rows_are_worked_out_anew(
    mode: ProofMode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {
        f"fields__{name}__{option}": value
        for name, (_, found) in FOLDED.items()
        for option, value in found.items()
    }
    columns = ("k INT", *(f"{name} {kind}" for name, (kind, _) in FOLDED.items()))
    made = key_table(catalog(tmp_path), columns, merge_engine="aggregation", **options)
    kinds = pa.array(["-D" if k % 3 == 0 else "+I" for k in range(100, 300)])
    made.write(folded_rows(range(300)))
    made.write(folded_rows(range(200)))
    made.write(folded_rows(range(100, 300)).append_column("_kind", kinds))
    before = paths_of(made)
    for name in FOLDED:
        with monkeypatch.context() as patched:
            merges_wrong(patched, name)
            with pytest.raises(
                ProofError, match=f"column {name} does not follow|as results, but its outputs"
            ):
                run(tmp_path, made.name, proof=mode)
        assert paths_of(made) == before, name
    assert "except" not in run(tmp_path, made.name, proof=mode).proof


def merges_wrong(monkeypatch: pytest.MonkeyPatch, column: str) -> None:
    """Retractions of a column take nothing back, in every merge."""
    right = FieldRule.fold

    def wrong(self: FieldRule, values: pa.Array, events: Events) -> Any:
        return right(self, values, events.keep(~events.retracts) if self.field == column else events)

    monkeypatch.setattr(FieldRule, "fold", wrong)
