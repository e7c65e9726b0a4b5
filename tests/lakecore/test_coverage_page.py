"""docs/coverage.md names tests that exist, and each of its items has one verdict with evidence."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/coverage.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ((?:\d{3}|card)\.\d+\.\d+) \| (.+?) \| ([a-z ]+) \| (.+) \|$", PAGE, re.MULTILINE)
NAMED = sorted(set(re.findall(r"`(tests/\S+?\.py)::(\w+)`", PAGE)))
VERDICTS = ("works", "refused", "not needed", "gap")


@cache
def functions(path: str) -> frozenset[str]:
    return frozenset(
        re.findall(r"^(?:async )?def (test_\w+)", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
    )


def test_the_named_tests_exist() -> None:
    assert [f"{path}::{name}" for path, name in NAMED if name not in functions(path)] == []
    assert PAGE.count("`tests/") == len(re.findall(r"`tests/\S+?\.py(?:::\w+)?`", PAGE)), "a name is cut"


def test_each_item_has_one_verdict() -> None:
    assert len(ROWS) == len({number for number, *_ in ROWS}) == 288
    assert {verdict for _, _, verdict, _ in ROWS} == set(VERDICTS)


@pytest.mark.parametrize("verdict", ["works", "refused"])
def test_what_works_or_is_refused_names_a_test(verdict: str) -> None:
    assert [number for number, _, has, evidence in ROWS if has == verdict and "::test_" not in evidence] == []


def test_what_is_missing_is_in_the_roadmap() -> None:
    assert [
        number for number, _, has, evidence in ROWS if has == "gap" and "ROADMAP.md" not in evidence
    ] == []


def test_the_table_of_documents_counts_the_items() -> None:
    counts = Counter(verdict for _, _, verdict, _ in ROWS)
    assert f"| all | {' | '.join(str(counts[verdict]) for verdict in VERDICTS)} |" in PAGE
