"""Runs, sections, delete dropping and what becomes of the files of a pick."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lakecore.lsm.rewrite_columns import PickColumns, divide_columns
from lakecore.lsm.rewrites import OutputRules, divide, worth_doing
from lakecore.lsm.runs import drops_deletes, level_runs, number_of_levels
from lakecore.lsm.sections import Section, sections
from lakecore.metadata.manifest.data_file import DataFile
from tests.support import datadriven

TESTDATA = Path(__file__).parent / "testdata"


def data_file(name: str = "f", **overrides: Any) -> DataFile:
    fields: dict[str, Any] = {
        "file_size": 1, "row_count": 1, "min_sequence_number": 0, "max_sequence_number": 0, "schema_id": 0,
        "delete_row_count": 0,
    }  # fmt: skip
    return DataFile(file_name=name, **(fields | overrides))


def parse_file(line: str) -> DataFile:
    """`name [low-high] [L0] [size=1] [seq=0-9] [deletes=0|?]`"""
    name, *words = line.split()
    fields: dict[str, Any] = {}
    for word in words:
        key, _, value = word.partition("=")
        if key == "size":
            fields["file_size"] = int(value)
        elif key == "deletes":
            fields["delete_row_count"] = None if value == "?" else int(value)
        elif key == "seq":
            low, high = value.split("-")
            fields |= {"min_sequence_number": int(low), "max_sequence_number": int(high)}
        elif word.startswith("L"):
            fields["level"] = int(word[1:])
        else:
            low, high = word.split("-")
            fields |= {"min_key": low.encode(), "max_key": high.encode()}
    return data_file(name, **fields)


def names(files: Any) -> str:
    return " ".join(file.file_name for file in files)


def show(section: Section) -> str:
    return " | ".join(sorted(names(run) for run in section.runs))


def answer(case: datadriven.Case) -> str:
    files = [parse_file(line) for line in case.input]
    match case.command:
        case "sections":
            return "\n".join(f"[{show(section)}]" for section in sections(files, int))
        case "runs":
            return "\n".join(f"L{run.level} {names(run.files)}: {run.size}" for run in level_runs(files))
        case "drops":
            return "yes" if drops_deletes(level_runs(files), int(case.args["level"])) else "no"
        case "worth":
            return "yes" if worth_doing(files, int(case.args["output"])) else "no"
    rules = OutputRules(
        output_level=int(case.args["output"]),
        max_level=5,
        small_file_size=int(case.args["small"]),
        force_rewrite="force_rewrite" in case.args,
    )
    work = divide(files, int, rules)
    assert from_columns(files, rules) == (
        {file.file_name for stretch in work.rewrites for section in stretch for file in section.files},
        {file.file_name for file in work.upgrades},
    )
    lines = ["merge " + " ".join(f"[{show(section)}]" for section in stretch) for stretch in work.rewrites]
    return "\n".join([*lines, *(f"move {file.file_name}" for file in work.upgrades)] or ["nothing"])


def from_columns(files: Sequence[DataFile], rules: OutputRules) -> tuple[set[str], set[str]]:
    """The names of the files that are rewritten and moved, as the division by columns tells."""
    deletes = np.array([file.delete_row_count != 0 for file in files])
    tasks = divide_columns(
        PickColumns(
            pick=np.zeros(len(files), np.int64),
            low=np.array([int(file.min_key) for file in files]),
            high=np.array([int(file.max_key) for file in files]),
            size=np.array([file.file_size for file in files]),
            must_rewrite=rules.force_rewrite | ((rules.output_level == rules.max_level) & deletes),
            upgrade=np.array([-1 if file.level == rules.output_level else 0 for file in files]),
        ),
        rules.small_file_size,
    )
    assert not tasks.announced.any()
    rewritten, moved = (
        {file.file_name for file, is_one in zip(files, mask.tolist(), strict=True) if is_one}
        for mask in (tasks.rewritten, tasks.moved)
    )
    return rewritten, moved


def test_tree(rewrite: bool) -> None:
    datadriven.check(TESTDATA / "tree.txt", answer, rewrite)


def test_levels_make_room_for_deep_files() -> None:
    assert number_of_levels(level_runs([]), 6) == 6
    assert number_of_levels(level_runs([]), 1) == 2
    assert number_of_levels(level_runs([data_file(level=8)]), 6) == 9


ranges = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 15)), max_size=25)


@given(ranges)
def test_sections_partition_the_files(found: list[tuple[int, int]]) -> None:
    files = [
        data_file(str(i), min_key=b"%d" % low, max_key=b"%d" % (low + width))
        for i, (low, width) in enumerate(found)
    ]
    result = sections(files, int)
    assert sorted(file.file_name for section in result for file in section.files) == sorted(
        file.file_name for file in files
    )
    end = -1
    for section in result:
        assert min(int(file.min_key) for file in section.files) > end
        end = max(int(file.max_key) for file in section.files)
        for run in section.runs:
            assert all(int(a.max_key) < int(b.min_key) for a, b in pairwise(run))
        points = range(61 + 15)
        deepest = max(sum(int(f.min_key) <= p <= int(f.max_key) for f in section.files) for p in points)
        assert len(section.runs) == deepest


@given(ranges, st.integers(1, 5), st.booleans())
def test_a_pick_loses_no_file(found: list[tuple[int, int]], output: int, force: bool) -> None:
    files = [
        data_file(
            str(i), min_key=b"%d" % low, max_key=b"%d" % (low + width), level=i % 6, file_size=width * 10
        )
        for i, (low, width) in enumerate(found)
    ]
    rules = OutputRules(output_level=output, max_level=5, small_file_size=70, force_rewrite=force)
    work = divide(files, int, rules)
    merged = [file for stretch in work.rewrites for section in stretch for file in section.files]
    touched = [file.file_name for file in [*merged, *work.upgrades]]
    assert len(touched) == len(set(touched))
    left = {file.file_name for file in files} - set(touched)
    assert all(file.level == output for file in files if file.file_name in left)
    for before, after in pairwise(work.rewrites):
        assert max(int(f.max_key) for s in before for f in s.files) < min(
            int(f.min_key) for s in after for f in s.files
        )
