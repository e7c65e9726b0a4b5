"""Docstrings of operators name the parameters that their constructors take, some of which are made at run time."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

from tools.docs_pages import ROOT, airflow_modules

OPERATORS = [(module, name) for module, names in airflow_modules(r"(Operator|Sensor)$") for name in names]


def test_all_areas_are_among_them() -> None:
    assert len(OPERATORS) > 40
    assert ("lakecore_airflow.operators.compact", "CompactTableOperator") in OPERATORS


@pytest.mark.parametrize(("module", "name"), OPERATORS, ids=[name for _, name in OPERATORS])
def test_parameters_of_the_docstring_exist(module: str, name: str) -> None:
    operator = getattr(importlib.import_module(module), name)
    documented = re.findall(r":param (\w+):", inspect.getdoc(operator) or "")
    assert set(documented) <= set(inspect.signature(operator).parameters)
    assert len(documented) == len(set(documented))


@pytest.mark.parametrize("page", ["lakecore", "errors", "jobs", "operators"])
def test_pages_of_the_reference_have_entries(page: str) -> None:
    from tools.docs_pages import reference_page

    entries = re.findall(r"^::: ([\w.]+)$", reference_page(f"reference/{page}.md"), re.MULTILINE)
    assert len(entries) > 2
    assert len(entries) == len(set(entries))
    assert (Path(ROOT) / "mkdocs.yml").read_text().count(f"reference/{page}.md") == 1
