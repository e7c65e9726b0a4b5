"""Which snapshots and changelogs go, case by case."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakecore.errors import InvalidInputError
from lakecore.maintain.expire_changelogs.plan import plan_changelog_expiry
from lakecore.maintain.expire_snapshots.plan import AgedSnapshot, Retention, plan_expiry
from tests.support import datadriven

TESTDATA = Path(__file__).parent / "testdata"


def answer(case: datadriven.Case) -> str:
    """Lines: `id time`, or `consumer name position`."""
    rows = [line.split() for line in case.input]
    consumers = {row[1]: int(row[2]) for row in rows if row[0] == "consumer"}
    found = [AgedSnapshot(int(row[0]), int(row[1])) for row in rows if row[0] != "consumer"]
    limits = {name: int(value) for name, value in case.args.items() if name not in ("latest", "by_successor")}
    default = {"retain_max": 1000, "retain_min": 1, "older_than_ms": 1000, "max_deletes": 1000}
    retention = Retention(**default | limits, by_successor="by_successor" in case.args)
    if case.command == "changelogs":
        got = plan_changelog_expiry(found, int(case.args["latest"]), retention, consumers)
    else:
        got = plan_expiry(found, retention, consumers)
    return f"{' '.join(map(str, got.ids)) or 'nothing'} -> {got.end} ({got.blocker})"


def test_expiry(rewrite: bool) -> None:
    datadriven.check(TESTDATA / "expiry.txt", answer, rewrite)


@pytest.mark.parametrize(
    "limits", [{"retain_min": 0}, {"retain_max": 1, "retain_min": 2}, {"max_deletes": 0}], ids=str
)
def test_limits_that_cannot_be(limits: dict[str, int]) -> None:
    default = {"retain_max": 10, "retain_min": 1, "older_than_ms": 0, "max_deletes": 10}
    with pytest.raises(InvalidInputError, match=r"retain|max-deletes"):
        Retention(**default | limits)
