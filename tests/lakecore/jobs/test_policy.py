"""Which chores a table gets."""

from __future__ import annotations

from typing import Any

import pytest

from lakecore.errors import InvalidInputError
from lakecore.jobs.policy import chores_of, parse_policy

KNOWN = ("expire-tags", "expire-snapshots", "remove-orphan-files")
POLICY = [
    {
        "tables": ["shop.*", "logs.*"],
        "except": "shop.tmp_*, *.raw",
        "chores": {"expire-snapshots": {"retain-max": 9}},
    },
    {"tables": "shop.*", "chores": {"expire-tags": True}},
    {"tables": "shop.audit", "chores": {"expire-snapshots": "off", "expire-tags": {"older-than": "30 d"}}},
]


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("shop.orders", {"expire-snapshots": {"retain-max": 9}, "expire-tags": {}}),
        ("shop.audit", {"expire-tags": {"older-than": "30 d"}}),
        ("shop.tmp_1", {"expire-tags": {}}),
        ("logs.web", {"expire-snapshots": {"retain-max": 9}}),
        ("logs.raw", {}),
        ("other.orders", {}),
    ],
)
def test_later_rules_win_chore_by_chore(table: str, expected: dict[str, Any]) -> None:
    assert chores_of(table, parse_policy(POLICY, KNOWN)) == expected


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        ([], "list of rules"),
        ("shop.*", "list of rules"),
        ([{"tables": "a.*"}], "rule 1"),
        ([POLICY[1], {"chores": {"expire-tags": {}}}], "rule 2"),
        ([{"tables": "a.*", "chores": {"expire-all": {}}}], "expire-all"),
        ([{"tables": "a.*", "chores": {"expire-tags": 7}}], "expire-tags: 7"),
        ([{"tables": "a.*", "chores": {}, "exclude": "x"}], "exclude"),
    ],
)
def test_a_wrong_policy_is_refused_with_its_rule(policy: Any, problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        parse_policy(policy, KNOWN)
