"""Splits: packing, and when a split needs no merging."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakecore.metadata.manifest.data_file import EMPTY_ROW, DataFile
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.scan.plan import SplitPolicy, plan_sections, plan_splits
from lakecore.scan.split import SplitPlan
from tests.support import datadriven
from tests.support.builders import data_file, manifest_entry, table_schema

POLICY = SplitPolicy(target_size=100, open_file_cost=10)
KEY_TYPE = table_schema().key_type
OTHER = EMPTY_ROW[:-1] + b"\1"


def plan(*files: DataFile | tuple[bytes, int, DataFile], keyed: bool = True) -> SplitPlan:
    placed = [file if isinstance(file, tuple) else (EMPTY_ROW, 0, file) for file in files]
    rows = [manifest_entry(file, partition=partition, bucket=bucket) for partition, bucket, file in placed]
    return plan_splits(ManifestEntries.from_rows(rows), POLICY, KEY_TYPE if keyed else None)


def text(plan: SplitPlan) -> str:
    """`raw:a,b merge:c`."""
    return " ".join(
        ("raw:" if split.raw_convertible else "merge:") + ",".join(f.file_name for f in split.files)
        for split in plan
    )


def file(
    name: str, size: int = 40, low: int = 0, high: int = 9, level: int = 0, deletes: int | None = 0
) -> DataFile:
    made = data_file(name, keys=(low, high), level=level, size=size, sequence=(ord(name[0]), 200))
    return replace(made, delete_row_count=deletes)


def test_append_files_are_packed_by_sequence() -> None:
    found = plan(file("c"), file("a", 60), file("b"), file("d", 500), file("e", 1), file("f", 1), keyed=False)
    assert text(found) == "raw:a,b raw:c raw:d raw:e,f"
    assert found.file_count == 6
    assert found.size == 642
    assert found.row_count == 60


def test_splits_that_merge_are_cut_into_sections_and_joined_again() -> None:
    found = plan(
        (OTHER, 0, file("a", 9, 30, 39)),
        (OTHER, 0, file("b", 9, 0, 9, 5)),
        (OTHER, 0, file("c", 9, 5, 15)),
        (OTHER, 0, file("d", 9, 20, 29, 5)),
        (OTHER, 0, file("e", 9, 40, 49, 5, deletes=2)),
        (EMPTY_ROW, 0, file("f", 60, 0, 9, 5)),
        (EMPTY_ROW, 0, file("g", 60, 10, 19, 5)),
        (EMPTY_ROW, 1, file("h", 9, 0, 9)),
        (EMPTY_ROW, 1, file("i", 9, 0, 9, 5)),
    )
    assert text(found) == "merge:a,b,c,d,e raw:f raw:g merge:h,i"
    sections = plan_sections(found, KEY_TYPE)
    assert text(sections.plan) == "merge:b,c raw:d raw:a merge:e raw:f raw:g merge:h,i"
    assert sections.origin.tolist() == [0, 0, 0, 0, 1, 2, 3]
    assert text(found) == "merge:a,b,c,d,e raw:f raw:g merge:h,i", "the plan itself stays"
    assert text(sections.joined(~sections.plan.raw_convertible)) == "merge:b,c,e merge:h,i"
    assert text(sections.joined(sections.plan.raw_convertible)) == "merge:d,a raw:f raw:g"
    assert text(sections.joined(sections.origin < 0)) == ""


def test_a_plan_without_merges_has_no_sections() -> None:
    for found in (plan(), plan(file("a"), file("b", 60), keyed=False)):
        sections = plan_sections(found, KEY_TYPE)
        assert sections.plan is found
        assert text(sections.joined(found.raw_convertible)) == text(found)


def test_small_files_cost_their_opening() -> None:
    assert text(plan(*(file(name, 1) for name in "abcdefghijkl"), keyed=False)) == (
        "raw:a,b,c,d,e,f,g,h,i,j raw:k,l"
    )


def test_buckets_are_read_apart_in_the_order_of_the_manifests() -> None:
    found = plan(
        (OTHER, 1, file("a")),
        (EMPTY_ROW, 0, file("b")),
        (OTHER, 1, file("c")),
        (OTHER, 0, file("d")),
        keyed=False,
    )
    assert text(found) == "raw:a,c raw:b raw:d"
    assert [(split.partition, split.bucket) for split in found] == [(OTHER, 1), (EMPTY_ROW, 0), (OTHER, 0)]


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        # one level above 0, no deletes: files are disjoint, each can be read alone
        ([file("a", 60, 0, 9, 5), file("b", 60, 10, 19, 5), file("c", 10, 20, 29, 5)], "raw:a raw:b,c"),
        # an unknown number of deletes is not none
        ([file("a", 40, 0, 9, 5, deletes=None), file("b", 40, 10, 19, 5)], "merge:a,b"),
        ([file("a", 40, 0, 9, 5, deletes=1)], "merge:a"),
        ([file("a", 40, deletes=0)], "raw:a"),
        # overlapping files stay together, whatever their size
        ([file("a", 80, 0, 9), file("b", 80, 5, 15, 5), file("c", 80, 20, 30, 5)], "merge:a,b raw:c"),
        ([file("a", 80, 0, 9), file("b", 80, 9, 15, 5), file("c", 80, 15, 30, 5)], "merge:a,c,b"),
        # a bucket below the target is one split
        ([file("a", 20, 0, 9), file("b", 20, 20, 25, 5)], "merge:a,b"),
        # small sections share a split
        ([file("a", 60, 0, 9), file("b", 20, 10, 19, 3), file("c", 60, 20, 30, 5)], "merge:a,b raw:c"),
    ],
)  # fmt: skip
def test_keyed_buckets(files: list[DataFile], wanted: str) -> None:
    assert text(plan(*files)) == wanted


def test_plans_are_sequences() -> None:
    found = plan(file("a"), file("b", 90), file("c", 90), keyed=False)
    assert len(found) == 3
    assert found[-1].files[0].file_name == "c"
    assert [split.files[0].file_name for split in found[1:]] == ["b", "c"]
    with pytest.raises(IndexError):
        found[3]
    assert found[0].size == 40
    assert found[0].row_count == 10


def test_nothing_to_read() -> None:
    assert len(plan()) == 0
    assert plan(keyed=False).size == 0


def test_policy_comes_from_options() -> None:
    options = {"source.split.target-size": "1 mb", "source.split.open-file-cost": "1 kb"}
    assert SplitPolicy.from_options(options) == SplitPolicy(1 << 20, 1 << 10)
    assert SplitPolicy.from_options({}) == SplitPolicy(128 << 20, 4 << 20)


def splits_of(case: datadriven.Case) -> str:
    """Lines: files in the order of the manifests. One line a split, `raw` or `merge`, with its files."""
    rows = []
    for line in case.input:
        name, *pairs = line.split()
        values = dict(pair.split("=") for pair in pairs)
        low, high = map(int, values.get("keys", "0-9").split("-"))
        deletes = None if values.get("deletes") == "?" else int(values.get("deletes", "0"))
        level, size = int(values.get("level", "0")), int(values.get("size", "40"))
        made = file(name, size, low, high, level, deletes)
        rows.append(manifest_entry(made, bucket=int(values.get("bucket", "0"))))
    flags = {name: name in case.args for name in ("keys_unique", "unordered", "as_changelog")}
    key_type = KEY_TYPE if case.command == "keyed" else None
    found = plan_splits(ManifestEntries.from_rows(rows), POLICY, key_type, **flags)
    return text(found).replace(" ", "\n").replace(":", " ").replace(",", " ")


def test_splits(rewrite: bool) -> None:
    datadriven.check(Path(__file__).parent / "testdata" / "splits.txt", splits_of, rewrite)
