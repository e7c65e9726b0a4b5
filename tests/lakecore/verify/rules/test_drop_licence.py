"""When a merge may leave out deletes: by all live files, their keys, levels and sequence numbers."""

from __future__ import annotations

from typing import Any

import pytest

from lakecore.errors import ProofError
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.verify.rules.drop_licence import DropClaim, check_licence
from lakecore.verify.rules.table_rules import TableRules

PLAIN: dict[str, str] = {}
VECTORS = {"deletion-vectors.enabled": "true"}
BY_FIELD = {"sequence.field": "v"}
BY_SNAPSHOT = {"sequence.snapshot-ordering": "true"}


def file(name: str, level: int, keys: str, numbers: tuple[int, int] = (0, 9)) -> DataFile:
    """`keys`: the first and the last one, a letter each."""
    return DataFile(
        file_name=name, file_size=1, row_count=1, min_key=keys[0].encode(), max_key=keys[-1].encode(),
        min_sequence_number=numbers[0], max_sequence_number=numbers[1], schema_id=0, level=level,
    )  # fmt: skip


NEW = file("new", 0, "cf", (10, 19))
TOP = file("top", 5, "az")
LEFT, RIGHT = file("left", 5, "ab"), file("right", 5, "gz")
LATER, MIXED = file("later", 0, "dd", (20, 29)), file("mixed", 0, "dd", (19, 29))
MIDDLE = file("middle", 4, "ee")

GRANTED: dict[str, tuple[dict[str, str], list[DataFile], list[DataFile], list[DataFile]]] = {
    "nothing else is there": (PLAIN, [NEW], [NEW], []),
    "all files are merged": (PLAIN, [NEW, TOP], [NEW, TOP], []),
    "others have other keys": (PLAIN, [NEW, LEFT, RIGHT], [NEW], []),
    "another came later": (PLAIN, [NEW, LATER], [NEW], []),
    "those above were asked": (VECTORS, [NEW, MIDDLE, TOP], [NEW], [MIDDLE, TOP]),
    "the oldest row counts": ({"merge-engine": "first-row"}, [NEW, TOP], [NEW], []),
    "above level 0 nothing is hidden": (VECTORS, [MIDDLE, TOP], [MIDDLE], []),
}
DENIED: dict[str, tuple[dict[str, str], list[DataFile], list[DataFile], list[DataFile], str]] = {
    "a higher level has the keys": (PLAIN, [NEW, TOP], [NEW], [], "top"),
    "a level between has a key": (PLAIN, [NEW, MIDDLE, TOP], [NEW, TOP], [], "middle"),
    "asking is not marking": (PLAIN, [NEW, TOP], [NEW], [TOP], "top"),
    "one above was not asked": (VECTORS, [NEW, MIDDLE, TOP], [NEW], [TOP], "middle"),
    "nobody was asked": (VECTORS, [NEW, TOP], [NEW], [], "top"),
    "another may be older": (PLAIN, [NEW, MIXED], [NEW], [], "mixed"),
    "a later one may be older by its field": (BY_FIELD, [NEW, LATER], [NEW], [], "later"),
    "a later one may be older by its snapshot": (BY_SNAPSHOT, [NEW, LATER], [NEW], [], "later"),
    "an input is not there": (PLAIN, [TOP], [NEW], [], "not among the live files"),
    "a file asked is not there": (VECTORS, [NEW], [NEW], [TOP], "not among the live files"),
}


def check(options: dict[str, str], live: Any, merged: Any, asked: Any, *, keys: bool = True) -> None:
    rules = TableRules.of(options, keyed=True)
    claim = DropClaim(unit="unit 7", merged=merged, searched=asked)
    check_licence(claim, live, merged, rules, (lambda key: key) if keys else None)


@pytest.mark.parametrize("name", GRANTED)
def test_a_licence_is_granted(name: str) -> None:
    check(*GRANTED[name])


@pytest.mark.parametrize("name", DENIED)
def test_a_licence_is_denied(name: str) -> None:
    *case, match = DENIED[name]
    with pytest.raises(ProofError, match=match) as caught:
        check(*case)
    assert caught.value.unit == "unit 7"


def test_where_descriptions_hold_no_keys_every_other_file_may_have_them() -> None:
    with pytest.raises(ProofError, match="left"):
        check(PLAIN, [NEW, LEFT], [NEW], [], keys=False)
    check(VECTORS, [NEW, LEFT], [NEW], [LEFT], keys=False)


def test_a_file_that_is_merged_must_go() -> None:
    claim = DropClaim(unit="u", merged=[NEW, TOP])
    with pytest.raises(ProofError, match="the commit does not remove it"):
        check_licence(claim, [NEW, TOP], [NEW], TableRules.of({}, keyed=True), lambda key: key)
