"""Readers that are neither ours nor Java's: pypaimon and pypaimon-rust read what lakecore wrote and compacted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.jobs import compact
from lakecore.row.json_rows import batch_to_json, json_to_batch
from lakecore.types.arrow import arrow_schema
from lakecore.types.datatypes import RowType
from tests.support.golden import GoldenTable, View, canonical
from tests.support.paimon_libraries import LIBRARIES, paimon_library

pytestmark = pytest.mark.slow

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


@pytest.fixture(scope="module", params=LIBRARIES)
def pypaimon(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Read]:
    """Rows of a table as canonical lines, read by one of the two libraries."""
    with paimon_library(request.param, tmp_path_factory.mktemp("pypaimon")) as read_table:

        def read(warehouse: Path, table: str, row_type: RowType) -> list[str]:
            rows = read_table(warehouse, table).select([field.name for field in row_type.fields])
            typed = rows.cast(arrow_schema(row_type))
            return canonical(line for batch in typed.to_batches() for line in batch_to_json(batch, row_type))

        yield read


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
