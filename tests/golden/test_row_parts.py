"""Fields of ROWs that are read alone are those of the whole rows that Java read, which this test cuts itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import lakecore
from lakecore.row.json_rows import batch_to_json
from lakecore.table import Table
from lakecore.types.datatypes import DataType, RowType
from tests.support.golden import GoldenTable, View, canonical, golden_tables

Path = tuple[str, ...]


def paths_of(data_type: DataType, above: Path = ()) -> Iterator[Path]:
    """Yield the paths of all fields below a type, those of ROWs, too."""
    for field in data_type if isinstance(data_type, RowType) else ():
        yield (*above, field.name)
        yield from paths_of(field.type, (*above, field.name))


def cut(value: Any, paths: list[Path]) -> Any:
    """Cut a value of Java's JSON to these paths."""
    if value is None or () in paths:
        return value
    names = {path[0] for path in paths}
    return {
        name: cut(inner, [path[1:] for path in paths if path[0] == name])
        for name, inner in value.items()
        if name in names
    }


def with_rows() -> list[GoldenTable]:
    return [table for table in golden_tables() if any(map(is_row, table.facts["schema"]["fields"]))]


def is_row(field: dict[str, Any]) -> bool:
    return isinstance(field["type"], dict) and field["type"]["type"].startswith("ROW")


def views(table: GoldenTable, handle: Table) -> Iterator[View]:
    """Yield the latest state, and those that have other columns."""
    latest, *others = table.views()
    yield latest
    for view in others:
        if handle.scan(**view.arguments).row_type != handle.scan().row_type:
            yield view


def check(table: GoldenTable, handle: Table, view: View) -> int:
    """Read each field alone, and a pair of them, beside another column. Returns the number of reads."""
    row_type = handle.scan(**view.arguments).row_type
    whole = [json.loads(line) for line in table.rows(view)]
    reads = 0
    for field in row_type:
        paths = list(paths_of(field.type, (field.name,)))
        others = [other.name for other in row_type if other.name != field.name][:1]
        for chosen in ([path] for path in paths), ([paths[0], path] for path in paths[1:]):
            for some in chosen:
                asked = [*others, *(".".join(path) for path in some)]
                scan = handle.scan(columns=asked, **view.arguments)
                assert scan.columns == (*others, field.name)
                expected = [
                    {name: row[name] for name in others}
                    | {field.name: cut(row[field.name], [path[1:] for path in some])}
                    for row in whole
                ]
                lines = (line for batch in scan.to_batches() for line in batch_to_json(batch, scan.row_type))
                assert canonical(lines) == canonical(expected), (view, asked)
                assert scan.to_arrow().schema == scan.schema
                reads += 1
    return reads


@pytest.mark.parametrize("table", with_rows(), ids=lambda table: f"{table.version}-{table.name}")
def test_fields_of_rows(table: GoldenTable) -> None:
    handle = lakecore.load_catalog(str(table.warehouse)).load_table(table.name)
    assert sum(check(table, handle, view) for view in views(table, handle))
