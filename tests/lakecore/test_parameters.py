"""Functions have few parameters: more than six mean that a value is missing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST = 6
EXCEPTIONS = {
    "lakecore/table.py Table.scan": "users name the parts of a query; a value would hide them",
    "lakecore/table.py Table.stream": "as Table.scan",
    "lakecore/system/system_table.py SystemTable.scan": "it is called as Table.scan is",
    "lakecore/system/system_table.py SystemTable.stream": "it is called as Table.stream is",
    "operators/lakecore_airflow/lake/tables.py ListTablesOperator.__init__": "Airflow reads the parameters of an operator there",
    "operators/lakecore_airflow/operators/query_service.py QueryServiceOperator.__init__": "Airflow reads the parameters of an operator there",
    "operators/lakecore_airflow/policy/maintain.py MaintainTableOperator.__init__": "Airflow reads the parameters of an operator there",
}
"""Functions that may have more, and why. The list may only become shorter."""


def functions(node: ast.AST, name: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for child in ast.iter_child_nodes(node):
        inner = name
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            inner = f"{name}.{child.name}".removeprefix(".")
            if not isinstance(child, ast.ClassDef):
                yield inner, child
        yield from functions(child, inner)


def count(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    given = function.args
    names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def test_functions_have_few_parameters() -> None:
    found = {
        f"{path.relative_to(ROOT).as_posix()} {name}"
        for package in ("lakecore", "operators", "dags", "plugins", "pyspark_lakecore")
        for path in (ROOT / package).rglob("*.py")
        for name, function in functions(ast.parse(path.read_text(encoding="utf-8")))
        if count(function) > MOST
    }
    assert sorted(found - set(EXCEPTIONS)) == []
    assert sorted(set(EXCEPTIONS) - found) == [], "these have few parameters now: take them from the list"
