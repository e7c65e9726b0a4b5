"""The second decoder: it agrees with ours on good files, and finds values that ours gets wrong on both sides."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from decimal import Decimal
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from arro3.io import read_parquet

import lakecore
from lakecore.errors import ProofError
from lakecore.format.avro.reader import AvroReader
from lakecore.format.parquet.pages import FilePages
from lakecore.format.parquet.reader import ParquetReader
from lakecore.jobs import compact, rescale
from lakecore.jobs.compact import ProofMode, Strategy
from lakecore.row.json_rows import json_to_batch
from lakecore.verify.proof import second_decoder
from tests.support.lake import key_table, paths_of

COLUMNS = (
    "k INT",
    "d DECIMAL(20, 3)",
    "t TIMESTAMP(6)",
    "z TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "y DATE",
    "b BYTES",
    "f FLOAT",
    "s STRING",
)
CONSTANTS: dict[str, Any] = {
    "d": pa.scalar(Decimal("1.000")),
    "t": pa.scalar(0, pa.timestamp("us")),
    "y": pa.scalar(0, pa.int32()).cast(pa.date32()),
    "s": pa.scalar("x"),
}
READERS: dict[str, Any] = {"parquet": ParquetReader, "avro": AvroReader}


def made(warehouse: Path, file_format: str) -> Any:
    catalog = lakecore.load_catalog(str(warehouse), **{"local.fsync": "false"})
    table = key_table(catalog, COLUMNS, file__format=file_format, num_sorted_run__compaction_trigger="9")
    for start in (0, 50):
        keys = range(start, start + 100)
        table.write(
            pa.table({
                "k": list(keys),
                "d": pa.array([Decimal(k) / 8 if k % 9 else None for k in keys], pa.decimal128(20, 3)),
                "t": pa.array([k * 1_000_001 for k in keys], pa.timestamp("us")),
                "z": pa.array([-k * 1001 for k in keys], pa.timestamp("ms", "UTC")),
                "y": pa.array([k - 70 for k in keys], pa.date32()),
                "b": [bytes([k % 256]) for k in keys],
                "f": pa.array([k / 7 for k in keys], pa.float32()),
                "s": [f"text {k}" for k in keys],
            })
        )  # fmt: skip
    return table


def run(warehouse: Path, mode: ProofMode = ProofMode.SAMPLED) -> str:
    job = compact.Job(
        table="d.k", strategy=Strategy.FULL, proof=mode, commit_user="test", commit_identifier=1
    )
    return compact.run(job, lakecore.load_catalog(str(warehouse), **{"local.fsync": "false"})).proof


@pytest.mark.parametrize(("file_format", "package"), [("parquet", "arro3-io"), ("avro", "fastavro")])
def test_rows_of_inputs_and_outputs_are_decoded_twice(file_format: str, package: str, tmp_path: Path) -> None:
    """Needs both packages: without one of them this test fails, it is not skipped."""
    made(tmp_path, file_format)
    assert f"rows that another library decoded as well: 250 rows of {file_format} by {package}" in run(
        tmp_path
    )


def test_the_report_says_where_there_is_no_second_reader(tmp_path: Path) -> None:
    made(tmp_path, "orc")
    assert "orc was not decoded a second time (lakecore uses no second decoder for this format)" in run(
        tmp_path
    )


def test_the_report_says_where_the_second_reader_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(second_decoder, "version", absent)
    made(tmp_path, "parquet")
    assert "parquet was not decoded a second time (arro3-io is not installed)" in run(tmp_path)


@pytest.mark.parametrize("file_format", READERS)
@pytest.mark.parametrize("column", ["d", "t", "y", "s"])
def test_a_value_that_our_decoder_gets_wrong_everywhere_is_found(
    file_format: str, column: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The full proof alone reads the same wrong values on both sides."""
    table = made(tmp_path, file_format)
    before = paths_of(table)
    kind = READERS[file_format]
    right = kind.batches

    def wrong(self: Any, *args: Any, **kwargs: Any) -> Iterator[pa.RecordBatch]:
        for batch in right(self, *args, **kwargs):
            yield _all_alike(batch, column)

    with monkeypatch.context() as patched:
        patched.setattr(kind, "batches", wrong)
        with pytest.raises(ProofError, match=f"decode column {column} differently"):
            run(tmp_path, ProofMode.FULL)
    assert paths_of(table) == before


def _all_alike(batch: pa.RecordBatch, column: str) -> pa.RecordBatch:
    """Every row has the same value, whatever the file says: reading what was written changes nothing more."""
    place = batch.schema.get_field_index(column)
    if place < 0:
        return batch
    kind = batch.schema.field(place)
    same = CONSTANTS[column].cast(kind.type)
    return batch.set_column(place, kind, pa.repeat(same, batch.num_rows))


@pytest.mark.parametrize(
    ("column", "option", "value", "rows"),
    [
        (
            "m MAP<STRING NOT NULL, BIGINT>",
            "fields.m.map.storage-layout",
            "shared-shredding",
            [[("a", 1)], None],
        ),
        ("m VARIANT", "variant.inferShreddingSchema", "true", [{"a": 1}, {"a": 2, "b": "x"}]),
    ],
    ids=["map", "variant"],
)
def test_columns_that_are_stored_in_shreds_are_no_disagreement(
    column: str, option: str, value: str, rows: list[Any], tmp_path: Path
) -> None:
    """The other library gives the shreds."""
    catalog = lakecore.load_catalog(str(tmp_path), **{"local.fsync": "false"})
    definition = {
        "columns": ["k INT", column, "s STRING"],
        "primaryKeys": ["k"],
        "options": {"bucket": "1", "write-only": "true", option: value},
    }
    table = catalog.create_table("d.k", definition)
    kind = table.schema.row_type
    for start in (0, 10):
        lines = [
            json.dumps({"k": start + i, "m": list(map(list, m)) if isinstance(m, list) else m, "s": "x"})
            for i, m in enumerate(rows)
        ]
        table.write(json_to_batch(lines, kind))
    assert "6 rows of parquet by arro3-io" in run(tmp_path, ProofMode.FULL)


def wide(warehouse: Path, file_format: str, rows: int) -> Any:
    catalog = lakecore.load_catalog(str(warehouse), **{"local.fsync": "false"})
    table = key_table(catalog, ("k INT", "s STRING"), file__format=file_format)
    for keys in (range(rows), range(0, rows, 7)):
        table.write(pa.table({"k": list(keys), "s": [f"text {k}" for k in keys]}))
    return table


def spoils(monkeypatch: pytest.MonkeyPatch, kind: Any, least: int) -> None:
    """What a reader gives for rows of keys from `least` on is wrong, whatever the file says."""
    right = kind.batches

    def wrong(self: Any, *args: Any, **kwargs: Any) -> Iterator[pa.RecordBatch]:
        for batch in right(self, *args, **kwargs):
            names = batch.schema.names
            if "s" in names and "_KEY_k" in names and batch.column("_KEY_k")[0].as_py() >= least:
                yield _all_alike(batch, "s")
            else:
                yield batch

    monkeypatch.setattr(kind, "batches", wrong)


def test_pages_behind_the_first_rows_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first 4,096 rows of both files are right, and so is all that the reader of whole files gives."""
    table = wide(tmp_path, "parquet", 50_000)
    before = paths_of(table)
    with monkeypatch.context() as patched:
        spoils(patched, FilePages, 4096)
        with pytest.raises(ProofError, match="decode column s differently"):
            run(tmp_path, ProofMode.FULL)
    assert paths_of(table) == before
    assert "rows that another library decoded as well: " in run(tmp_path)


def test_rows_of_avro_files_are_chosen_by_the_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = wide(tmp_path, "avro", 12_000)
    before = paths_of(table)
    monkeypatch.setattr(second_decoder, "_number", lambda text: 5000)
    with monkeypatch.context() as patched:
        spoils(patched, AvroReader, 4096)
        with pytest.raises(ProofError, match="decode column s differently"):
            run(tmp_path, ProofMode.FULL)
    assert paths_of(table) == before


def test_a_panic_of_the_second_reader_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A panic of Rust is no Exception: the run goes on, and says that the file was not read."""

    def panics(source: Any, rows: int) -> Any:
        return list(read_parquet(io.BytesIO(b"PAR1" + b"\xff" * 50 + b"PAR1")))

    with pytest.raises(BaseException, match="too small") as caught:
        panics(None, 0)
    assert not isinstance(caught.value, Exception)
    monkeypatch.setattr(second_decoder, "_parquet", panics)
    table = made(tmp_path, "parquet")
    before = paths_of(table)
    assert "(arro3-io cannot read data-" in run(tmp_path)
    assert paths_of(table) != before


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interruption_is_no_panic(
    kind: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(source: Any, rows: int) -> Any:
        raise kind

    monkeypatch.setattr(second_decoder, "_parquet", interrupted)
    table = made(tmp_path, "parquet")
    before = paths_of(table)
    with pytest.raises(kind):
        run(tmp_path)
    assert paths_of(table) == before


def test_rescaled_files_are_decoded_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path, "parquet")
    before = paths_of(table)
    job = rescale.Job(table="d.k", bucket_num=2)
    right = ParquetReader.batches

    def wrong(self: Any, *args: Any, **kwargs: Any) -> Iterator[pa.RecordBatch]:
        for batch in right(self, *args, **kwargs):
            yield _all_alike(batch, "s")

    with monkeypatch.context() as patched:
        patched.setattr(ParquetReader, "batches", wrong)
        with pytest.raises(ProofError, match="decode column s differently"):
            rescale.run(job, lakecore.load_catalog(str(tmp_path), **{"local.fsync": "false"}))
    assert paths_of(table) == before
    report = rescale.run(job, lakecore.load_catalog(str(tmp_path), **{"local.fsync": "false"}))
    assert "rows that another library decoded as well: " in "; ".join(report.notes)


@pytest.mark.parametrize("reader", [AvroReader, ParquetReader], ids=["postponed", "new"])
def test_postponed_files_are_decoded_twice(
    reader: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Postponed rows lie in avro files, new ones in parquet files."""
    catalog = lakecore.load_catalog(str(tmp_path), **{"local.fsync": "false"})
    table = key_table(catalog, ("k INT", "s STRING"), bucket="-2")
    waiting = table.with_options({"postpone.batch-write-fixed-bucket": "false"})
    waiting.write(pa.table({"k": list(range(50)), "s": [f"text {k}" for k in range(50)]}))
    before = paths_of(table)
    right = reader.batches

    def wrong(self: Any, *args: Any, **kwargs: Any) -> Iterator[pa.RecordBatch]:
        for batch in right(self, *args, **kwargs):
            yield _all_alike(batch, "s")

    with monkeypatch.context() as patched:
        patched.setattr(reader, "batches", wrong)
        with pytest.raises(ProofError):
            run(tmp_path)
    assert paths_of(table) == before
    text = run(tmp_path)
    assert "50 rows of avro by fastavro" in text
    assert "of parquet by arro3-io" in text
