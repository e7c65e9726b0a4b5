"""The figures of docs/architecture.md ("The structure in figures") hold. They may only become better: then lower the limit."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.support import house

LIMITS = {
    "folders with more than 20 modules": 0,
    "largest folder": 20,
    "import pairs inside compact": 220,
    "modules that a unit of a primary-key merge passes through": 90,
}

REPEATED = {
    ("lakecore/catalog/catalog.py", "lakecore/catalog/rest/rest_catalog.py"): "parameters of `create_table`",
    (
        "lakecore/catalog/catalog.py",
        "lakecore/catalog/warehouse/new_tables.py",
    ): "parameters of `create_table`",
    (
        "lakecore/catalog/rest/rest_catalog.py",
        "lakecore/catalog/warehouse/new_tables.py",
    ): "parameters of `create_table`",
    (
        "lakecore/catalog/catalog.py",
        "lakecore/catalog/warehouse/named_tables.py",
    ): "parameters of `list_tables_page`",
    (
        "lakecore/catalog/rest/rest_catalog.py",
        "lakecore/catalog/warehouse/named_tables.py",
    ): "parameters of `list_tables_page`",
    ("lakecore/system/system_table.py", "lakecore/table.py"): "parameters of `scan`",
}
"""Pairs of files that repeat more than 8 lines: a protocol and its classes name the same parameters."""


@pytest.fixture(scope="module")
def figures() -> Mapping[str, int]:
    return house.figures()


@pytest.mark.parametrize("name", LIMITS)
def test_the_figure_is_within_its_limit(figures: Mapping[str, int], name: str) -> None:
    assert figures[name] <= LIMITS[name]


def test_modules_are_counted(figures: Mapping[str, int]) -> None:
    assert figures["modules"] > 700
    assert figures["packages of these"] > 8


def test_no_block_of_code_is_repeated() -> None:
    sources = house.sources("lakecore", "operators", "plugins", "dags", "pyspark_lakecore")
    assert house.repeated_blocks(sources) == set(REPEATED)


def test_repeated_blocks_are_seen() -> None:
    block = "\n\n".join(f"    f({number})" for number in range(house.BLOCK))
    imports = "from a import (\n" + "".join(f"    n{number},\n" for number in range(house.BLOCK)) + ")\n"
    texts = {"a.py": f"def a():\n{block}", "b.py": f"{imports}def b():\n{block}", "c.py": imports}
    assert house.repeated_blocks(texts) == {("a.py", "b.py")}
    assert house.repeated_blocks({"a.py": f"{block}\nx\n{block}"}) == {("a.py", "a.py")}


def test_every_planner_has_a_text_table() -> None:
    tests = [path.read_text() for path in (house.ROOT / "tests").rglob("test_*.py")]
    tables = "\n".join(text for text in tests if "datadriven" in text)
    planners = house.planners()
    assert len(planners) > 20
    assert sorted(name for name in planners if f"from {name} import" not in tables) == []
