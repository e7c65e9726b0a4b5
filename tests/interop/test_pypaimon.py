"""A reader that is neither ours nor Java's: pypaimon reads what lakecore wrote and compacted."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.jobs import compact
from lakecore.row.json_rows import batch_to_json, json_to_batch
from lakecore.types.arrow import arrow_schema
from lakecore.types.datatypes import RowType
from tests.support.golden import GoldenTable, View, canonical

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-pypaimon" / "bin" / "python"
LATEST = View("rows.jsonl")
TABLES = [
    "g1.a_append_part",
    "g1.a_append_unaware",
    "g1.a_evo_pk",
    "g1.a_pk_composite",
    "g1.a_pk_dedup_b3_part",
    "g1.a_pk_dedup_l0",
    "g1.a_pk_dynamic",
    "g1.a_pk_runs",
    "g1.a_part_types_legacy",
    "g3.h3_fmt_mixed_pk",
    "g3.h3_pk_dedup_b1",
    "g3.h3_types_append_parquet",
]

Read = Callable[[Path, str, RowType], list[str]]


@pytest.fixture(scope="module")
def pypaimon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Read]:
    """Rows of a table as canonical lines."""
    assert PYTHON.exists(), "run `make setup-tests`"
    log = tmp_path_factory.mktemp("pypaimon") / "log"
    reader = subprocess.Popen(
        [PYTHON, "-W", "ignore", Path(__file__).with_name("pypaimon_reader.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log.open("w"),
        text=True,
    )

    def read(warehouse: Path, table: str, row_type: RowType) -> list[str]:
        file = log.with_name("rows.arrow")
        request = {"warehouse": str(warehouse), "table": table, "file": str(file)}
        assert reader.stdin is not None
        assert reader.stdout is not None
        reader.stdin.write(json.dumps(request) + "\n")
        reader.stdin.flush()
        assert reader.stdout.readline().strip(), log.read_text()[-3000:]
        rows = pa.ipc.open_file(file).read_all().select([field.name for field in row_type.fields])
        typed = rows.cast(arrow_schema(row_type))
        return canonical(line for batch in typed.to_batches() for line in batch_to_json(batch, row_type))

    yield read
    reader.communicate(timeout=60)


@pytest.mark.parametrize("name", TABLES)
def test_reads_what_lakecore_compacted(
    name: str, golden: Callable[[str], GoldenTable], tmp_path: Path, pypaimon: Read
) -> None:
    table = golden(name).copy_to(tmp_path)
    catalog = load_catalog(str(tmp_path))
    row_type = catalog.load_table(name).schema.row_type
    assert pypaimon(tmp_path, name, row_type) == table.rows(LATEST)
    report = compact.run(compact.Job(table=name, strategy=compact.Strategy.FULL), catalog)
    assert report.error is None
    assert pypaimon(tmp_path, name, row_type) == table.rows(LATEST)


@pytest.mark.parametrize("name", ["g1.a_append_part", "g1.a_pk_dedup_b3_part", "g1.a_types_append_parquet"])
def test_reads_what_lakecore_wrote(
    name: str, golden: Callable[[str], GoldenTable], tmp_path: Path, pypaimon: Read
) -> None:
    source = golden(name)
    table = source.copy_to(tmp_path)
    ours = load_catalog(str(tmp_path)).load_table(name)
    row_type = ours.schema.row_type
    ours.overwrite(json_to_batch(source.rows(LATEST)[:40], row_type), dynamic=False)
    assert pypaimon(table.warehouse, name, row_type) == source.rows(LATEST)[:40]
