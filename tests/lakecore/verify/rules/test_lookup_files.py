"""Which files a merge of level 0 must ask for older rows, by the live files of its bucket."""

from __future__ import annotations

import pytest

from lakecore.errors import ProofError
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.verify.rules.lookup_files import LookupClaim, check_lookup_claim, check_moved
from lakecore.verify.rules.table_rules import TableRules
from tests.lakecore.verify.rules.test_drop_licence import LATER, LEFT, MIDDLE, NEW, RIGHT, TOP, file

LOOKUP = {"changelog-producer": "lookup"}
ANY_LOOKUP = (
    LOOKUP,
    {"deletion-vectors.enabled": "true"},
    {"merge-engine": "first-row"},
    {"force-lookup": "true", "merge-engine": "aggregation"},
    {"force-lookup": "true", "sequence.field": "v"},
    {"force-lookup": "true", "ignore-delete": "true"},
)
NO_LOOKUP = (
    {},
    {"merge-engine": "aggregation"},
    {"force-lookup": "true"},  # the row of level 0 is the result, and nothing else is made
    {"changelog-producer": "full-compaction", "deletion-vectors.enabled": "false"},
)
BETWEEN = file("between", 3, "cd")


def check(
    options: dict[str, str],
    live: list[DataFile],
    merged: list[DataFile],
    levels: list[list[DataFile]],
    *,
    keys: bool = True,
) -> None:
    claim = LookupClaim(unit="unit 7", merged=merged, level=5, levels=levels)
    rules = TableRules.of(options, keyed=True)
    check_lookup_claim(claim, live, merged, rules, (lambda key: key) if keys else None)


@pytest.mark.parametrize("options", ANY_LOOKUP)
def test_every_level_that_may_have_the_keys_is_asked(options: dict[str, str]) -> None:
    live = [NEW, LATER, BETWEEN, MIDDLE, TOP, LEFT]
    check(options, live, [NEW], [[BETWEEN], [MIDDLE], [TOP]])
    for left_out in (BETWEEN, MIDDLE, TOP):
        levels = [[file] for file in (BETWEEN, MIDDLE, TOP) if file is not left_out]
        with pytest.raises(ProofError, match=f"{left_out.file_name} on level .* is not looked up") as caught:
            check(options, live, [NEW], levels)
        assert caught.value.unit == "unit 7"


def test_rows_that_count_by_their_commit_are_merged_in_that_order() -> None:
    options = {
        "pk-clustering-override": "true",
        "clustering.columns": "v",
        "deletion-vectors.enabled": "true",
    }
    check(options, [NEW, LATER], [NEW, LATER], [], keys=False)
    with pytest.raises(ProofError, match=f"{LATER.file_name} is merged before {NEW.file_name}"):
        check(options, [NEW, LATER], [LATER, NEW], [], keys=False)
    check({}, [NEW, LATER], [LATER, NEW], [])


@pytest.mark.parametrize("options", NO_LOOKUP)
def test_merges_that_look_nothing_up_ask_nobody(options: dict[str, str]) -> None:
    check(options, [NEW, TOP], [NEW], [])


def test_files_with_other_keys_and_those_that_are_merged_are_not_asked() -> None:
    check(LOOKUP, [NEW, LEFT, RIGHT], [NEW], [])
    check(LOOKUP, [NEW, MIDDLE, TOP], [NEW, MIDDLE, TOP], [])
    check(LOOKUP, [MIDDLE, TOP], [MIDDLE], [])
    with pytest.raises(ProofError, match="left on level 5"):
        check(LOOKUP, [NEW, LEFT], [NEW], [], keys=False)


def test_the_nearest_level_comes_first() -> None:
    with pytest.raises(ProofError, match="middle is looked up before a file of a lower level"):
        check(LOOKUP, [NEW, MIDDLE, TOP], [NEW], [[TOP], [MIDDLE]])


def test_what_is_read_as_one_run_is_one() -> None:
    with pytest.raises(ProofError, match="between of level 3 and top of level 5 are looked up as one level"):
        check(LOOKUP, [NEW, BETWEEN, TOP], [NEW], [[BETWEEN, TOP]])
    first, second = file("first", 4, "ac"), file("second", 4, "dz")
    check(LOOKUP, [NEW, first, second], [NEW], [[first, second]])
    for files in ([second, first], [file("first", 4, "ad"), second]):
        with pytest.raises(ProofError, match="are looked up as one run, out of order"):
            check(LOOKUP, [NEW, *files], [NEW], [files])


def test_who_is_asked_stays_above_level_0() -> None:
    for live, merged, asked in (
        ([NEW, TOP], [NEW, TOP], TOP),
        ([NEW, LATER], [NEW], LATER),
        ([NEW], [NEW], TOP),
    ):
        with pytest.raises(ProofError, match=f"older rows are looked up in {asked.file_name}"):
            check(LOOKUP, live, merged, [[asked]])


def test_rows_that_leave_level_0_are_told_of_where_changes_are_looked_up() -> None:
    lookup, plain = (TableRules.of(options, keyed=True) for options in (LOOKUP, {}))
    moves = [(NEW, file("new", 5, "cf")), (MIDDLE, file("middle", 5, "ee"))]
    check_moved("bucket-0", moves, [NEW], lookup)
    check_moved("bucket-0", moves, [], plain)
    with pytest.raises(ProofError, match="new leaves level 0"):
        check_moved("bucket-0", moves, [], lookup)
