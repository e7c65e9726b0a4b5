"""docs/coverage.md and docs/airflow_acceptance.md name tests that exist, and each item of theirs has one verdict with
evidence.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/coverage.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ((?:\d{3}|card)\.\d+\.\d+) \| (.+?) \| ([a-z ]+) \| (.+) \|$", PAGE, re.MULTILINE)
AIRFLOW = (ROOT / "docs/airflow_acceptance.md").read_text(encoding="utf-8")
VERDICTS = ("works", "refused", "not needed", "gap")


@cache
def functions(path: str) -> frozenset[str]:
    return frozenset(
        re.findall(r"^(?:async )?def (test_\w+)", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
    )


@pytest.mark.parametrize("page", [PAGE, AIRFLOW], ids=["coverage", "airflow"])
def test_the_named_tests_exist(page: str) -> None:
    named = sorted(set(re.findall(r"`(tests/\S+?\.py)::(\w+)`", page)))
    assert [f"{path}::{name}" for path, name in named if name not in functions(path)] == []
    assert page.count("`tests/") == len(re.findall(r"`tests/\S+?\.py(?:::\w+)?`", page)), "a name is cut"
    assert [name for name in re.findall(r"`(docs/figures/\S+)`", page) if not (ROOT / name).exists()] == []


def test_each_item_of_airflow_has_one_verdict() -> None:
    rows = [line.split(" | ") for line in AIRFLOW.splitlines() if line.startswith("| ")]
    verdicts = Counter(row[1] for row in rows if len(row) == 3)
    assert set(verdicts) == {"verdict", "met", "in part", "not met"}
    assert sum(bool(re.match(r"\| B\d+: ", row[0])) for row in rows) == 23


def test_each_item_has_one_verdict() -> None:
    assert len(ROWS) == len({number for number, *_ in ROWS}) == 288
    assert (
        {"works", "refused"} <= {verdict for _, _, verdict, _ in ROWS} <= set(VERDICTS)
    )  # there may be no gap


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
