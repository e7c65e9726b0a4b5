"""fsck --deep: an index that does not know its rows is damage; what Java wrote is not."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

import lakecore
from lakecore.jobs.rewrite_file_index import Job, run
from lakecore.verify.fsck.check import fsck
from lakecore.verify.fsck.findings import FindingKind
from tests.support.golden import GoldenTable, golden_tables
from tests.support.lake import append_table, memory_catalog, paths_of, put

INDEXED = [table for table in golden_tables() if any(key.startswith("file-index.") for key in table.options)]


@pytest.mark.parametrize("golden", INDEXED, ids=lambda table: table.name)
def test_indexes_of_java_know_their_rows(golden: GoldenTable) -> None:
    table = lakecore.load_catalog(str(golden.warehouse)).load_table(golden.name)
    report = fsck(
        table._stores.file_io,
        table._stores.paths,
        now_ms=table._stores.clock.now_ms(),
        read_data=True,
        deep=True,
    )
    assert [finding for finding in report.findings if finding.kind is FindingKind.INDEX_FILE] == []


@pytest.mark.parametrize(
    "options",
    [
        {"file-index.bitmap.columns": "v"},
        {"file-index.bsi.columns": "v"},
        {"file-index.range-bitmap.columns": "v"},
        {"file-index.bloom-filter.columns": "v", "file-index.bloom-filter.v.items": "50"},
    ],
    ids=lambda options: next(iter(options)).split(".")[1],
)
def test_an_index_of_other_rows_is_damage(options: Mapping[str, str]) -> None:
    catalog = memory_catalog("lying-index")
    table = append_table(catalog)
    put(table, [{"v": n, "p": "x"} for n in range(40)], [{"v": 1000 + n, "p": "x"} for n in range(40)])
    job = Job(table=table.name, options={**options, "file-index.in-manifest-threshold": "1 b"})
    run(job, catalog, clock=catalog.clock)

    def damage(*, deep: bool) -> list[str]:
        now = catalog.clock.now_ms()
        found = fsck(table._stores.file_io, table._stores.paths, now_ms=now, read_data=True, deep=deep).damage
        return [f"{finding.kind.value} {finding.problem}" for finding in found]

    assert damage(deep=True) == []
    first, second = sorted(path for path in paths_of(table, "/bucket-") if path.endswith(".index"))
    own = table._stores.file_io.read(first)
    table._stores.file_io.overwrite(first, table._stores.file_io.read(second))
    assert damage(deep=False) == []
    (found,) = damage(deep=True)
    assert found.startswith("index-file the file indexes of column v do not contain the value of row ")
    table._stores.file_io.overwrite(first, own[:-9])
    (found,) = damage(deep=True)
    assert found.startswith("index-file ")
    table._stores.file_io.delete(first)
    assert [text.split()[0] for text in damage(deep=True)] == ["data-file"]
