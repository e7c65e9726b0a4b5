"""CPU cost of the proof next to the job it proves: `python -m tests.bench.proof [ROWS] [--figures DIRECTORY]`.

Five sorted runs of a quarter of the keys each (eleven columns, parquet zstd), merged window by window by lakecore's
merge and written with pyarrow; then the same with the certificate, and the reading back. Prints CPU seconds (user and
system, this process only) and the share of the proof. Shares are what counts: absolute times depend on the machine.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakecore.format.data_reader import open_reader
from lakecore.fs.local import LocalFileIO
from lakecore.merge.sorted_merge import MergeSpec, merge_runs
from lakecore.metadata.options import TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.types.datatypes import DataField, parse_type
from lakecore.verify.digest.columns import read_covered
from lakecore.verify.digest.rows import tally_rows
from lakecore.verify.digest.shape import ProofMode, RowShape, shape_of
from lakecore.verify.proof.certificate import Certifier
from lakecore.verify.rules.order import compare_neighbours, ranks
from tests.bench.figures import FIGURES, conditions, write_figures

RUNS = 5
CITIES = np.array([f"city-{i}" for i in range(100)])


@dataclass
class Case:
    """One kind of table: its schema, files and how the merge is asked."""

    name: str
    schema: TableSchema
    paths: list[str]
    spec: MergeSpec | None

    def shape(self, mode: ProofMode) -> RowShape:
        return shape_of(self.schema, TableOptions.from_schema(self.schema), mode)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", type=int, nargs="?", default=5_000_000)
    parser.add_argument("--figures", type=Path, default=FIGURES, help="directory of the figures")
    options = parser.parse_args()
    measured = conditions()
    pa.set_cpu_count(1)
    with TemporaryDirectory() as folder:
        cases = [report(keyed_case(Path(folder), options.rows, key)) for key in ("BIGINT", "STRING")]
        cases.append(report(append_case(Path(folder), options.rows)))
    write_figures("proof", measured, {"rows": options.rows, "cases": cases}, options.figures)


def report(case: Case) -> dict[str, Any]:
    """CPU seconds of the job alone, and per mode what its proof adds to them in percent."""
    figures: dict[str, Any] = {"case": case.name, "modes": {}}
    base = min(cpu(lambda: job(case, None)) for _ in range(3))
    print(f"{case.name}: the job {base:.2f} s of CPU")
    for mode in (ProofMode.KEYS, ProofMode.FULL):
        whole, parts = base, []
        if case.spec is not None:
            certified = min(cpu(lambda mode=mode: job(case, mode)) for _ in range(3))
            parts.append(f"certificate {certified - base:.2f}")
            whole = certified
        inputs = min(cpu(lambda mode=mode: read_back(case, case.paths, mode)) for _ in range(3))
        outputs = min(cpu(lambda mode=mode: read_back(case, [output(case)], mode)) for _ in range(3))
        whole += inputs + outputs
        parts += [f"inputs {inputs:.2f}", f"outputs {outputs:.2f}"]
        percent = 100 * (whole / base - 1)
        print(f"  {mode.value}: +{percent:.0f} % ({', '.join(parts)})")
        figures["modes"][mode.value] = {"percent": percent, "cpu": whole}
    return {**figures, "job_cpu": base}


def cpu(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def output(case: Case) -> str:
    return str(Path(case.paths[0]).parent / "out.parquet")


def job(case: Case, mode: ProofMode | None) -> None:
    """Merge (or concatenate) and write; with the certificate when a mode is given."""
    writer = None
    for batch in merged(case, mode):
        writer = writer or pq.ParquetWriter(
            output(case), batch.schema, compression="zstd", compression_level=1
        )
        writer.write_batch(batch, row_group_size=1 << 20)
    if writer is not None:
        writer.close()


def merged(case: Case, mode: ProofMode | None) -> Iterator[pa.RecordBatch]:
    runs = [open_reader(LocalFileIO(), path).batches() for path in case.paths]
    if case.spec is None:
        for run in runs:
            yield from run
        return
    spec = case.spec
    if mode is not None:
        spec = MergeSpec(key_columns=spec.key_columns, drop_retracts=True, evidence=True)
        certifier = Certifier("bench", case.shape(ProofMode.KEYS), may_drop=True)
    for window in merge_runs(runs, spec):
        seen = window.evidence
        if seen is not None:
            certifier.window(seen.keys, seen.sequence, seen.kinds, seen.lost, seen.dropped)
        yield window.batch


def read_back(case: Case, paths: list[str], mode: ProofMode) -> None:
    """What `tally_input` and `check_outputs` do with each batch."""
    shape = case.shape(mode)
    for path in paths:
        for columns in read_covered(LocalFileIO(), path, shape, case.schema):
            tally_rows(columns, shape, 0)
            if shape.keyed and path == output(case):
                compare_neighbours([rank for key in columns[: len(shape.key)] for rank in ranks(key)])


def keyed_case(folder: Path, rows: int, key: str) -> Case:
    rng = np.random.default_rng(1)
    keys = rows * 4 // RUNS
    paths = []
    for run in range(RUNS):
        ids = np.sort(rng.choice(keys, rows // RUNS, replace=False))
        table = values(ids, rng)
        ids_column = pa.array(ids) if key == "BIGINT" else texts(ids)
        columns = {
            "_KEY_id": ids_column,
            "_SEQUENCE_NUMBER": pa.array(np.arange(len(ids)) + run * rows),
            "_VALUE_KIND": pa.array(np.where(rng.random(len(ids)) < 0.02, 3, 0).astype(np.int8)),
            "id": ids_column,
        }
        paths.append(write(folder / key, run, {**columns, **table}))
    fields = schema({"id": f"{key} NOT NULL"}, ("id",))
    spec = MergeSpec(key_columns=("_KEY_id",), drop_retracts=True)
    return Case(f"{key} key, {rows} rows", fields, paths, spec)


def append_case(folder: Path, rows: int) -> Case:
    rng = np.random.default_rng(2)
    count = 40
    paths = []
    for number in range(count):
        ids = rng.integers(0, 1 << 40, rows // count)
        paths.append(write(folder / "append", number, {"id": pa.array(ids), **values(ids, rng)}))
    return Case(f"append, {rows} rows in {count} files", schema({"id": "BIGINT"}, ()), paths, None)


def texts(ids: np.ndarray) -> pa.Array:
    """Strings of 24 bytes in the order of `ids`."""
    return pa.array([f"customer-{i:015d}" for i in ids.tolist()])


def values(ids: np.ndarray, rng: np.random.Generator) -> dict[str, pa.Array]:
    count = len(ids)
    return {
        "a": pa.array(rng.integers(0, 1 << 40, count)),
        "b": pa.array(rng.integers(0, 1000, count).astype(np.int32)),
        "c": pa.array(rng.random(count)),
        "d": pa.array(rng.random(count).astype(np.float32)),
        "e": pa.array(rng.integers(0, 1 << 50, count)).cast(pa.timestamp("us")),
        "f": pa.array(rng.integers(0, 20000, count).astype(np.int32)).cast(pa.date32()),
        "city": pa.array(CITIES[rng.integers(0, 100, count)]),
        "text": pa.array([f"{x:x}" for x in rng.integers(0, 1 << 60, count).tolist()]),
        "flag": pa.array(rng.random(count) < 0.5),
        "g": pa.array(rng.integers(0, 100, count)),
    }


def schema(key: dict[str, str], primary: tuple[str, ...]) -> TableSchema:
    types = {**key, "a": "BIGINT", "b": "INT", "c": "DOUBLE", "d": "FLOAT", "e": "TIMESTAMP(6)", "f": "DATE"}
    types |= {"city": "STRING", "text": "STRING", "flag": "BOOLEAN", "g": "BIGINT"}
    fields = tuple(DataField(i, name, parse_type(kind)) for i, (name, kind) in enumerate(types.items()))
    options = {"bucket": "1" if primary else "-1"}
    return TableSchema(id=0, fields=fields, highest_field_id=10, primary_keys=primary, options=options)


def write(folder: Path, number: int, columns: dict[str, pa.Array]) -> str:
    folder.mkdir(exist_ok=True)
    path = folder / f"run-{number}.parquet"
    pq.write_table(pa.table(columns), path, compression="zstd", compression_level=1)
    return str(path)


if __name__ == "__main__":
    main()
