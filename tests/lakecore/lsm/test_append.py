"""Which append files are joined: a table of cases, and that joining comes to an end."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from lakecore.lsm import append
from lakecore.lsm.options import AppendPolicy, small_file_size
from lakecore.metadata.manifest.data_file import DataFile
from tests.support import datadriven

TESTDATA = Path(__file__).parent / "testdata"


def files_of(sizes: dict[str, int]) -> list[DataFile]:
    return [
        DataFile(
            file_name=name, file_size=size, row_count=1, min_sequence_number=number, max_sequence_number=number,
            schema_id=0,
        )
        for number, (name, size) in enumerate(sizes.items())
    ]  # fmt: skip


def policy_of(target: int, min_files: int = 5, cost: int = 0) -> AppendPolicy:
    return AppendPolicy(
        target_file_size=target,
        small_file_size=small_file_size(target),
        min_files=min_files,
        open_file_cost=cost,
    )


def answer(case: datadriven.Case) -> str:
    lines = [line.split() for line in case.input]
    files = files_of({name: int(size) for name, size, *_ in lines})
    groups = {name: group[0] for name, _, *group in lines if group}
    args = {name: int(value) for name, value in case.args.items()}
    policy = policy_of(args["target"], args.get("min", 5), args.get("cost", 0))
    if case.command == "unordered":
        bins = append.pick_unordered(files, policy)
    elif case.command == "deleted":
        bins = append.pick_deleted(files, groups, policy)
    elif case.command == "full" and groups:
        found = append.pick_full_ordered(files, policy, groups)
        bins = () if found is None else (found,)
    else:
        pick = append.pick_ordered if case.command == "ordered" else append.pick_full_ordered
        found = pick(files, policy)
        bins = () if found is None else (found,)
    return "\n".join(" ".join(file.file_name for file in files) for files in bins) or "nothing"


def test_append(rewrite: bool) -> None:
    datadriven.check(TESTDATA / "append.txt", answer, rewrite)


@given(st.lists(st.integers(0, 300), max_size=40), st.integers(1, 8))
def test_bins_hold_small_files_once(sizes: list[int], min_files: int) -> None:
    files = files_of({str(i): size for i, size in enumerate(sizes)})
    bins = append.pick_unordered(files, policy_of(100, min_files, 3))
    picked = [file.file_name for files in bins for file in files]
    assert len(picked) == len(set(picked))
    assert all(file.file_size < 70 for files in bins for file in files)
    assert all(len(files) >= 2 for files in bins)


@given(st.lists(st.integers(0, 300), max_size=40), st.integers(1, 8))
def test_ordered_picks_are_neighbours(sizes: list[int], min_files: int) -> None:
    files = files_of({str(i): size for i, size in enumerate(sizes)})
    for picked in (
        append.pick_ordered(files, policy_of(100, min_files)),
        append.pick_full_ordered(files, policy_of(100)),
    ):
        if picked is not None:
            numbers = [file.min_sequence_number for file in picked]
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
