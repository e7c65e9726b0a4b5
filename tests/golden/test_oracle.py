"""The judge itself: Java reads from the packed tables what it read when they were made, and finds what it found then."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.golden import GoldenTable, View, golden_tables
from tests.support.oracle import Oracle, OracleError, findings

pytestmark = pytest.mark.slow


def test_both_sets_are_complete() -> None:
    assert len(golden_tables()) == 127 + 117
    for table in golden_tables():
        for view in table.views():
            assert (table.expected / view.file).exists(), (table.name, view)


@pytest.mark.parametrize("name", ["g1.a_pk_dedup_b3_part", "g1.a_types_extreme", "g3.h3_life_rolled_back"])
def test_java_agrees_with_itself(
    name: str, golden: Callable[[str], GoldenTable], oracles: dict[str, Oracle]
) -> None:
    table = golden(name)
    java = oracles[table.version]
    assert java.read(table.warehouse, name) == table.rows(View("rows.jsonl"))
    assert findings(java.fsck(table.warehouse, name)) == findings(table.facts["fsck"])


def test_an_exception_of_java_is_reported(oracle: Oracle, golden: Callable[[str], GoldenTable]) -> None:
    with pytest.raises(OracleError, match="no_such_table"):
        oracle.read(golden("g1.a_pk_thin").warehouse, "g1.no_such_table")
