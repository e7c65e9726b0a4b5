"""Vectors that a plan has, compared with those that the index files of the bucket name."""

from __future__ import annotations

import pytest

from lakecore.errors import ProofError
from lakecore.metadata.manifest.index_file import DELETION_VECTORS, DeletionFile, DeletionRange, IndexFile
from lakecore.verify.rules.vector_rules import check_planned_vectors

PLACES = (DeletionRange("a", 1, 20), DeletionRange("b", 30, 20, 5))
KNOWN = [
    IndexFile(
        partition=b"", bucket=1, index_type=DELETION_VECTORS, file_name="index-1", file_size=60, row_count=2,
        deletions=PLACES,
    ),
    IndexFile(partition=b"", bucket=1, index_type="HASH", file_name="index-2", file_size=60, row_count=2),
]  # fmt: skip
RIGHT = {place.data_file: DeletionFile("t/index/index-1", place) for place in PLACES}


def test_a_plan_with_the_vectors_of_its_files_passes() -> None:
    check_planned_vectors("u", ["a", "b", "c"], RIGHT, KNOWN)
    check_planned_vectors("u", ["c"], {}, KNOWN)
    check_planned_vectors("u", ["a"], {"a": DeletionFile("x/index-1", DeletionRange("a", 1, 20, 7))}, KNOWN)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"a": RIGHT["b"]},
        {"a": DeletionFile("t/index/index-0", PLACES[0])},
        {"a": DeletionFile("t/index/index-1", DeletionRange("a", 2, 20))},
        {"a": DeletionFile("t/index/index-1", DeletionRange("a", 1, 21))},
    ],
    ids=["none", "another file", "another index", "another place", "another length"],
)
def test_another_vector_or_none_is_refused(given: dict[str, DeletionFile]) -> None:
    with pytest.raises(ProofError, match="the deletion vector of a is at 1 of index-1, but the plan has"):
        check_planned_vectors("u", ["c", "a"], given, KNOWN)


def test_a_vector_of_a_file_without_deleted_rows_is_refused() -> None:
    with pytest.raises(ProofError, match="the deletion vector of c is none"):
        check_planned_vectors("u", ["c"], {"c": RIGHT["a"]}, KNOWN)
